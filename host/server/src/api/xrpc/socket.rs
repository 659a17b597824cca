//! Connections of subscriptions and live queries: sends their messages until they end.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tokio::time::{Instant, sleep, timeout_at};

use crate::access::Sender;
use crate::api::streams;
use crate::app::App;
use belvedere_instance::subscriptions::{Messages, Next, Places};
use belvedere_instance::xrpc::Caller;
use belvedere_web::http::websocket::{self, Closing, Gone, Socket, Upgrade};
use belvedere_web::http::{Error, Request, Response};

/// Time between two looks whether the client may still be connected.
const CHECK_EVERY: Duration = Duration::from_secs(30);

/// Time after which a caller without tokens is charged again.
const PAY_AGAIN_AFTER: Duration = Duration::from_millis(500);

/// Time after which an account has to authenticate again: its token may have expired.
const MAX_AGE: Duration = Duration::from_hours(1);

/// The response to a handshake whose places are taken, and the rest of the connection.
pub(super) struct Accepted {
    pub(super) response: Response,
    upgrade: Upgrade,
    places: Places,
}

/// Reads the handshake of a request and takes the places of its connection.
///
/// # Errors
/// 400 and 426 for the handshake, 429 and 503 for too many connections.
pub(super) fn accept(app: &App, caller: &Caller, request: &mut Request) -> Result<Accepted, Error> {
    let address = Sender::of(&app.access, request).tenant().clone();
    let (response, upgrade) = websocket::accept(request)?;
    let places = app.subscriptions.places().enter(&caller.tenant, caller.did.as_ref(), &address);
    Ok(Accepted { response, upgrade, places: places.map_err(streams::refused)? })
}

/// Sends messages in a task of its own, once the response has been written.
pub(super) fn open(
    app: &Arc<App>,
    caller: Caller,
    accepted: Accepted,
    messages: impl Messages + 'static,
) -> Response {
    let Accepted { response, upgrade, places } = accepted;
    let (app, tasks) = (Arc::clone(app), app.tasks.clone());
    tasks.spawn(async move {
        if let Ok(socket) = upgrade.socket().await {
            feed(&app, &caller, socket, messages).await;
        }
        drop(places);
    });
    response
}

async fn feed(app: &App, caller: &Caller, mut socket: Socket, messages: impl Messages) {
    let drain = app.lifecycle.drain.clone();
    let closing = match drain.run_until_cancelled(send_all(app, caller, &mut socket, messages)).await {
        Some(Err(Gone)) => return,
        Some(Ok(closing)) => closing,
        None => Closing::away("the server shuts down: connect again with your cursor"),
    };
    socket.close_with(closing).await;
}

/// Charges messages. A caller without tokens gets them later. One that has been removed is disconnected by the next look.
async fn pay(app: &App, caller: &Caller, socket: &mut Socket, count: usize) -> Result<(), Gone> {
    while let Err(error) = app.access.charge_messages(caller, count) {
        if error.status != StatusCode::TOO_MANY_REQUESTS {
            break;
        }
        socket.wait_for(sleep(PAY_AGAIN_AFTER)).await?;
    }
    Ok(())
}

/// Sends messages until the subscription ends. Returns the reason for the client.
async fn send_all<M: Messages>(
    app: &App,
    caller: &Caller,
    socket: &mut Socket,
    mut messages: M,
) -> Result<Closing, Gone> {
    let began = Instant::now();
    let mut check_at = began + CHECK_EVERY;
    loop {
        let mut next = socket.wait_for(timeout_at(check_at, messages.next())).await?.ok();
        if Instant::now() >= check_at {
            check_at = Instant::now() + CHECK_EVERY;
            if caller.client.as_ref().is_some_and(|id| app.access.clients.by_id(id).is_none()) {
                next = Some(messages.error("InvalidToken", "the API client is no longer active"));
            } else if caller.did.is_some() && began.elapsed() >= MAX_AGE {
                next =
                    Some(messages.error("ExpiredToken", "authenticate again, and connect with your cursor"));
            }
        }
        match next {
            None => {}
            Some(Next::Frames(frames)) => {
                if M::ARE_CHARGED && !frames.is_empty() {
                    pay(app, caller, socket, frames.len()).await?;
                }
                socket.send_all(frames).await?;
            }
            Some(Next::Error(frame, name)) => {
                socket.send_all([frame]).await?;
                return Ok(Closing::policy(name));
            }
            Some(Next::Closed) => return Ok(Closing::away("the subscription has changed: connect again")),
            Some(Next::Unreadable) => return Ok(Closing::error("the changes can't be read now")),
        }
    }
}
