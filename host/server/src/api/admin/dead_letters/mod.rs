//! `/admin/dead-letters`: lists, dismisses, retries and reindexes events whose script failed.

pub mod bulk;

use std::sync::Arc;

use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::access::Admin;
use crate::api::admin::events::Count;
use crate::api::answer::{Json, JsonResult};
use crate::api::input::WithQuery;
use crate::api::paging::Page;
use crate::app::App;
use crate::event_scripts::{RetryError, original_event};
use belvedere_base::clock::Timestamp;
use belvedere_instance::events::Event;
use belvedere_instance::indexing::fetch;
use belvedere_instance::indexing::{RecordAction, RecordEvent};
use belvedere_storage::query::PageSize;
use belvedere_storage::store::dead_letters::{self, DeadLetterFilter, DeadLetterRow};
use belvedere_storage::store::index::{Change, CheckedRecord};
use belvedere_web::http::{Error, Request};

#[derive(Debug, Deserialize, JsonSchema)]
pub struct DeadLetterQuery {
    collection: Option<String>,
    /// `true`, `false` or `all`.
    resolved: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct DeadLetterListQuery {
    #[serde(flatten)]
    letters: DeadLetterQuery,
    #[serde(flatten)]
    page: Page,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Done {
    ok: bool,
}

/// Reads `collection` and `resolved` from the query: absent or `false` selects unresolved letters, `true` resolved
/// ones, any other value both.
fn filter(query: DeadLetterQuery) -> DeadLetterFilter {
    let resolved = match query.resolved.as_deref() {
        None | Some("" | "false") => Some(false),
        Some("true") => Some(true),
        Some(_) => None,
    };
    let collection = query.collection.filter(|collection| !collection.is_empty());
    DeadLetterFilter { collection, resolved, before: None }
}

fn not_found() -> Error {
    Error::not_found("dead letter not found")
}

/// The letter that a path or a bulk request names. Ids are numbers, written as text.
async fn find(app: &App, id: &str) -> Result<DeadLetterRow, Error> {
    let id = id.parse().map_err(|_| not_found())?;
    dead_letters::get(&app.db, id).await?.ok_or_else(not_found)
}

/// Checks that a letter is not resolved.
fn check_unresolved(row: &DeadLetterRow) -> Result<(), Error> {
    if row.resolved_at.is_some() {
        return Err(Error::not_found("the dead letter is already resolved"));
    }
    Ok(())
}

/// Applies the script's decision to the index, and resolves the letter. A newer version of the record is not
/// overwritten.
async fn apply(app: &App, row: &DeadLetterRow, change: Change) -> Result<(), Error> {
    let closed = |_| Error::new(StatusCode::SERVICE_UNAVAILABLE, "the server is shutting down");
    app.stream.writer().submit(change).await.map_err(closed)?;
    dead_letters::resolve(&app.db, row.id, app.clock.now()).await.map_err(Error::from).map(drop)
}

/// Records a script failure on the dead letter, and maps the error to a response. A script failure is a 500, with its
/// text in the letter.
async fn record_failure(app: &App, row: &DeadLetterRow, error: RetryError) -> Error {
    match error {
        RetryError::NotARecord => Error::bad_request("only dead letters of record events can be retried"),
        RetryError::NoScript => Error::not_found(error.to_string()),
        RetryError::Unreadable(what) => Error::internal(format!("dead letter {}: {what}", row.id)),
        RetryError::Failed(failure) => {
            let message = app.scripting.runtime.services.variables.redact(&failure.message);
            match dead_letters::failed_again(&app.db, row.id, &message).await {
                Ok(()) => Error::new(StatusCode::INTERNAL_SERVER_ERROR, failure.public_text()),
                Err(error) => Error::from(error),
            }
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "DeadLetter")]
struct DeadLetterView {
    id: String,
    lexicon_id: String,
    uri: String,
    did: String,
    collection: String,
    rkey: String,
    /// create, update, delete or label.
    action: String,
    error: String,
    attempts: i64,
    created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    resolved_at: Option<Timestamp>,
}

/// A letter with the record, or the whole label.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DeadLetterDetail {
    #[serde(flatten)]
    letter: DeadLetterView,
    script: String,
    record: Option<Box<RawValue>>,
}

impl From<DeadLetterRow> for DeadLetterView {
    fn from(row: DeadLetterRow) -> Self {
        let letter = row.letter;
        Self {
            id: row.id.to_string(),
            lexicon_id: letter.lexicon_id,
            uri: letter.uri,
            did: letter.did,
            collection: letter.collection,
            rkey: letter.rkey,
            action: letter.action,
            error: row.error,
            attempts: row.attempts,
            created_at: row.created_at,
            resolved_at: row.resolved_at,
        }
    }
}

impl DeadLetterDetail {
    fn new(mut row: DeadLetterRow) -> Result<Self, serde_json::Error> {
        let record = row.letter.payload.take().map(RawValue::from_string).transpose()?;
        let script = std::mem::take(&mut row.letter.script_ref);
        Ok(Self { letter: row.into(), script, record })
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct DeadLetterList {
    dead_letters: Vec<DeadLetterView>,
    /// Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

/// `GET /admin/dead-letters`: the events whose script failed, newest first.
pub async fn list(
    app: Arc<App>,
    _admin: Admin,
    request: WithQuery<DeadLetterListQuery>,
) -> JsonResult<DeadLetterList> {
    let DeadLetterListQuery { letters, page } = request.parameters()?;
    let limit = page.limit(PageSize::LOGS)?;
    let before = page.cursor().map(|cursor| cursor.parse()).transpose();
    let before = before.map_err(|_| Error::bad_request("cursor must be the cursor of an earlier answer"))?;
    let filter = DeadLetterFilter { before, ..filter(letters) };
    let mut rows = dead_letters::list(&app.db, &filter, limit + 1).await?;
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let cursor = rows.last().filter(|_| more).map(|row| row.id.to_string());
    let dead_letters = rows.into_iter().map(DeadLetterView::from).collect();
    Ok(Json(DeadLetterList { dead_letters, cursor }))
}

/// `GET /admin/dead-letters/{id}`: a dead letter, with the record or the label that it is about.
pub async fn get(app: Arc<App>, _admin: Admin, request: Request) -> JsonResult<DeadLetterDetail> {
    let row = find(&app, request.param("id")).await?;
    DeadLetterDetail::new(row).map(Json).map_err(Error::internal)
}

/// `GET /admin/dead-letters/count`: the number of those that match.
pub async fn count(app: Arc<App>, _admin: Admin, request: WithQuery<DeadLetterQuery>) -> JsonResult<Count> {
    let count = dead_letters::count(&app.db, &filter(request.parameters()?)).await?;
    Ok(Json(Count { count }))
}

/// `POST /admin/dead-letters/{id}/dismiss`: resolves the letter and leaves the index as it is. Idempotent.
pub async fn dismiss(app: Arc<App>, admin: Admin, request: Request) -> JsonResult<Done> {
    let row = find(&app, request.param("id")).await?;
    dismiss_one(&app, &admin, &row).await?;
    Ok(Json(Done { ok: true }))
}

async fn dismiss_one(app: &App, admin: &Admin, row: &DeadLetterRow) -> Result<(), Error> {
    if row.resolved_at.is_some() {
        return Ok(());
    }
    dead_letters::resolve(&app.db, row.id, app.clock.now()).await?;
    app.events.record(Event::DeadLetterDismissed {
        actor: admin.did.to_string(),
        id: row.id.to_string(),
        subject: row.letter.uri.clone(),
    });
    Ok(())
}

/// `POST /admin/dead-letters/{id}/reindex`: fetches the record from its PDS, and indexes it as an event would be,
/// script included.
pub async fn reindex(app: Arc<App>, admin: Admin, request: Request) -> JsonResult<Done> {
    let row = find(&app, request.param("id")).await?;
    reindex_one(&app, &admin, &row).await?;
    Ok(Json(Done { ok: true }))
}

async fn reindex_one(app: &App, admin: &Admin, row: &DeadLetterRow) -> Result<(), Error> {
    check_unresolved(row)?;
    let done = fetch_and_index(app, row).await;
    app.events.record(Event::DeadLetterReindexed {
        actor: admin.did.to_string(),
        id: row.id.to_string(),
        subject: row.letter.uri.clone(),
        error: done.as_ref().err().map(ToString::to_string),
    });
    done
}

async fn fetch_and_index(app: &App, row: &DeadLetterRow) -> Result<(), Error> {
    let event = match original_event(&row.letter) {
        Ok(event) => event,
        Err(error) => return Err(record_failure(app, row, error).await),
    };
    let uri = &event.change.uri;
    let fetched = fetch::record(&app.core.net, &app.core.resolver, uri).await.map_err(|error| {
        let public =
            Error::new(StatusCode::INTERNAL_SERVER_ERROR, "the record could not be fetched from its PDS");
        Error { cause: Some(Box::new(error)), ..public }
    })?;
    match app.scripting.events.decide_fetched(current_event(event, fetched)).await {
        Ok(change) => apply(app, row, change).await,
        Err(error) => Err(record_failure(app, row, error).await),
    }
}

/// The event that makes the index match the PDS.
fn current_event(event: RecordEvent, record: Option<CheckedRecord>) -> RecordEvent {
    let action = match event.action {
        _ if record.is_none() => RecordAction::Delete,
        RecordAction::Delete => RecordAction::Create,
        action => action,
    };
    RecordEvent { action, change: Change { record, ..event.change } }
}

/// `POST /admin/dead-letters/{id}/retry`: runs the script that is currently bound on the original event, and applies
/// its decision to the index.
pub async fn retry(app: Arc<App>, admin: Admin, request: Request) -> JsonResult<Done> {
    let row = find(&app, request.param("id")).await?;
    retry_one(&app, &admin, &row).await?;
    Ok(Json(Done { ok: true }))
}

async fn retry_one(app: &App, admin: &Admin, row: &DeadLetterRow) -> Result<(), Error> {
    check_unresolved(row)?;
    let done = match app.scripting.events.retry(row).await {
        Ok(change) => apply(app, row, change).await,
        Err(error) => Err(record_failure(app, row, error).await),
    };
    app.events.record(Event::DeadLetterRetried {
        actor: admin.did.to_string(),
        id: row.id.to_string(),
        subject: row.letter.uri.clone(),
        error: done.as_ref().err().map(ToString::to_string),
    });
    done
}
