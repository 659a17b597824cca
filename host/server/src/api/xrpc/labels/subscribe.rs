//! `com.atproto.label.subscribeLabels`: all labels from a cursor on, then new ones as they are issued.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::api::streams;
use crate::app::App;
use crate::methods::query_labels::labeler;
use belvedere_instance::labels::{LabelSubscription, Signed};
use belvedere_protocol::atproto::labels::error_message;
use belvedere_storage::store::issued_labels;
use belvedere_web::fair_share::Tenant;
use belvedere_web::http::websocket::{self, Gone, Socket};
use belvedere_web::http::{Error, Request, Response};

/// Labels that are read at a time.
const PAGE: u32 = 100;

/// Time after which a subscription without new labels looks whether the instance is still the same labeler.
const CHECK_EVERY: Duration = Duration::from_secs(10);

pub(super) fn answer(app: &Arc<App>, tenant: &Tenant, mut request: Request) -> Result<Response, Error> {
    labeler(app)?;
    let cursor = match request.query("cursor") {
        None => None,
        Some(text) => Some(text.parse::<i64>().ok().filter(|cursor| *cursor >= 0).ok_or_else(|| {
            Error::bad_request("cursor must be the seq of the last message that was received, or 0 for all")
        })?),
    };
    let (response, upgrade) = websocket::accept(&mut request)?;
    let subscription = app.label_feed.subscribe(tenant).map_err(streams::refused)?;
    let (app, tasks) = (Arc::clone(app), app.tasks.clone());
    tasks.spawn(async move {
        let Ok(socket) = upgrade.socket().await else { return };
        feed(&app, socket, subscription, cursor).await;
    });
    Ok(response)
}

/// The reason why a subscription ends.
enum End {
    Gone,
    /// The instance has another DID, or is no labeler any more, or the database can't be read: the subscriber connects again.
    Closed(&'static str),
}

impl From<Gone> for End {
    fn from(Gone: Gone) -> Self {
        Self::Gone
    }
}

async fn feed(app: &App, mut socket: Socket, subscription: LabelSubscription, cursor: Option<i64>) {
    let drain = app.lifecycle.drain.clone();
    let reason = match drain.run_until_cancelled(send_all(app, &mut socket, subscription, cursor)).await {
        Some(Err(End::Gone)) => return,
        Some(Err(End::Closed(reason))) => reason,
        Some(Ok(())) => "the cursor is in the future",
        None => "the server shuts down",
    };
    socket.close(reason).await;
}

/// Sends labels until the subscription ends; `Ok` after the error of a cursor in the future.
async fn send_all(
    app: &App,
    socket: &mut Socket,
    mut subscription: LabelSubscription,
    cursor: Option<i64>,
) -> Result<(), End> {
    let unreadable = |_| End::Closed("the labels can't be read now");
    let last = issued_labels::last_seq(&app.db).await.map_err(unreadable)?;
    let mut seq = cursor.unwrap_or(last);
    if seq > last {
        socket.send(error_message("FutureCursor", "the cursor is in the future")).await?;
        return Ok(());
    }
    let source = app.service_identity.did();
    loop {
        // The key may have been replaced.
        let labeler = app.service_identity.labeler().filter(|labeler| labeler.did == source);
        let labeler = labeler.ok_or(End::Closed("this server's identity has changed"))?;
        let page = issued_labels::after(&app.db, source.as_str(), seq, PAGE).await.map_err(unreadable)?;
        for issued in &page {
            socket.send(Signed::new(&labeler, issued).message()).await?;
            seq = issued.seq;
        }
        let is_all = page.len() < PAGE as usize;
        let pause = if is_all { CHECK_EVERY } else { Duration::ZERO };
        // An error means that the time is over.
        let _ = socket.wait_for(timeout(pause, subscription.changed())).await?;
    }
}
