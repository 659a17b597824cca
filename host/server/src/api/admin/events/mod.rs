//! `/admin/events`: lists, counts and removes events of the event log.

pub mod stream;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::access::Admin;
use crate::api::answer::{Json, JsonResult};
use crate::api::input::{WithBody, WithQuery};
use crate::api::paging::Page;
use crate::app::App;
use belvedere_base::clock::Timestamp;
use belvedere_instance::events::{Event, EventQuery, InvalidEventQuery};
use belvedere_instance::jobs::purge;
use belvedere_storage::query::PageSize;
use belvedere_storage::store::events::{self, Authentication, EventFilter, EventKeyset, EventRow, Severity};
use belvedere_web::fair_share::Tenant;
use belvedere_web::http::Error;

#[derive(Debug, Serialize, JsonSchema)]
pub struct EventList {
    events: Vec<EventView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Event")]
pub struct EventView {
    id: String,
    event_type: String,
    severity: Severity,
    actor_did: Option<String>,
    subject: Option<String>,
    detail: Box<RawValue>,
    created_at: Timestamp,
    /// The IP address of the client whose request caused the event. Null: the server itself caused it.
    address: Option<String>,
    /// The way in which that client authenticated. Null: it did not.
    authentication: Option<Authentication>,
    /// The name of its API key.
    api_key: Option<String>,
}

impl EventView {
    pub(super) fn new(row: EventRow) -> Result<Self, serde_json::Error> {
        Ok(Self {
            detail: RawValue::from_string(row.detail)?,
            id: row.id,
            event_type: row.event_type,
            severity: row.severity,
            actor_did: row.actor_did,
            subject: row.subject,
            created_at: row.created_at,
            address: row.requester.address,
            authentication: row.requester.authentication,
            api_key: row.requester.api_key,
        })
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct EventListQuery {
    #[serde(flatten)]
    events: EventQuery,
    #[serde(flatten)]
    page: Page,
}

/// `GET /admin/events`: the event log, newest first.
pub async fn list(app: Arc<App>, admin: Admin, request: WithQuery<EventListQuery>) -> JsonResult<EventList> {
    let EventListQuery { events, page } = request.parameters()?;
    let limit = page.limit(PageSize::LOGS)?;
    let after = page.cursor().map(|text| keyset(&text)).transpose()?;
    let filter = conditions(&app, events).await?.filter().map_err(bad_query)?;
    let filter = EventFilter { after, ..filter };

    // Makes sure that the caller's own last actions are in the answer.
    app.events.flush().await;
    // No index finds a part of a subject.
    let _permit = match &filter.subject {
        Some(_) => Some(app.db.scan_permit(&Tenant::of_did(admin.did.as_str())).await?),
        None => None,
    };
    let mut rows = events::list(&app.db, &filter, limit + 1).await?;
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let cursor = rows.last().filter(|_| more).map(|row| cursor(row.created_at, &row.id));
    let events = rows.into_iter().map(EventView::new).collect::<Result<_, _>>().map_err(Error::internal)?;
    Ok(Json(EventList { events, cursor }))
}

/// The conditions without blank ones, and with the DID of an actor that is named by its handle.
async fn conditions(app: &App, query: EventQuery) -> Result<EventQuery, Error> {
    let query = query.without_blanks();
    let Some(actor) = &query.actor else { return Ok(query) };
    let did = app.core.resolver.account(actor).await?;
    Ok(EventQuery { actor: Some(did.to_string()), ..query })
}

fn bad_query(invalid: InvalidEventQuery) -> Error {
    Error::bad_request(invalid.to_string())
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Count {
    pub count: i64,
}

/// `GET /admin/events/count`: how many events match the same conditions as those of the list.
pub async fn count(app: Arc<App>, admin: Admin, request: WithQuery<EventQuery>) -> JsonResult<Count> {
    let filter = conditions(&app, request.parameters()?).await?.filter().map_err(bad_query)?;
    app.events.flush().await;
    let _permit = app.db.scan_permit(&Tenant::of_did(admin.did.as_str())).await?;
    let count = events::count(&app.db, &filter).await?;
    Ok(Json(Count { count }))
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct EventPurge {
    job_id: String,
}

/// `POST /admin/events/purge`: removes the matching events that are older than the request, in a background job.
pub async fn purge(
    app: Arc<App>,
    admin: Admin,
    request: WithBody<EventQuery>,
) -> JsonResult<EventPurge, 202> {
    let query = conditions(&app, request.json_or_default()?).await?;
    query.filter().map_err(bad_query)?;
    if query == EventQuery::default() {
        return Err(Error::bad_request(
            "name at least one of event_type, category, severity, subject, subject_is, actor, address, after and before; \
             before with the present time removes all events",
        ));
    }
    // Events that were recorded before the request are removed too.
    app.events.flush().await;
    let actor = admin.did.to_string();
    let job_id = app.scripting.jobs.create_own(purge::TYPE, &query, &actor).await?;
    let detail = serde_json::to_value(&query).map_err(Error::internal)?;
    app.events.record(Event::EventLogPurged { actor, job_id: job_id.clone(), query: detail });
    Ok(Json(EventPurge { job_id }))
}

/// The specification's cursor is the time of the last event. The id behind it distinguishes events of one microsecond;
/// a client that builds a cursor from a timestamp of its own can omit it.
fn cursor(created_at: Timestamp, id: &str) -> String {
    format!("{created_at}_{id}")
}

fn keyset(text: &str) -> Result<EventKeyset, Error> {
    let (time, id) = text.split_once('_').map_or((text, None), |(time, id)| (time, Some(id.to_owned())));
    let created_at = Timestamp::parse(time).map_err(|_| {
        Error::bad_request("cursor must be the cursor of an earlier answer, or an RFC 3339 time")
    })?;
    Ok(EventKeyset { created_at, id })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_read_back_and_may_be_plain_times() {
        let at = Timestamp(1_700_000_000_000_001);
        let keyset_of = |id: Option<&str>| EventKeyset { created_at: at, id: id.map(str::to_owned) };
        assert_eq!(keyset(&cursor(at, "abc")).unwrap(), keyset_of(Some("abc")));
        assert_eq!(keyset("2023-11-14T22:13:20.000001Z").unwrap(), keyset_of(None));
        assert_eq!(keyset("nonsense").unwrap_err().status, 400);
    }
}
