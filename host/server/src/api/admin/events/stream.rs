//! `GET /admin/events/stream`: new events as they occur, as server-sent events: an event as in the list, and `missed`
//! when some were left out.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{EventView, bad_query, conditions, cursor};
use crate::access::Admin;
use crate::api::answer::{Built, Events};
use crate::api::input::WithQuery;
use crate::api::streams;
use crate::app::App;
use belvedere_instance::events::{EventQuery, Message};
use belvedere_web::fair_share::Tenant;
use belvedere_web::http::Error;

/// A comment, which is sent at once: browsers take a stream for open when its first bytes arrive.
const OPEN: Bytes = Bytes::from_static(b": open\n\n");

/// Tells the reader to load the list again.
const MISSED: Bytes = Bytes::from_static(b"event: missed\ndata: {}\n\n");

/// Parameters of the list that say which events of the past are wanted.
const OF_THE_PAST: [&str; 4] = ["after", "before", "cursor", "limit"];

/// The conditions of the list that new events can meet.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct EventStreamQuery {
    event_type: Option<String>,
    /// First segments of event types, separated by commas.
    category: Option<String>,
    /// Separated by commas.
    severity: Option<String>,
    /// A part of the subject.
    subject: Option<String>,
    /// The whole subject.
    subject_is: Option<String>,
    /// The IP address of the client whose request caused the event.
    address: Option<String>,
    /// The account that acted: a DID or a handle.
    actor: Option<String>,
}

pub async fn get(
    app: Arc<App>,
    admin: Admin,
    request: WithQuery<EventStreamQuery>,
) -> Result<Built<Events>, Error> {
    if let Some(name) = OF_THE_PAST.into_iter().find(|name| request.query(name).is_some()) {
        let text = format!(
            "{name} is not allowed: the stream has new events only; GET /admin/events has the others"
        );
        return Err(Error::bad_request(text));
    }
    let EventStreamQuery { event_type, category, severity, subject, subject_is, address, actor } =
        request.parameters()?;
    let (after, before) = (None, None);
    let query =
        EventQuery { event_type, category, severity, subject, subject_is, address, actor, after, before };
    let filter = conditions(&app, query).await?.filter().map_err(bad_query)?;
    let user = Tenant::of_did(admin.did.as_str());
    let messages = app.event_feed.follow(&user, filter, format).map_err(streams::refused)?;
    let messages = stream::iter([OPEN]).chain(messages);
    Ok(streams::open(&app, &admin, &request, messages).into())
}

/// A message without a type is of the type `message`, and its id is the cursor behind the event.
fn format(message: &Message) -> Bytes {
    let Message::Event(row) = message else { return MISSED };
    let id = cursor(row.created_at, &row.id);
    match EventView::new(row.as_ref().clone()).and_then(|view| serde_json::to_string(&view)) {
        Ok(data) => format!("id: {id}\ndata: {data}\n\n").into(),
        // The row's detail is not JSON: the list reports it.
        Err(_) => MISSED,
    }
}
