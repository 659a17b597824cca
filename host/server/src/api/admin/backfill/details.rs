//! `/admin/backfill/{id}/repos`, `…/pds-summary` and `…/details`: the repos of a backfill, and deleting them. Lists of
//! an unknown job are empty (admin-api.md §12.2).

use std::sync::Arc;

use http::StatusCode;
use serde::Serialize;
use serde_json::json;

use super::find;
use crate::access::Admin;
use crate::api::paging;
use crate::app::App;
use belvedere_storage::query::PageSize;
use belvedere_storage::store::backfill::{self, PdsSummary, Phase, RepoRow};
use belvedere_web::http::{Error, Request, Response, response};

#[derive(Serialize)]
struct RepoView {
    did: String,
    /// Null until it is known.
    pds_endpoint: Option<String>,
    status: &'static str,
    records_fetched: i64,
}

impl From<RepoRow> for RepoView {
    fn from(row: RepoRow) -> Self {
        let RepoRow { did, pds_endpoint, status, records_fetched, .. } = row;
        Self { did, pds_endpoint, status: status.as_str(), records_fetched }
    }
}

#[derive(Serialize)]
struct Repos {
    repos: Vec<RepoView>,
    /// The last DID; null on the last page.
    cursor: Option<String>,
}

/// `GET /admin/backfill/{id}/repos`: in the order of their DIDs.
pub async fn repos(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let phase = match request.query("phase").as_deref() {
        Some("resolved") => Phase::Resolved,
        Some("fetched") => Phase::Fetched,
        _ => Phase::All,
    };
    let (limit, after) = page(&request)?;
    let rows = backfill::repos(&app.db, request.param("id"), phase, after.as_deref(), limit + 1).await?;
    let (rows, cursor) = cut(rows, limit);
    let repos = rows.into_iter().map(RepoView::from).collect();
    Ok(response::json(StatusCode::OK, &Repos { repos, cursor }))
}

/// The page size and the DID after which the page begins.
pub(super) fn page(request: &Request) -> Result<(u32, Option<String>), Error> {
    Ok((paging::limit(request, PageSize::LOGS)?, paging::optional(request, "cursor")))
}

/// Cuts a row that was read in excess, and returns the cursor that its presence calls for.
pub(super) fn cut(mut rows: Vec<RepoRow>, limit: u32) -> (Vec<RepoRow>, Option<String>) {
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let cursor = rows.last().filter(|_| more).map(|row| row.did.clone());
    (rows, cursor)
}

#[derive(Serialize)]
struct SummaryView {
    pds_endpoint: String,
    total_repos: i64,
    completed_repos: i64,
    failed_repos: i64,
    /// The most frequent one; null without failed repos.
    error_kind: Option<String>,
    total_records: i64,
}

impl From<PdsSummary> for SummaryView {
    fn from(row: PdsSummary) -> Self {
        let PdsSummary {
            pds_endpoint,
            total_repos,
            completed_repos,
            failed_repos,
            error_kind,
            total_records,
        } = row;
        Self { pds_endpoint, total_repos, completed_repos, failed_repos, error_kind, total_records }
    }
}

/// `GET /admin/backfill/{id}/pds-summary`: the PDSs, those with the most repos first. All of them without a `limit`.
pub async fn pds_summary(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let limit = request.query("limit").map(|_| paging::limit(&request, PageSize::LOGS)).transpose()?;
    let rows = backfill::pds_summary(&app.db, request.param("id")).await?;
    let total = rows.len();
    let limit = limit.map_or(total, |limit| limit as usize);
    let summary: Vec<SummaryView> = rows.into_iter().take(limit).map(SummaryView::from).collect();
    Ok(response::json(StatusCode::OK, &json!({ "pds_endpoints": summary, "total_hosts": total })))
}

/// `DELETE /admin/backfill/{id}/details`: removes the repos of one job, which must have ended because its worker needs
/// them. 204 for an unknown job.
pub async fn delete(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
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
    Ok(response::empty(StatusCode::NO_CONTENT))
}

/// `DELETE /admin/backfill/details`: removes the repos of all jobs that have ended.
pub async fn delete_all(app: Arc<App>, _admin: Admin, _request: Request) -> Result<Response, Error> {
    backfill::delete_details(&app.db, None).await?;
    Ok(response::empty(StatusCode::NO_CONTENT))
}
