//! Connections of subscriptions and live queries: sends their messages until they end.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::access::Sender;
use crate::api::streams;
use crate::app::App;
use belvedere_instance::subscriptions::{Messages, Next, Places};
use belvedere_instance::xrpc::Caller;
use belvedere_web::http::websocket::{self, Closing, Gone, Socket, Upgrade};
use belvedere_web::http::{Error, Request, Response};

/// Time between two looks whether the client may still be connected.
const CHECK_EVERY: Duration = Duration::from_secs(30);

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

/// Sends messages until the subscription ends. Returns the reason for the client.
async fn send_all(
    app: &App,
    caller: &Caller,
    socket: &mut Socket,
    mut messages: impl Messages,
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
