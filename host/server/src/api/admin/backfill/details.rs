//! `/admin/backfill/{id}/repos`, `…/pds-summary` and `…/details`: the repos of a backfill, and deleting them. Lists of
//! an unknown job are empty (admin-api.md §12.2).

use std::sync::Arc;

use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::find;
use crate::access::Admin;
use crate::api::answer::{Empty, EmptyResult, Json, JsonResult};
use crate::api::input::WithQuery;
use crate::api::paging::Page;
use crate::app::App;
use belvedere_storage::query::PageSize;
use belvedere_storage::store::backfill::{self, PdsSummary, Phase, RepoRow};
use belvedere_storage::store::status::RepoStatus;
use belvedere_web::http::{Error, Request};

#[derive(Debug, Serialize, JsonSchema)]
struct BackfillRepo {
    #[schemars(extend("format" = "did"))]
    did: String,
    /// Null until it is known.
    pds_endpoint: Option<String>,
    status: RepoStatus,
    records_fetched: i64,
}

impl From<RepoRow> for BackfillRepo {
    fn from(row: RepoRow) -> Self {
        let RepoRow { did, pds_endpoint, status, records_fetched, .. } = row;
        Self { did, pds_endpoint, status, records_fetched }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct BackfillRepos {
    repos: Vec<BackfillRepo>,
    /// The last DID; null on the last page.
    cursor: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct ReposQuery {
    #[schemars(extend("enum" = ["resolved", "fetched", "all"]))]
    phase: Option<String>,
    #[serde(flatten)]
    page: Page,
}

/// `GET /admin/backfill/{id}/repos`: the repos of a backfill, in the order of their DIDs.
pub async fn repos(
    app: Arc<App>,
    _admin: Admin,
    request: WithQuery<ReposQuery>,
) -> JsonResult<BackfillRepos> {
    let query = request.parameters()?;
    let phase = match query.phase.as_deref() {
        Some("resolved") => Phase::Resolved,
        Some("fetched") => Phase::Fetched,
        _ => Phase::All,
    };
    let (limit, after) = (query.page.limit(PageSize::LOGS)?, query.page.cursor());
    let rows = backfill::repos(&app.db, request.param("id"), phase, after.as_deref(), limit + 1).await?;
    let (rows, cursor) = cut(rows, limit);
    let repos = rows.into_iter().map(BackfillRepo::from).collect();
    Ok(Json(BackfillRepos { repos, cursor }))
}

/// Cuts a row that was read in excess, and returns the cursor that its presence calls for.
pub(super) fn cut(mut rows: Vec<RepoRow>, limit: u32) -> (Vec<RepoRow>, Option<String>) {
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let cursor = rows.last().filter(|_| more).map(|row| row.did.clone());
    (rows, cursor)
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct PdsSummaries {
    pds_endpoints: Vec<PdsSummary>,
    /// Also those beyond the limit.
    total_hosts: usize,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct SummaryQuery {
    /// All hosts if absent.
    #[schemars(with = "Option<u32>")]
    limit: Option<String>,
}

/// `GET /admin/backfill/{id}/pds-summary`: the hosts of a backfill, those with the most repos first. All of them
/// without a `limit`.
pub async fn pds_summary(
    app: Arc<App>,
    _admin: Admin,
    request: WithQuery<SummaryQuery>,
) -> JsonResult<PdsSummaries> {
    let page = Page { limit: request.parameters()?.limit, cursor: None };
    let limit = page.limit.is_some().then(|| page.limit(PageSize::LOGS)).transpose()?;
    let rows = backfill::pds_summary(&app.db, request.param("id")).await?;
    let total = rows.len();
    let limit = limit.map_or(total, |limit| limit as usize);
    Ok(Json(PdsSummaries { pds_endpoints: rows.into_iter().take(limit).collect(), total_hosts: total }))
}

/// `DELETE /admin/backfill/{id}/details`: removes the repos of one backfill, which must have ended because its worker
/// needs them. 204 for an unknown one.
pub async fn delete(app: Arc<App>, _admin: Admin, request: Request) -> EmptyResult {
    let id = request.param("id");
    match find(&app, id).await {
        Ok(job) if job.completed_at.is_none() => {
            let error = format!("a backfill that is {} needs its details; cancel it first", job.status);
            return Err(Error::bad_request(error));
        }
        Err(error) if error.status != StatusCode::NOT_FOUND => return Err(error),
        _ => {}
    }
    backfill::delete_details(&app.db, Some(id)).await?;
    Ok(Empty)
}

/// `DELETE /admin/backfill/details`: removes the repos of all backfills that have ended.
pub async fn delete_all(app: Arc<App>, _admin: Admin, _request: Request) -> EmptyResult {
    backfill::delete_details(&app.db, None).await?;
    Ok(Empty)
}
