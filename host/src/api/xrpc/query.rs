//! `GET /xrpc/{nsid}`: the script bound to the method, or else the built-in query; methods without a lexicon here
//! are forwarded.

use std::sync::Arc;

use super::{builtin, forward, scripted};
use crate::access::XrpcCaller;
use crate::app::App;
use crate::atproto::lexicon::LexiconKind;
use crate::http::{Error, Request, Response};
use crate::trigger::TriggerKind;

pub async fn handle(app: Arc<App>, caller: XrpcCaller, request: Request) -> Result<Response, Error> {
    let Some(lexicon) = app.registry.get(request.param("nsid")) else {
        return Ok(forward::forward(&app, &caller.tenant(), &request).await?);
    };
    if lexicon.kind != LexiconKind::Query {
        return Err(Error::not_found("method not found"));
    }
    // One lookup a request; the key is the trigger as it is stored.
    match app.library.get(&format!("{}:{}", TriggerKind::Query.as_str(), lexicon.id)) {
        Some(script) => scripted::query(&app, &script, &lexicon, &caller, &request).await,
        None => builtin::query(&app, &lexicon, &caller, &request).await,
    }
}
