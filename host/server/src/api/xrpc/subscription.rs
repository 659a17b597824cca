//! `GET /xrpc/{nsid}` of a subscription: a WebSocket that gets the changes of the lexicon's target collection (ADR 165).

use std::collections::BTreeSet;
use std::sync::Arc;

use http::StatusCode;

use super::{input, socket};
use crate::app::App;
use crate::methods::account_named;
use belvedere_instance::lexicons::Lexicon;
use belvedere_instance::subscriptions::Wanted;
use belvedere_instance::xrpc::Caller;
use belvedere_protocol::atproto::Did;
use belvedere_protocol::atproto::event_stream::Subprotocol;
use belvedere_web::http::websocket;
use belvedere_web::http::{Error, Request, Response};

/// Accounts whose records one connection may ask for.
const MAX_DIDS: usize = 100;

/// # Errors
/// Before the upgrade: 426 without one, 400 for parameters that the lexicon does not allow, 429 and 503 for one connection too
/// many, 501 for a subscription without a target collection.
pub(super) async fn answer(
    app: &Arc<App>,
    caller: Caller,
    mut request: Request,
    lexicon: &Lexicon,
) -> Result<Response, Error> {
    let Some(collection) = lexicon.target_collection.clone() else {
        let text = "this subscription has no messages: its lexicon needs a target_collection";
        return Err(Error::new(StatusCode::NOT_IMPLEMENTED, text));
    };
    let lexicons = app.registry.snapshot();
    let given = input::params(&request);
    lexicons.params(lexicon.id.as_str(), &given).map_err(|error| Error::bad_request(error.to_string()))?;
    let cursor = cursor(&given)?;
    let dids = dids(app, &caller, &given).await?;
    let chosen = websocket::offered_protocols(&request).find_map(Subprotocol::of_token);
    let default = || Subprotocol::of_lexicon(lexicons.documents.subprotocol(lexicon.id.as_str()));
    let subprotocol = chosen.unwrap_or_else(default);
    let wanted = Wanted { nsid: lexicon.id.clone(), collection, dids, subprotocol };

    let mut accepted = socket::accept(app, &caller, &mut request)?;
    if let Some(chosen) = chosen {
        websocket::choose_protocol(&mut accepted.response, chosen.token());
    }
    let messages = app.subscriptions.stream(wanted, cursor);
    Ok(socket::open(app, caller, accepted, messages))
}

fn cursor(given: &[(String, String)]) -> Result<Option<i64>, Error> {
    let Some((_, text)) = given.iter().find(|(name, _)| name == "cursor") else { return Ok(None) };
    let cursor = text.parse::<i64>().ok().filter(|cursor| *cursor >= 0);
    cursor.map(Some).ok_or_else(|| {
        Error::bad_request(
            "cursor must be the seq of the last message that was received, or 0 for all that are kept",
        )
    })
}

async fn dids(
    app: &App,
    caller: &Caller,
    given: &[(String, String)],
) -> Result<Option<BTreeSet<Did>>, Error> {
    let named: BTreeSet<&str> =
        given.iter().filter(|(name, _)| name == "did").map(|(_, text)| text.as_str()).collect();
    if named.len() > MAX_DIDS {
        return Err(Error::bad_request(format!("at most {MAX_DIDS} did parameters fit in one subscription")));
    }
    let mut dids = BTreeSet::new();
    for text in named {
        dids.insert(account_named(app, caller, "did", text).await?);
    }
    Ok(Some(dids).filter(|dids| !dids.is_empty()))
}
