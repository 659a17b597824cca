//! `POST /xrpc/{nsid}`: procedures write to the caller's repo with the session stored for it.

use std::sync::Arc;

use crate::access::XrpcCaller;
use crate::app::App;
use crate::atproto::lexicon::LexiconKind;
use crate::http::{Error, Request, Response};

/// Nobody has a stored session before the OAuth endpoints exist, so every known procedure ends in the answer that
/// a caller without one gets.
pub async fn handle(app: Arc<App>, caller: XrpcCaller, request: Request) -> Result<Response, Error> {
    app.registry
        .get(request.param("nsid"))
        .filter(|lexicon| lexicon.kind == LexiconKind::Procedure)
        .ok_or_else(|| Error::not_found("method not found"))?;
    match caller.did() {
        None => Err(Error::unauthorized("authentication required")),
        Some(_) => Err(Error::unauthorized("no PDS session is stored for this user")),
    }
}
