//! `GET /xrpc/{nsid}`: the script bound to the method, or else the built-in query.

use std::sync::Arc;

use super::builtin;
use crate::access::XrpcCaller;
use crate::app::App;
use crate::atproto::lexicon::LexiconKind;
use crate::http::{Error, Request, Response};

pub async fn handle(app: Arc<App>, _caller: XrpcCaller, request: Request) -> Result<Response, Error> {
    let lexicon = app
        .registry
        .get(request.param("nsid"))
        .filter(|lexicon| lexicon.kind == LexiconKind::Query)
        .ok_or_else(|| Error::not_found("method not found"))?;
    builtin::query(&app, &lexicon, &request).await
}
