//! `GET /xrpc/{nsid}` of a subscription: a WebSocket that gets the changes of the lexicon's target collection (ADR 165).

use std::collections::BTreeSet;
use std::sync::Arc;

use http::StatusCode;

use super::{input, socket};
use crate::api::streams;
use crate::app::App;
use crate::methods::{account_named, record_named};
use belvedere_instance::lexicons::Lexicon;
use belvedere_instance::subscriptions::{Selection, Wanted};
use belvedere_instance::xrpc::Caller;
use belvedere_protocol::atproto::event_stream::Subprotocol;
use belvedere_protocol::atproto::{Did, Nsid, RecordUri};
use belvedere_storage::query::valid;
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
    let record = record(app, &caller, &given, &collection).await?;
    let named = |wanted: &str| given.iter().find(|(name, _)| name == wanted).map(|(_, text)| text.as_str());
    let valid = valid(named("valid")).map_err(|invalid| Error::bad_request(invalid.to_string()))?;
    let chosen = websocket::offered_protocols(&request).find_map(Subprotocol::of_token);
    let default = || Subprotocol::of_lexicon(lexicons.documents.subprotocol(lexicon.id.as_str()));
    let subprotocol = chosen.unwrap_or_else(default);
    let mut params = given;
    params.retain(|(name, _)| name != "cursor");
    params.sort_by(|(a, _), (b, _)| a.cmp(b));
    let selection = Selection { nsid: lexicon.id.clone(), collection, dids, record, valid, params };
    let wanted = Wanted { selection: Arc::new(selection), subprotocol };
    let messages = app.subscriptions.stream(wanted, cursor, &caller.tenant).map_err(streams::refused)?;

    let mut accepted = socket::accept(app, &caller, &mut request)?;
    if let Some(chosen) = chosen {
        websocket::choose_protocol(&mut accepted.response, chosen.token());
    }
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

/// The only record whose changes are shown, by its AT URI, which may name a handle.
async fn record(
    app: &App,
    caller: &Caller,
    given: &[(String, String)],
    collection: &Nsid,
) -> Result<Option<RecordUri>, Error> {
    let Some((_, text)) = given.iter().find(|(name, _)| name == "uri") else { return Ok(None) };
    let uri = record_named(app, caller, text).await?;
    if uri.collection != *collection {
        return Err(Error::bad_request(format!("uri must be that of a record of {collection}")));
    }
    Ok(Some(uri))
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
