//! `/admin/moderation`: hides or takes down records and accounts on this instance, and lifts that.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::access::Admin;
use crate::api::answer::{Json, JsonResult};
use crate::api::input::{WithBody, WithQuery};
use crate::api::paging::{Page, given};
use crate::app::App;
use belvedere_base::clock::Timestamp;
use belvedere_instance::events::Event;
use belvedere_storage::query::PageSize;
use belvedere_storage::store::moderation::{
    self, Action, Decision, Lifted, ModerationFilter, ModerationRow, Subject,
};
use belvedere_storage::store::records::hidden;
use belvedere_storage::store::replicas::Writer;
use belvedere_web::http::{Error, Request};

/// Characters of a reason. It is an event, and shown in lists.
const MAX_REASON: usize = 2_000;

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
    /// The AT URI of a record, or a DID.
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
    let subject = given(subject.as_deref()).map(|text| parse_subject(&text)).transpose()?;
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
    /// The AT URI of a record, or the DID of an account.
    subject: String,
    #[schemars(extend("enum" = ["hide", "takedown"]))]
    action: String,
    /// 1 to 2000 characters. It is an event.
    reason: String,
    /// The time at which the server lifts it; absent: never.
    #[schemars(extend("format" = "date-time"))]
    expires_at: Option<String>,
}

/// `POST /admin/moderation`: hides a record or an account from lists, joins, counts and searches, or takes it down. A decision that is
/// in force on the subject is replaced; the same one again changes nothing.
pub async fn create(
    app: Arc<App>,
    admin: Admin,
    request: WithBody<NewModeration>,
) -> JsonResult<ModerationRow, 201> {
    let body = request.json()?;
    let now = app.clock.now();
    let decision = Decision {
        subject: parse_subject(body.subject.trim())?,
        action: parse_action(&body.action)?,
        reason: checked_reason(&body.reason)?,
        by: admin.did.to_string(),
        expires_at: body.expires_at.map(|text| expiry(&text, now)).transpose()?,
    };
    let made = moderation::moderate(&app.db, &decision, now).await?;
    if made.is_new {
        app.db.announce_writes(&[Writer::account(&admin.did)]).await;
        app.events.record(Event::ModerationCreated {
            actor: decision.by,
            subject: made.row.subject.clone(),
            id: made.row.id,
            action: decision.action.as_str(),
            reason: decision.reason,
            expires_at: decision.expires_at,
        });
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
    let reason = reason.map(|reason| checked_reason(&reason)).transpose()?;
    let (id, by) = (id_of(&request)?, admin.did.to_string());
    let lifted = moderation::lift(&app.db, id, Some(&by), reason.as_deref(), app.clock.now()).await?;
    let Lifted { row, was_active } = lifted.ok_or_else(not_found)?;
    if was_active {
        app.db.announce_writes(&[Writer::account(&admin.did)]).await;
        let subject = row.subject.clone();
        app.events.record(Event::ModerationLifted { actor: Some(by), subject, id, reason });
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

fn parse_subject(text: &str) -> Result<Subject, Error> {
    Subject::parse(text).ok_or_else(|| {
        Error::bad_request("subject must be the AT URI of a record (at://did/collection/rkey) or a DID")
    })
}

fn parse_action(text: &str) -> Result<Action, Error> {
    text.parse().map_err(|_| Error::bad_request("action must be hide or takedown"))
}

/// The reason without blanks around it.
fn checked_reason(text: &str) -> Result<String, Error> {
    let reason = text.trim();
    // PostgreSQL's text can't contain U+0000.
    if reason.is_empty() || reason.chars().count() > MAX_REASON || reason.contains('\0') {
        return Err(Error::bad_request(format!(
            "reason must have 1 to {MAX_REASON} characters, without U+0000"
        )));
    }
    Ok(reason.to_owned())
}

fn expiry(text: &str, now: Timestamp) -> Result<Timestamp, Error> {
    let time = Timestamp::parse(text)
        .map_err(|_| Error::bad_request("expires_at must be a time like 2026-01-31T12:00:00Z"))?;
    if time <= now {
        return Err(Error::bad_request("expires_at must be in the future"));
    }
    Ok(time)
}
