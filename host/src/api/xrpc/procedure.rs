//! `POST /xrpc/{nsid}`: the script bound to the method, or else a write to the caller's repo with the session stored
//! for it. Methods without a lexicon here are forwarded.

use std::sync::Arc;

use super::{forward, scripted, write};
use crate::access::XrpcCaller;
use crate::app::App;
use crate::atproto::Nsid;
use crate::atproto::lexicon::LexiconKind;
use crate::http::{Error, Request, Response};
use crate::scripts::CompiledScript;
use crate::trigger::TriggerKind;

pub async fn handle(app: Arc<App>, caller: XrpcCaller, request: Request) -> Result<Response, Error> {
    let lexicon = app.registry.get(request.param("nsid"));
    if lexicon.as_ref().is_some_and(|lexicon| lexicon.kind != LexiconKind::Procedure) {
        return Err(Error::not_found("method not found"));
    }
    if caller.did().is_none() {
        return Err(Error::unauthorized("authentication required"));
    }
    let Some(lexicon) = lexicon else {
        return Ok(forward::forward(&app, &caller.tenant(), &request).await?);
    };
    match app.library.get(&format!("{}:{}", TriggerKind::Procedure.as_str(), lexicon.id)) {
        Some(script) if caller.is_bound() && calls_others(&script, &lexicon.id) => {
            Err(Error::unauthorized("the token is for this method only, and its script calls others"))
        }
        Some(script) => scripted::procedure(&app, &script, &lexicon, &caller, &request).await,
        None => write::write(&app, &lexicon, &caller, &request).await,
    }
}

/// Whether the script of `method` names any other method.
fn calls_others(script: &CompiledScript, method: &Nsid) -> bool {
    script.methods().iter().any(|named| named != method.as_str())
}
