//! `/admin/moderation`: hides or takes down records and accounts on this instance, and lifts that.

pub mod bulk;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::access::Admin;
use crate::api::admin::account::account_of;
use crate::api::answer::{Json, JsonResult};
use crate::api::input::{WithBody, WithQuery};
use crate::api::paging::{Page, given};
use crate::app::App;
use belvedere_base::clock::Timestamp;
use belvedere_instance::moderation::{Author, ModerationError, ModerationRequest, parse_subject};
use belvedere_protocol::atproto::{Handle, HandleUri, typed};
use belvedere_storage::query::PageSize;
use belvedere_storage::store::moderation::{self, Action, Lifted, ModerationFilter, ModerationRow, Subject};
use belvedere_storage::store::records::hidden;
use belvedere_storage::store::replicas::Writer;
use belvedere_web::http::{Error, Request};

#[derive(Debug, Serialize, JsonSchema)]
pub struct ModerationList {
    moderation: Vec<ModerationRow>,
    /// Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct ModerationQuery {
    /// `true`: decisions in force; `false`: lifted ones; absent or `all`: both.
    active: Option<String>,
    /// `hide` or `takedown`.
    action: Option<String>,
    /// The AT URI of a record, or a DID; in both a handle may stand for the DID.
    subject: Option<String>,
    #[serde(flatten)]
    page: Page,
}

/// `GET /admin/moderation`: what operators have hidden and taken down, newest first, with what was lifted since.
pub async fn list(
    app: Arc<App>,
    _admin: Admin,
    request: WithQuery<ModerationQuery>,
) -> JsonResult<ModerationList> {
    let ModerationQuery { active, action, subject, page } = request.parameters()?;
    let active = match given(active.as_deref()).as_deref() {
        None | Some("all") => None,
        Some("true") => Some(true),
        Some("false") => Some(false),
        Some(_) => return Err(Error::bad_request("active must be true, false or all")),
    };
    let action = given(action.as_deref()).map(|action| parse_action(&action)).transpose()?;
    let subject = match given(subject.as_deref()) {
        Some(text) => Some(subject_of(&app, &text).await?),
        None => None,
    };
    let before = page.cursor().map(|cursor| cursor.parse()).transpose();
    let before = before.map_err(|_| Error::bad_request("cursor must be the cursor of an earlier answer"))?;
    let limit = page.limit(PageSize::LOGS)?;
    let subject = subject.map(|subject| subject.to_string());
    let filter = ModerationFilter { active, action, subject, before };
    let mut rows = moderation::list(&app.db, &filter, limit + 1).await?;
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let cursor = rows.last().filter(|_| more).map(|row| row.id.to_string());
    Ok(Json(ModerationList { moderation: rows, cursor }))
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ModerationDetail {
    #[serde(flatten)]
    decision: ModerationRow,
    /// The moderated record as its repo has it now. Null for an account, for a record that the index does not have, and once
    /// the decision is lifted.
    record: Option<Box<RawValue>>,
}

/// `GET /admin/moderation/{id}`: a decision, with the record that it hides.
pub async fn get(app: Arc<App>, _admin: Admin, request: Request) -> JsonResult<ModerationDetail> {
    let row = moderation::get(&app.db, id_of(&request)?).await?.ok_or_else(not_found)?;
    let found = match Subject::parse(&row.subject) {
        Some(Subject::Record(uri)) if row.lifted_at.is_none() => hidden::moderated(&app.db, &uri).await?,
        _ => None,
    };
    let record = found.map(|full| serde_json::from_slice(&full.row.record)).transpose();
    Ok(Json(ModerationDetail { decision: row, record: record.map_err(Error::internal)? }))
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct NewModeration {
    /// The AT URI of a record, or the DID of an account; in both a handle may stand for the DID.
    subject: String,
    #[schemars(extend("enum" = ["hide", "takedown"]))]
    action: String,
    /// 1 to 2000 characters. It is an event.
    reason: String,
    /// The time at which the server lifts it; absent: never.
    #[schemars(extend("format" = "date-time"))]
    expires_at: Option<String>,
    /// The id of the decision of another author that it replaces.
    replaces: Option<i64>,
}

/// `POST /admin/moderation`: hides a record or an account from lists, joins, counts and searches, or takes it down. The same decision
/// again changes nothing. Another one that is in force on the subject is replaced if it is your own, or if `replaces` names it; else it
/// stays: 409.
pub async fn create(
    app: Arc<App>,
    admin: Admin,
    request: WithBody<NewModeration>,
) -> JsonResult<ModerationRow, 201> {
    let NewModeration { subject, action, reason, expires_at, replaces } = request.json()?;
    let action = parse_action(&action)?;
    let expires_at = expiry(expires_at)?;
    let subject = subject_of(&app, &subject).await?.to_string();
    let decision = ModerationRequest { subject, action, reason, expires_at, replaces };
    let made = app.moderator.moderate(&decision, Author::Operator(&admin.did)).await.map_err(refused)?;
    if made.is_new {
        app.db.announce_writes(&[Writer::account(&admin.did)]).await;
    }
    Ok(Json(made.row))
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct LiftQuery {
    /// At most 2000 characters.
    reason: Option<String>,
}

/// `DELETE /admin/moderation/{id}`: lifts a decision. The record or the account is again as the network has it; the decision stays
/// in the list. Idempotent.
pub async fn lift(app: Arc<App>, admin: Admin, request: WithQuery<LiftQuery>) -> JsonResult<ModerationRow> {
    let reason = given(request.parameters()?.reason.as_deref());
    let lifted = app.moderator.lift(id_of(&request)?, reason.as_deref(), Author::Operator(&admin.did)).await;
    let Lifted { row, was_active } = lifted.map_err(refused)?.ok_or_else(not_found)?;
    if was_active {
        app.db.announce_writes(&[Writer::account(&admin.did)]).await;
    }
    Ok(Json(row))
}

fn not_found() -> Error {
    Error::not_found("there is no such decision")
}

/// The id in the path. Ids are numbers.
fn id_of(request: &Request) -> Result<i64, Error> {
    request.param("id").parse().map_err(|_| not_found())
}

/// The record or the account that an operator names.
async fn subject_of(app: &App, text: &str) -> Result<Subject, Error> {
    let text = &*typed(text);
    if let Some(named) = HandleUri::parse(text) {
        let did = account_of(app, "subject", named.handle.as_str()).await?;
        return Ok(Subject::Record(named.of(did)));
    }
    if Handle::try_from(text.strip_prefix('@').unwrap_or(text)).is_ok() {
        return Ok(Subject::Account(account_of(app, "subject", text).await?));
    }
    parse_subject(text).map_err(refused)
}

fn parse_action(text: &str) -> Result<Action, Error> {
    text.parse().map_err(|_| Error::bad_request("action must be hide or takedown"))
}

fn expiry(text: Option<String>) -> Result<Option<Timestamp>, Error> {
    let parsed = text.map(|text| Timestamp::parse(&text)).transpose();
    parsed.map_err(|_| Error::bad_request("expires_at must be a time like 2026-01-31T12:00:00Z"))
}

fn refused(error: ModerationError) -> Error {
    match error {
        ModerationError::Store(error) => error.into(),
        ModerationError::Subject | ModerationError::Reason | ModerationError::Expired => {
            Error::bad_request(error.to_string())
        }
        ModerationError::InForce(ref row) => {
            Error::conflict(format!("{error}. To replace it, send \"replaces\": {}", row.id))
        }
    }
}
