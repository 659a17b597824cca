//! The worker's reads and writes of a job: its state, its discovery, and the repos that are left to do.

use sqlx::AssertSqlSafe;

use super::{PENDING, PENDING_INDEX, clean, repos_by};
use crate::store::status::{BackfillStatus, RepoStatus, Request, Stage, Status as _};
use crate::store::types::to_json_text;
use crate::store::{Db, StoreError, in_transaction, intern, on, only_row};
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Did;

/// A job that the worker runs.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct ActiveJob {
    /// Identifies the job in the other tables.
    pub seq: i64,
    pub id: String,
    pub kind: String,
    /// For a catch-up: repos without a later commit are not read.
    pub changed_since: Option<Timestamp>,
    pub collection: Option<String>,
    pub did: Option<String>,
    /// The most repos that it may have; `None`: as many as the server's setting says.
    pub max_repos: Option<i64>,
    pub status: BackfillStatus,
    pub stage: Stage,
    /// The job began with its repos known: it has no discovery.
    pub is_discovered: bool,
    pub error: Option<String>,
    pub created_by: Option<String>,
}

/// The progress of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, sqlx::FromRow)]
pub struct Counters {
    pub total_repos: i64,
    /// Repos whose PDS is known.
    pub resolved_repos: i64,
    /// Repos that were read or have failed.
    pub processed_repos: i64,
    pub failed_repos: i64,
    pub total_records: i64,
}

/// The position up to which the relay's list of a collection was read.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Discovery {
    pub collection: String,
    pub cursor: Option<String>,
    pub is_done: bool,
}

/// The error of a job that was cancelled.
pub const CANCELLED_BY_USER: &str = "cancelled by user";

const FAILED: &str = RepoStatus::Failed.sql();

const COLUMNS: &str = "seq, id, kind, changed_since, collection, did, max_repos, status, stage, is_discovered <> 0 AS is_discovered, error, \
     created_by";

/// The oldest job that is to be run.
pub async fn next(db: &Db) -> Result<Option<ActiveJob>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM backfill_jobs WHERE completed_at IS NULL AND status = {} ORDER BY seq LIMIT 1",
        BackfillStatus::Running.sql()
    );
    Ok(on!(db, reader, |pool| sqlx::query_as(AssertSqlSafe(sql)).fetch_optional(pool).await)?)
}

/// Pauses and cancels the jobs that were asked to and that no worker runs: all but `running`. Returns the cancelled
/// ones.
pub async fn settle(db: &Db, running: Option<i64>, now: Timestamp) -> Result<Vec<ActiveJob>, StoreError> {
    let (allows, released) =
        (BackfillStatus::sql_allows(Request::Release), BackfillStatus::sql_after(Request::Release));
    let waiting =
        format!("SELECT count(*) FROM backfill_jobs WHERE completed_at IS NULL AND {allows} AND seq <> $1");
    let release = format!(
        "UPDATE backfill_jobs SET status = {released}, stage = {}, error = {}, completed_at = {} \
         WHERE {allows} AND seq <> $1 RETURNING {COLUMNS}",
        if_cancelling(BackfillStatus::Cancelled.sql(), "stage"),
        if_cancelling(&format!("'{CANCELLED_BY_USER}'"), "error"),
        if_cancelling("$2", "completed_at"),
    );
    let running = running.unwrap_or(0);
    let waiting = on!(db, reader, |pool| {
        sqlx::query_scalar::<_, i64>(AssertSqlSafe(waiting)).bind(running).fetch_one(pool).await
    })?;
    if waiting == 0 {
        return Ok(Vec::new());
    }
    let mut jobs: Vec<ActiveJob> = in_transaction!(db, |tx| {
        sqlx::query_as(AssertSqlSafe(release)).bind(running).bind(now).fetch_all(&mut *tx).await?
    });
    jobs.retain(|job| job.status == BackfillStatus::Cancelled);
    Ok(jobs)
}

/// SQL: one value for a job that is being cancelled, another for others.
fn if_cancelling(value: &str, other: &str) -> String {
    format!("CASE status WHEN {} THEN {value} ELSE {other} END", BackfillStatus::Cancelling.sql())
}

pub async fn status(db: &Db, seq: i64) -> Result<Option<BackfillStatus>, StoreError> {
    let sql = "SELECT status FROM backfill_jobs WHERE seq = $1";
    Ok(on!(db, reader, |pool| sqlx::query_scalar(sql).bind(seq).fetch_optional(pool).await)?)
}

pub async fn set_stage(db: &Db, seq: i64, stage: Stage) -> Result<(), StoreError> {
    let sql = "UPDATE backfill_jobs SET stage = $2 WHERE seq = $1";
    in_transaction!(db, |tx| sqlx::query(sql).bind(seq).bind(stage).execute(&mut *tx).await?.rows_affected());
    Ok(())
}

/// Notes what a job could not do, while it goes on.
pub async fn set_error(db: &Db, seq: i64, error: &str) -> Result<(), StoreError> {
    let sql = "UPDATE backfill_jobs SET error = $2 WHERE seq = $1";
    let error = clean(error);
    in_transaction!(db, |tx| sqlx::query(sql)
        .bind(seq)
        .bind(&error)
        .execute(&mut *tx)
        .await?
        .rows_affected());
    Ok(())
}

/// Notes that the relay does not list repos by collection, so that the job reads all of its repos.
pub async fn set_lists_all_repos(db: &Db, seq: i64) -> Result<(), StoreError> {
    let sql = "UPDATE backfill_jobs SET lists_all_repos = 1 WHERE seq = $1";
    in_transaction!(db, |tx| sqlx::query(sql).bind(seq).execute(&mut *tx).await?.rows_affected());
    Ok(())
}

/// Ends a job by [`Request::Complete`] or [`Request::Fail`]. Returns how: a request to cancel it prevails. `None`, and
/// nothing changes, when it has ended or another host has paused it.
pub async fn end(
    db: &Db,
    seq: i64,
    request: Request,
    error: Option<&str>,
    now: Timestamp,
) -> Result<Option<BackfillStatus>, StoreError> {
    // The stage of an ended job has the text of its status.
    let sql = format!(
        "UPDATE backfill_jobs SET status = {status}, stage = {status}, error = {}, completed_at = $3 \
         WHERE seq = $1 AND {} RETURNING status",
        if_cancelling(&format!("'{CANCELLED_BY_USER}'"), "$2"),
        BackfillStatus::sql_allows(request),
        status = BackfillStatus::sql_after(request),
    );
    let pages = "DELETE FROM backfill_pages WHERE job = $1";
    Ok(on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        let query = sqlx::query_scalar(AssertSqlSafe(sql)).bind(seq).bind(error.map(clean)).bind(now);
        let status = query.fetch_all(&mut *tx).await.map(only_row)?;
        // A job that was paused meanwhile continues at its positions.
        if status.is_some() {
            sqlx::query(pages).bind(seq).execute(&mut *tx).await?;
        }
        tx.commit().await?;
        status
    }))
}

/// Counts the repos and records of a job.
pub async fn count(db: &Db, seq: i64) -> Result<Counters, StoreError> {
    let sql = format!(
        "SELECT count(*) AS total_repos, count(pds_endpoint) AS resolved_repos, \
             count(CASE WHEN status <> {PENDING} THEN 1 END) AS processed_repos, \
             count(CASE WHEN status = {FAILED} THEN 1 END) AS failed_repos, \
             CAST(coalesce(sum(records_fetched), 0) + (SELECT coalesce(sum(records), 0) FROM backfill_pages \
                 WHERE job = $1) AS BIGINT) AS total_records \
         FROM backfill_repos WHERE job = $1"
    );
    Ok(on!(db, reader, |pool| sqlx::query_as(AssertSqlSafe(sql)).bind(seq).fetch_one(pool).await)?)
}

pub async fn save_counters(db: &Db, seq: i64, counters: &Counters) -> Result<(), StoreError> {
    in_transaction!(db, |tx| counters.save(seq).execute(&mut *tx).await?.rows_affected());
    Ok(())
}

impl Counters {
    /// The statement that stores the counters.
    pub(super) fn save<DB>(&self, seq: i64) -> sqlx::query::Query<'static, DB, DB::Arguments>
    where
        DB: sqlx::Database,
        i64: for<'q> sqlx::Encode<'q, DB> + sqlx::Type<DB>,
    {
        let sql = "UPDATE backfill_jobs SET total_repos = $2, resolved_repos = $3, processed_repos = $4, \
                   total_records = $5, failed_repos = $6 WHERE seq = $1";
        let query = sqlx::query(sql).bind(seq).bind(self.total_repos).bind(self.resolved_repos);
        query.bind(self.processed_repos).bind(self.total_records).bind(self.failed_repos)
    }
}

/// The positions up to which the lists of a job's collections were read.
pub async fn discovery(db: &Db, seq: i64) -> Result<Vec<Discovery>, StoreError> {
    let sql = "SELECT collection, cursor, is_done <> 0 AS is_done FROM backfill_discovery WHERE job = $1";
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).bind(seq).fetch_all(pool).await)?)
}

/// Adds the one repo of a job with a `did`; `false` when the job has it. See [`add_repos`].
pub async fn add_repo(db: &Db, seq: i64, did: &Did) -> Result<bool, StoreError> {
    intern::did_ids(db, std::iter::once(did)).await?;
    let sql = format!("{} SELECT $1, $2, {PENDING} WHERE true {}", ADD_REPOS.0, ADD_REPOS.1);
    let added = in_transaction!(db, |tx| {
        let query = sqlx::query(AssertSqlSafe(sql)).bind(seq).bind(did.as_str());
        query.execute(&mut *tx).await?.rows_affected()
    });
    Ok(added > 0)
}

const ADD_REPOS: (&str, &str) =
    ("INSERT INTO backfill_repos (job, did, status)", "ON CONFLICT (job, did) DO NOTHING");

/// Adds the repos of a page of the list with this name, and how far it was read, in one transaction. Returns the DIDs
/// that the job did not have yet. From here on the index follows the statuses of these accounts: one that is deleted
/// before its first record arrives must not be indexed.
pub async fn add_repos(
    db: &Db,
    seq: i64,
    list: &str,
    dids: &[String],
    cursor: Option<&str>,
) -> Result<Vec<String>, StoreError> {
    let listed = match db {
        Db::Sqlite(_) => "json_each($2) WHERE true",
        Db::Postgres(_) => "json_array_elements_text($2::json) AS v (value)",
    };
    let insert =
        format!("{} SELECT $1, value, {PENDING} FROM {listed} {} RETURNING did", ADD_REPOS.0, ADD_REPOS.1);
    let advance = "INSERT INTO backfill_discovery (job, collection, cursor, is_done) VALUES ($1, $2, $3, $4) \
                   ON CONFLICT (job, collection) DO UPDATE SET cursor = excluded.cursor, is_done = excluded.is_done";
    let accounts: Vec<Did> = dids.iter().filter_map(|did| Did::try_from(did.as_str()).ok()).collect();
    let dids = to_json_text(dids);
    let (cursor, is_done) = (cursor.map(clean), i64::from(cursor.is_none()));
    intern::did_ids(db, accounts.iter()).await?;
    Ok(on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        let query = sqlx::query_scalar(AssertSqlSafe(insert)).bind(seq).bind(dids);
        let added = query.fetch_all(&mut *tx).await?;
        let query = sqlx::query(advance).bind(seq).bind(list).bind(cursor).bind(is_done);
        query.execute(&mut *tx).await?;
        tx.commit().await?;
        added
    }))
}

/// Repos of a job whose PDS is not known yet, in the order of their DIDs.
pub async fn unresolved(db: &Db, seq: i64, after_did: &str, limit: usize) -> Result<Vec<String>, StoreError> {
    let sql = format!(
        "SELECT did FROM {} WHERE job = $1 AND pds_endpoint IS NULL AND status = {PENDING} AND did > $2 \
         ORDER BY did LIMIT $3",
        repos_by(db, PENDING_INDEX)
    );
    Ok(on!(db, reader, |pool| {
        let query = sqlx::query_scalar(AssertSqlSafe(sql)).bind(seq).bind(after_did).bind(limit as i64);
        query.fetch_all(pool).await
    })?)
}

/// The PDSs with repos that are left to read.
pub async fn pending_hosts(db: &Db, seq: i64) -> Result<Vec<String>, StoreError> {
    let sql = format!(
        "SELECT DISTINCT pds_endpoint FROM {} WHERE job = $1 AND pds_endpoint IS NOT NULL AND status = {PENDING}",
        repos_by(db, PENDING_INDEX)
    );
    Ok(on!(db, reader, |pool| sqlx::query_scalar(AssertSqlSafe(sql)).bind(seq).fetch_all(pool).await)?)
}

/// Repos of a PDS that are left to read, at most `limit`.
pub async fn pending_of_host(
    db: &Db,
    seq: i64,
    pds_endpoint: &str,
    limit: usize,
) -> Result<Vec<String>, StoreError> {
    let sql = format!(
        "SELECT did FROM {} WHERE job = $1 AND pds_endpoint = $2 AND status = {PENDING} ORDER BY did LIMIT $3",
        repos_by(db, PENDING_INDEX)
    );
    Ok(on!(db, reader, |pool| {
        let query = sqlx::query_scalar(AssertSqlSafe(sql)).bind(seq).bind(pds_endpoint).bind(limit as i64);
        query.fetch_all(pool).await
    })?)
}

/// Fails all repos of a PDS that are left to read. Returns how many.
pub async fn fail_host(
    db: &Db,
    seq: i64,
    pds_endpoint: &str,
    error_kind: &str,
    error: &str,
) -> Result<u64, StoreError> {
    let sql = format!(
        "UPDATE {} SET status = {FAILED}, error_kind = $3, error = $4 \
         WHERE job = $1 AND pds_endpoint = $2 AND status = {PENDING}",
        repos_by(db, PENDING_INDEX)
    );
    Ok(in_transaction!(db, |tx| {
        let query =
            sqlx::query(AssertSqlSafe(sql)).bind(seq).bind(pds_endpoint).bind(error_kind).bind(clean(error));
        query.execute(&mut *tx).await?.rows_affected()
    }))
}
