//! Makes the same decision on several records and accounts in one request.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{expiry, parse_action, refused};
use crate::access::Admin;
use crate::api::answer::{Json, JsonResult};
use crate::api::bulk::{self, BulkOutcome, BulkOutcomes};
use crate::api::input::WithBody;
use crate::app::App;
use belvedere_instance::moderation::{Author, ModerationRequest};
use belvedere_storage::store::replicas::Writer;
use belvedere_web::http::Error;

/// Subjects of one request. Each is a transaction.
const MAX_SUBJECTS: usize = 100;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct BulkModeration {
    /// The AT URIs of records and the DIDs of accounts, 1 to 100.
    subjects: Vec<String>,
    #[schemars(extend("enum" = ["hide", "takedown"]))]
    action: String,
    /// 1 to 2000 characters. It is in the events.
    reason: String,
    /// The time at which the server lifts the decisions; absent: never.
    #[schemars(extend("format" = "date-time"))]
    expires_at: Option<String>,
}

/// `POST /admin/moderation/bulk`: makes the same decision on several records and accounts, as `POST /admin/moderation` does on one. A
/// subject on which a decision of another author is in force keeps it. The answer has a result for each subject.
pub async fn create(
    app: Arc<App>,
    admin: Admin,
    request: WithBody<BulkModeration>,
) -> JsonResult<BulkOutcomes> {
    let BulkModeration { subjects, action, reason, expires_at } = request.json()?;
    bulk::check_number("subjects", subjects.len(), MAX_SUBJECTS)?;
    let (action, expires_at) = (parse_action(&action)?, expiry(expires_at)?);
    let mut results = Vec::with_capacity(subjects.len());
    let mut has_written = false;
    for subject in subjects {
        let decision =
            ModerationRequest { subject, action, reason: reason.clone(), expires_at, replaces: None };
        let made = app.moderator.moderate(&decision, Author::Operator(&admin.did)).await;
        has_written |= made.as_ref().is_ok_and(|made| made.is_new);
        let done: Result<(), Error> = made.map(|_| ()).map_err(refused);
        results.push(BulkOutcome::new(decision.subject, done));
    }
    if has_written {
        app.db.announce_writes(&[Writer::account(&admin.did)]).await;
    }
    Ok(Json(results.into()))
}
