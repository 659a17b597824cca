//! The repos of a job, and a new job of those that failed.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use sqlx::AssertSqlSafe;

use super::{ERRORS_INDEX, NewJob, PENDING, queued, repos_by};
use crate::store::status::RepoStatus;
use crate::store::types::to_json_text;
use crate::store::{Db, StoreError, on, only_row};
use belvedere_base::clock::Timestamp;

/// A repo of a job.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct RepoRow {
    pub did: String,
    pub pds_endpoint: Option<String>,
    pub status: RepoStatus,
    pub records_fetched: i64,
    pub error_kind: Option<String>,
    pub error: Option<String>,
}

/// The repos that a list shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    All,
    /// Those whose PDS is known.
    Resolved,
    /// Those that were read.
    Fetched,
}

#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow, Serialize, JsonSchema)]
pub struct PdsSummary {
    pub pds_endpoint: String,
    pub total_repos: i64,
    pub completed_repos: i64,
    pub failed_repos: i64,
    /// The most frequent kind of error of its failed repos.
    pub error_kind: Option<String>,
    pub total_records: i64,
}

const COMPLETED: &str = RepoStatus::Completed.sql();

const COLUMNS: &str = "did, pds_endpoint, status, records_fetched, error_kind, error";

/// The `seq` of the job whose id is $1.
const JOB: &str = "(SELECT seq FROM backfill_jobs WHERE id = $1)";

/// The repos of a job in the order of their DIDs, after `after_did`. Empty for an unknown job.
pub async fn repos(
    db: &Db,
    id: &str,
    phase: Phase,
    after_did: Option<&str>,
    limit: u32,
) -> Result<Vec<RepoRow>, StoreError> {
    let condition = match phase {
        Phase::All => String::new(),
        Phase::Resolved => "AND pds_endpoint IS NOT NULL".to_owned(),
        Phase::Fetched => format!("AND status = {COMPLETED}"),
    };
    page(db, id, "backfill_repos", &condition, after_did, limit).await
}

/// The repos of a job that failed, in the order of their DIDs, after `after_did`.
pub async fn errors(
    db: &Db,
    id: &str,
    after_did: Option<&str>,
    limit: u32,
) -> Result<Vec<RepoRow>, StoreError> {
    page(db, id, &repos_by(db, ERRORS_INDEX), "AND error_kind IS NOT NULL", after_did, limit).await
}

async fn page(
    db: &Db,
    id: &str,
    table: &str,
    condition: &str,
    after_did: Option<&str>,
    limit: u32,
) -> Result<Vec<RepoRow>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM {table} WHERE job = {JOB} AND did > $2 {condition} ORDER BY did LIMIT $3"
    );
    Ok(on!(db, reader, |pool| {
        let query = sqlx::query_as(AssertSqlSafe(sql)).bind(id).bind(after_did.unwrap_or_default());
        query.bind(i64::from(limit)).fetch_all(pool).await
    })?)
}

/// The PDSs of a job's repos, those with the most repos first.
pub async fn pds_summary(db: &Db, id: &str) -> Result<Vec<PdsSummary>, StoreError> {
    // The repos of each PDS by kind of error, the most frequent kind first and those without an error last.
    let kinds = format!(
        "SELECT pds_endpoint, error_kind, count(*) AS repos, \
             sum(CASE WHEN status = {COMPLETED} THEN 1 ELSE 0 END) AS completed, \
             sum(records_fetched) AS records, \
             row_number() OVER (PARTITION BY pds_endpoint \
                 ORDER BY error_kind IS NULL, count(*) DESC, error_kind) AS permit \
         FROM backfill_repos WHERE job = {JOB} AND pds_endpoint IS NOT NULL GROUP BY pds_endpoint, error_kind"
    );
    let sql = format!(
        "SELECT pds_endpoint, CAST(sum(repos) AS BIGINT) AS total_repos, \
             CAST(sum(completed) AS BIGINT) AS completed_repos, \
             CAST(sum(CASE WHEN error_kind IS NULL THEN 0 ELSE repos END) AS BIGINT) AS failed_repos, \
             max(CASE WHEN permit = 1 THEN error_kind END) AS error_kind, \
             CAST(sum(records) AS BIGINT) AS total_records \
         FROM ({kinds}) AS kinds GROUP BY pds_endpoint ORDER BY total_repos DESC, pds_endpoint"
    );
    Ok(on!(db, reader, |pool| sqlx::query_as(AssertSqlSafe(sql)).bind(id).fetch_all(pool).await)?)
}

/// The number of failed repos of a job by the kind of error.
pub async fn error_counts(db: &Db, id: &str) -> Result<BTreeMap<String, i64>, StoreError> {
    let sql = format!(
        "SELECT error_kind, count(*) FROM {} WHERE job = {JOB} AND error_kind IS NOT NULL GROUP BY error_kind",
        repos_by(db, ERRORS_INDEX)
    );
    let rows: Vec<(String, i64)> =
        on!(db, reader, |pool| sqlx::query_as(AssertSqlSafe(sql)).bind(id).fetch_all(pool).await)?;
    Ok(rows.into_iter().collect())
}

/// Queues a job of the repos of job `id` that failed with one of `kinds`, or with any error if `kinds` is empty. The
/// new job reads the same collections; `new.collection` and `new.did` are ignored. Returns the number of repos, without
/// any of which no job is created; `None` when no job has the id.
pub async fn retry_failed(
    db: &Db,
    id: &str,
    kinds: &[String],
    new: &NewJob,
    now: Timestamp,
) -> Result<Option<u64>, StoreError> {
    let insert_job = format!(
        "INSERT INTO backfill_jobs (id, kind, changed_since, collection, did, status, stage, \
             is_discovered, created_by, created_at, started_at) \
         SELECT $2, kind, changed_since, collection, did, {}, 1, $3, $4, $4 FROM backfill_jobs \
         WHERE id = $1 RETURNING seq",
        queued()
    );
    let kind_condition = match (kinds, db) {
        ([], _) => "",
        (_, Db::Sqlite(_)) => "AND error_kind IN (SELECT value FROM json_each($3))",
        (_, Db::Postgres(_)) => "AND error_kind IN (SELECT json_array_elements_text($3::json))",
    };
    let insert_repos = format!(
        "INSERT INTO backfill_repos (job, did, status) SELECT $2, did, {PENDING} FROM {} \
         WHERE job = {JOB} AND error_kind IS NOT NULL {kind_condition}",
        repos_by(db, ERRORS_INDEX)
    );
    let set_total = "UPDATE backfill_jobs SET total_repos = $2 WHERE seq = $1";
    let kinds = (!kinds.is_empty()).then(|| to_json_text(kinds));
    on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        let query = sqlx::query_scalar(AssertSqlSafe(insert_job))
            .bind(id)
            .bind(&new.id)
            .bind(&new.created_by)
            .bind(now);
        let seq: Option<i64> = query.fetch_all(&mut *tx).await.map(only_row)?;
        let Some(seq) = seq else { return Ok(None) };
        let query = sqlx::query(AssertSqlSafe(insert_repos)).bind(id).bind(seq);
        let query = if let Some(kinds) = kinds { query.bind(kinds) } else { query };
        let repos = query.execute(&mut *tx).await?.rows_affected();
        if repos > 0 {
            sqlx::query(set_total).bind(seq).bind(repos as i64).execute(&mut *tx).await?;
            tx.commit().await?;
        }
        Ok(Some(repos))
    })
}
