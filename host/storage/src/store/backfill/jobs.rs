//! The jobs: creating, listing, and requests to pause, resume or cancel one.

use sqlx::AssertSqlSafe;

use super::traffic::{self, Traffic};
use super::{BACKFILL, REPAIR, queued};
use crate::store::status::{BackfillStatus, Request, Stage, Status as _};
use crate::store::{Db, StoreError, on, only_row};
use belvedere_base::clock::Timestamp;

/// A job (service.md, Backfill job).
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct JobRow {
    /// UUID.
    pub id: String,
    /// `backfill`, `catch_up` or `repair`.
    pub kind: String,
    /// `None`: every collection with a record lexicon.
    pub collection: Option<String>,
    /// `None`: every repo that the relay lists.
    pub did: Option<String>,
    pub status: BackfillStatus,
    pub stage: Stage,
    pub total_repos: Option<i64>,
    pub resolved_repos: Option<i64>,
    pub processed_repos: Option<i64>,
    /// The processed repos that could not be read.
    pub failed_repos: Option<i64>,
    pub total_records: Option<i64>,
    /// Every repo of the relay is read: the relay does not list them by collection.
    pub lists_all_repos: bool,
    #[sqlx(flatten)]
    pub traffic: Traffic,
    pub error: Option<String>,
    /// The DID of the user who created the job; `None` when the server did.
    pub created_by: Option<String>,
    pub started_at: Option<Timestamp>,
    pub completed_at: Option<Timestamp>,
    pub created_at: Timestamp,
}

#[derive(Clone, Debug, Default)]
pub struct NewJob {
    /// UUID.
    pub id: String,
    pub collection: Option<String>,
    pub did: Option<String>,
    /// The most repos that it may have; `None`: as many as the server's setting says.
    pub max_repos: Option<u32>,
    pub created_by: Option<String>,
}

/// The outcome of a [`Request`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requested {
    /// No job has the id.
    Unknown,
    /// The job's status does not allow the request.
    NotAllowed,
    /// The job as it is now.
    Done(Box<JobRow>),
}

const COLUMNS: &str = "id, kind, collection, did, status, stage, total_repos, resolved_repos, processed_repos, \
     failed_repos, total_records, lists_all_repos <> 0 AS lists_all_repos, error, created_by, started_at, completed_at, created_at";

/// The columns of a [`JobRow`].
fn columns() -> String {
    format!("{COLUMNS}, {}", traffic::COLUMNS)
}

/// Queues a job.
pub async fn create(db: &Db, job: &NewJob, now: Timestamp) -> Result<(), StoreError> {
    let sql = format!(
        "INSERT INTO backfill_jobs \
             (id, kind, collection, did, status, stage, is_discovered, created_by, created_at, started_at, max_repos) \
         VALUES ($1, $6, $2, $3, {}, 0, $4, $5, $5, $7)",
        queued()
    );
    let kind = if job.did.is_some() { REPAIR } else { BACKFILL };
    on!(db, writer, |pool| {
        let query = sqlx::query(AssertSqlSafe(sql)).bind(&job.id).bind(&job.collection).bind(&job.did);
        let query = query.bind(&job.created_by).bind(now).bind(kind).bind(job.max_repos.map(i64::from));
        query.execute(pool).await.map(drop)
    })?;
    Ok(())
}

pub async fn get(db: &Db, id: &str) -> Result<Option<JobRow>, StoreError> {
    let sql = format!("SELECT {} FROM backfill_jobs WHERE id = $1", columns());
    Ok(on!(db, reader, |pool| sqlx::query_as(AssertSqlSafe(sql)).bind(id).fetch_optional(pool).await)?)
}

/// All jobs, newest first.
pub async fn list(db: &Db) -> Result<Vec<JobRow>, StoreError> {
    let sql = format!("SELECT {} FROM backfill_jobs ORDER BY created_at DESC, seq DESC", columns());
    Ok(on!(db, reader, |pool| sqlx::query_as(AssertSqlSafe(sql)).fetch_all(pool).await)?)
}

/// The jobs after the job `after` in the order of [`list`], at most `limit`; without `after` the newest ones.
pub async fn list_page(db: &Db, after: Option<&str>, limit: u32) -> Result<Vec<JobRow>, StoreError> {
    let sql = format!(
        "SELECT {} FROM backfill_jobs WHERE CAST($1 AS TEXT) IS NULL \
             OR (created_at, seq) < (SELECT created_at, seq FROM backfill_jobs WHERE id = $1) \
         ORDER BY created_at DESC, seq DESC LIMIT $2",
        columns()
    );
    Ok(on!(db, reader, |pool| {
        let query = sqlx::query_as(AssertSqlSafe(sql)).bind(after);
        query.bind(i64::from(limit)).fetch_all(pool).await
    })?)
}

/// The number of jobs that have not ended.
pub async fn count_unended(db: &Db) -> Result<i64, StoreError> {
    let sql = "SELECT count(*) FROM backfill_jobs WHERE completed_at IS NULL";
    Ok(on!(db, reader, |pool| sqlx::query_scalar(sql).fetch_one(pool).await)?)
}

/// Changes the status of a job if its present status allows that. The worker notices the change.
pub async fn request(db: &Db, id: &str, request: Request) -> Result<Requested, StoreError> {
    let sql = format!(
        "UPDATE backfill_jobs SET status = {} WHERE id = $1 AND {} RETURNING {}",
        BackfillStatus::sql_after(request),
        BackfillStatus::sql_allows(request),
        columns()
    );
    let changed: Option<JobRow> = on!(db, writer, |pool| {
        sqlx::query_as(AssertSqlSafe(sql)).bind(id).fetch_all(pool).await.map(only_row)
    })?;
    Ok(match changed {
        Some(job) => Requested::Done(Box::new(job)),
        None if get(db, id).await?.is_some() => Requested::NotAllowed,
        None => Requested::Unknown,
    })
}
