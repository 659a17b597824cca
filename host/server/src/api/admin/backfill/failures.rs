//! `/admin/backfill/{id}/errors` and `…/retry-failed`: the repos that a backfill could not read (admin-api.md §12.3).

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::details::cut;
use super::{check_queue, find};
use crate::access::Admin;
use crate::api::answer::{Json, JsonResult};
use crate::api::input::{WithBody, WithQuery};
use crate::api::paging::Page;
use crate::app::App;
use belvedere_instance::backfill::ErrorKind;
use belvedere_storage::query::PageSize;
use belvedere_storage::store::backfill::{self, RepoRow};
use belvedere_web::http::Error;

#[derive(Debug, Serialize, JsonSchema)]
struct BackfillFailure {
    #[schemars(extend("format" = "did"))]
    did: String,
    pds_endpoint: Option<String>,
    kind: Option<String>,
    error: Option<String>,
    /// Whether trying again may help.
    retryable: bool,
}

impl From<RepoRow> for BackfillFailure {
    fn from(row: RepoRow) -> Self {
        let retryable =
            row.error_kind.as_deref().and_then(ErrorKind::parse).is_some_and(ErrorKind::is_retryable);
        Self {
            did: row.did,
            pds_endpoint: row.pds_endpoint,
            kind: row.error_kind,
            error: row.error,
            retryable,
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct BackfillFailures {
    errors: Vec<BackfillFailure>,
    /// The number of all failed repos, by kind.
    counts: BTreeMap<String, i64>,
    /// The last DID; null on the last page.
    cursor: Option<String>,
}

/// `GET /admin/backfill/{id}/errors`: the repos that failed, in the order of their DIDs. Empty for an unknown job.
pub async fn list(app: Arc<App>, _admin: Admin, request: WithQuery<Page>) -> JsonResult<BackfillFailures> {
    let (id, page) = (request.param("id"), request.parameters()?);
    let (limit, after) = (page.limit(PageSize::LOGS)?, page.cursor());
    let rows = backfill::errors(&app.db, id, after.as_deref(), limit + 1).await?;
    let counts = backfill::error_counts(&app.db, id).await?;
    let (rows, cursor) = cut(rows, limit);
    let errors = rows.into_iter().map(BackfillFailure::from).collect();
    Ok(Json(BackfillFailures { errors, counts, cursor }))
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
pub struct FailedKinds {
    /// Every kind when absent.
    kinds: Option<Vec<String>>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct NewBackfillId {
    id: String,
}

/// `POST /admin/backfill/{id}/retry-failed`: queues a backfill of the repos that failed.
pub async fn retry(
    app: Arc<App>,
    admin: Admin,
    request: WithBody<FailedKinds>,
) -> JsonResult<NewBackfillId, 201> {
    let body = request.json_or_default()?;
    if let Some(unknown) = body.kinds.iter().flatten().find(|kind| ErrorKind::parse(kind).is_none()) {
        let known = ErrorKind::ALL.map(ErrorKind::as_str).join(", ");
        return Err(Error::bad_request(format!("{unknown} is not a kind of error; the kinds are {known}")));
    }
    let none = || Error::bad_request("the backfill has no failed repos of these kinds");
    let source = find(&app, request.param("id")).await?;
    let kinds = match body.kinds {
        Some(kinds) if kinds.is_empty() => return Err(none()),
        kinds => kinds.unwrap_or_default(),
    };
    check_queue(&app).await?;
    let actor = Some(admin.did.to_string());
    let id = app.backfills.retry_failed(&source.id, &kinds, actor).await?.ok_or_else(none)?;
    Ok(Json(NewBackfillId { id }))
}
