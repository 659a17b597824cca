//! `GET /xrpc/{nsid}` of a subscription: a WebSocket that gets the changes of the lexicon's target collection (ADR 165).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tokio::time::{Instant, timeout_at};

use super::method;
use crate::access::Sender;
use crate::api::streams;
use crate::app::App;
use belvedere_instance::lexicons::Lexicon;
use belvedere_instance::subscriptions::{ChangeStream, Next, Wanted};
use belvedere_instance::xrpc::Caller;
use belvedere_protocol::atproto::Did;
use belvedere_protocol::atproto::event_stream::Subprotocol;
use belvedere_web::http::websocket::{self, Closing, Gone, Socket};
use belvedere_web::http::{Error, Request, Response};

/// Time between two looks whether the client may still be connected.
const CHECK_EVERY: Duration = Duration::from_secs(30);

/// Time after which an account has to authenticate again: its token may have expired.
const MAX_AGE: Duration = Duration::from_hours(1);

/// Accounts whose records one connection may ask for.
const MAX_DIDS: usize = 100;

/// # Errors
/// Before the upgrade: 426 without one, 400 for parameters that the lexicon does not allow, 429 and 503 for one connection too
/// many, 501 for a subscription without a target collection.
pub(super) fn answer(
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
    let given = method::params(&request);
    lexicons.params(lexicon.id.as_str(), &given).map_err(|error| Error::bad_request(error.to_string()))?;
    let cursor = cursor(&given)?;
    let dids = dids(&given)?;
    let chosen = websocket::offered_protocols(&request).find_map(Subprotocol::of_token);
    let default = || Subprotocol::of_lexicon(lexicons.schemas().subprotocol(lexicon.id.as_str()));
    let subprotocol = chosen.unwrap_or_else(default);
    let wanted = Wanted { nsid: lexicon.id.clone(), collection, dids, subprotocol };

    let address = Sender::of(&app.access, &request).tenant().clone();
    let (mut response, upgrade) = websocket::accept(&mut request)?;
    if let Some(chosen) = chosen {
        websocket::choose_protocol(&mut response, chosen.token());
    }
    let places = app.subscriptions.enter(&caller.tenant, &address).map_err(streams::refused)?;
    let (app, tasks) = (Arc::clone(app), app.tasks.clone());
    tasks.spawn(async move {
        if let Ok(socket) = upgrade.socket().await {
            let stream = app.subscriptions.stream(wanted, cursor);
            feed(&app, &caller, socket, stream).await;
        }
        drop(places);
    });
    Ok(response)
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

fn dids(given: &[(String, String)]) -> Result<Option<BTreeSet<Did>>, Error> {
    let mut dids = BTreeSet::new();
    for (_, text) in given.iter().filter(|(name, _)| name == "did") {
        dids.insert(
            Did::try_from(text.as_str())
                .map_err(|_| Error::bad_request("did must be a DID, not a handle"))?,
        );
    }
    if dids.len() > MAX_DIDS {
        return Err(Error::bad_request(format!("at most {MAX_DIDS} did parameters fit in one subscription")));
    }
    Ok(Some(dids).filter(|dids| !dids.is_empty()))
}

async fn feed(app: &App, caller: &Caller, mut socket: Socket, stream: ChangeStream) {
    let drain = app.lifecycle.drain.clone();
    let closing = match drain.run_until_cancelled(send_all(app, caller, &mut socket, stream)).await {
        Some(Err(Gone)) => return,
        Some(Ok(closing)) => closing,
        None => Closing::away("the server shuts down: connect again with your cursor"),
    };
    socket.close_with(closing).await;
}

/// Sends messages until the subscription ends. Returns the reason for the client.
async fn send_all(
    app: &App,
    caller: &Caller,
    socket: &mut Socket,
    mut stream: ChangeStream,
) -> Result<Closing, Gone> {
    let began = Instant::now();
    let mut check_at = began + CHECK_EVERY;
    loop {
        let mut next = socket.wait_for(timeout_at(check_at, stream.next())).await?.ok();
        if Instant::now() >= check_at {
            check_at = Instant::now() + CHECK_EVERY;
            if caller.client.as_ref().is_some_and(|id| app.access.clients.by_id(id).is_none()) {
                next = Some(stream.error("InvalidToken", "the API client is no longer active"));
            } else if caller.did.is_some() && began.elapsed() >= MAX_AGE {
                next = Some(stream.error("ExpiredToken", "authenticate again, and connect with your cursor"));
            }
        }
        match next {
            None => {}
            Some(Next::Frames(frames)) => socket.send_all(frames).await?,
            Some(Next::Error(frame, name)) => {
                socket.send_all([frame]).await?;
                return Ok(Closing::policy(name));
            }
            Some(Next::Closed) => return Ok(Closing::away("the subscription has changed: connect again")),
            Some(Next::Unreadable) => return Ok(Closing::error("the changes can't be read now")),
        }
    }
}
