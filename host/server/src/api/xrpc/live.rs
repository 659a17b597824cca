//! `GET /xrpc/{nsid}` of a query with `Upgrade: websocket`: its answer, and the differences of later ones (ADR 169).

use std::sync::Arc;

use super::{input, socket};
use crate::api::streams;
use crate::app::App;
use crate::methods::live::{self, Refused};
use belvedere_instance::xrpc::{Call, Caller, Verb};
use belvedere_protocol::atproto::Nsid;
use belvedere_protocol::atproto::event_stream::Subprotocol;
use belvedere_web::http::websocket;
use belvedere_web::http::{Error, Request, Response};

/// # Errors
/// Before the upgrade: those of the query, 501 for one that can't be watched, 429 and 503 for too many.
pub(super) async fn answer(
    app: &Arc<App>,
    caller: Caller,
    mut request: Request,
    nsid: Nsid,
) -> Result<Response, Error> {
    let (params, headers) = (input::params(&request), input::headers(app, &request)?);
    let call = Call { verb: Verb::Query, nsid, params, input: None, caller, headers };
    let only = Subprotocol::V1Json.token();
    let is_offered = websocket::offered_protocols(&request).any(|token| token == only);
    let mut accepted = socket::accept(app, &call.caller, &mut request)?;
    if is_offered {
        websocket::choose_protocol(&mut accepted.response, only);
    }
    let messages = live::watch(app, &call).await.map_err(|refused| match refused {
        Refused::Busy(full) => streams::refused(full),
        Refused::Failed(error) => error,
    })?;
    Ok(socket::open(app, call.caller, accepted, messages))
}
