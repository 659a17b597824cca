//! Stores background jobs. The table is the queue: several hosts claim jobs from it, each job by one worker at a time.

use schemars::JsonSchema;
use serde::Serialize;
use sqlx::AssertSqlSafe;

use belvedere_base::clock::Timestamp;

use super::status::{JobStatus, Request, Status as _};
use super::{Db, StoreError, on, only_row};

#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct JobRow {
    pub id: String,
    pub job_type: String,
    pub status: JobStatus,
    /// JSON text.
    pub input: String,
    /// JSON text of an object.
    pub progress: String,
    /// JSON text.
    pub result: Option<String>,
    pub error: Option<String>,
    pub created_by: String,
    pub client: Option<String>,
    /// The tenant whose share the job uses ([`belvedere_web::fair_share::Tenant`] as text).
    pub tenant: String,
    pub inherit_auth: bool,
    pub started_at: Option<Timestamp>,
    pub completed_at: Option<Timestamp>,
    pub created_at: Timestamp,
}

#[derive(Clone, Debug)]
pub struct NewJob<'a> {
    pub id: &'a str,
    pub job_type: &'a str,
    pub input: &'a str,
    pub created_by: &'a str,
    pub client: Option<&'a str>,
    pub tenant: &'a str,
    pub inherit_auth: bool,
}

/// Limits on the number of pending jobs.
#[derive(Clone, Copy, Debug)]
pub struct PendingLimits {
    pub of_creator: i64,
    pub of_tenant: i64,
}

/// The number of jobs with a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::FromRow, Serialize, JsonSchema)]
pub struct JobCounts {
    pub pending: i64,
    pub running: i64,
    pub paused: i64,
    /// Within the last day.
    pub failed: i64,
}

/// The last row of the previous page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobKeyset {
    pub created_at: Timestamp,
    pub id: String,
}

const COLUMNS: &str = "id, job_type, status, input, progress, result, error, created_by, client, tenant, \
     inherit_auth <> 0 AS inherit_auth, started_at, completed_at, created_at";

const PENDING: &str = JobStatus::Pending.sql();
const RUNNING: &str = JobStatus::Running.sql();

/// The jobs that have not ended, and those that failed since a time. Ended jobs are kept for a week only.
pub async fn counts(db: &Db, since: Timestamp) -> Result<JobCounts, StoreError> {
    // Each from its part of an index: most jobs have ended.
    let sql = format!(
        "SELECT (SELECT count(*) FROM jobs WHERE status = {PENDING}) AS pending, \
             (SELECT count(*) FROM jobs WHERE status = {RUNNING}) AS running, \
             (SELECT count(*) FROM jobs WHERE status = {paused}) AS paused, \
             (SELECT count(*) FROM jobs WHERE status = {failed} AND completed_at >= $1) AS failed",
        paused = JobStatus::Paused.sql(),
        failed = JobStatus::Failed.sql(),
    );
    Ok(on!(db, reader, |pool| sqlx::query_as(AssertSqlSafe(sql)).bind(since).fetch_one(pool).await)?)
}

/// Queues a job; `false` when too many jobs are pending.
pub async fn create(
    db: &Db,
    job: &NewJob<'_>,
    PendingLimits { of_creator, of_tenant }: PendingLimits,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let room = format!(
        "(SELECT count(*) FROM jobs WHERE created_by = $4 AND status = {PENDING}) < {of_creator} \
         AND (SELECT count(*) FROM jobs WHERE tenant = $8 AND status = {PENDING}) < {of_tenant}"
    );
    insert(db, job, &room, now).await
}

/// Queues a job unless there is one with its id, or one of its type has not ended. `false` when it was not queued.
pub async fn create_alone(db: &Db, job: &NewJob<'_>, now: Timestamp) -> Result<bool, StoreError> {
    let is_alone = format!(
        "NOT EXISTS (SELECT 1 FROM jobs WHERE job_type = $2 AND status NOT IN ({}, {}, {}))",
        JobStatus::Completed.sql(),
        JobStatus::Failed.sql(),
        JobStatus::Cancelled.sql()
    );
    insert(db, job, &is_alone, now).await
}

/// Queues a job if `condition` holds and there is none with its id. Whether it was queued.
async fn insert(db: &Db, job: &NewJob<'_>, condition: &str, now: Timestamp) -> Result<bool, StoreError> {
    let sql = format!(
        "INSERT INTO jobs \
             (id, job_type, status, input, progress, created_by, client, inherit_auth, created_at, tenant) \
         SELECT $1, $2, {PENDING}, $3, '{{}}', $4, $5, $6, $7, $8 WHERE {condition} ON CONFLICT (id) DO NOTHING"
    );
    let written = on!(db, writer, |pool| {
        sqlx::query(AssertSqlSafe(sql))
            .bind(job.id)
            .bind(job.job_type)
            .bind(job.input)
            .bind(job.created_by)
            .bind(job.client)
            .bind(i64::from(job.inherit_auth))
            .bind(now)
            .bind(job.tenant)
            .execute(pool)
            .await?
            .rows_affected()
    });
    Ok(written > 0)
}

pub async fn get(db: &Db, id: &str) -> Result<Option<JobRow>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM jobs WHERE id = $1");
    Ok(on!(db, reader, |pool| sqlx::query_as(AssertSqlSafe(sql)).bind(id).fetch_optional(pool).await)?)
}

/// Newest first.
pub async fn list(
    db: &Db,
    status: Option<&str>,
    after: Option<&JobKeyset>,
    limit: u32,
) -> Result<Vec<JobRow>, StoreError> {
    let status_condition = if status.is_some() { "status = $1" } else { "CAST($1 AS TEXT) IS NULL" };
    let sql = format!(
        "SELECT {COLUMNS} FROM jobs WHERE {status_condition} AND (created_at, id) < ($2, $3) ORDER BY created_at DESC, id DESC LIMIT $4"
    );
    let (at, id) = after.map_or((i64::MAX, ""), |keyset| (keyset.created_at.0, keyset.id.as_str()));
    Ok(on!(db, reader, |pool| {
        let query = sqlx::query_as(AssertSqlSafe(sql)).bind(status).bind(at).bind(id);
        query.bind(i64::from(limit)).fetch_all(pool).await
    })?)
}

/// The jobs of scripts, whose types have no slash, newest first: those with one of `statuses`, or with any, and of a type if it is
/// given.
pub async fn list_of_scripts(
    db: &Db,
    statuses: &[JobStatus],
    job_type: Option<&str>,
    limit: u32,
) -> Result<Vec<JobRow>, StoreError> {
    let listed = JobStatus::sql_list(|status| statuses.is_empty() || statuses.contains(&status));
    let sql = format!(
        "SELECT {COLUMNS} FROM jobs WHERE status IN {listed} AND job_type NOT LIKE '%/%' \
             AND (CAST($1 AS TEXT) IS NULL OR job_type = $1) ORDER BY created_at DESC, id DESC LIMIT $2"
    );
    Ok(on!(db, reader, |pool| {
        sqlx::query_as(AssertSqlSafe(sql)).bind(job_type).bind(i64::from(limit)).fetch_all(pool).await
    })?)
}

/// A worker that claims a job.
#[derive(Clone, Copy, Debug)]
pub struct Worker<'a> {
    /// Starts with `host`.
    pub name: &'a str,
    pub host: &'a str,
    /// Largest number of jobs of one tenant that the host runs at the same time.
    pub max_per_tenant: i64,
}

/// Assigns a pending job to the worker until `lease_until`. Skips tenants of which this host already runs
/// `max_per_tenant` jobs; chooses the tenant whose latest job started longest ago, and that tenant's oldest pending
/// job.
pub async fn claim(
    db: &Db,
    worker: Worker<'_>,
    now: Timestamp,
    lease_until: Timestamp,
) -> Result<Option<JobRow>, StoreError> {
    let claimed = JobStatus::sql_after(Request::Claim);
    let has_worker = JobStatus::sql_allows(Request::Release);
    // `waiting` skips from tenant to tenant in the index: its cost does not depend on the number of jobs per tenant.
    let claim_sql = |lock: &str| {
        format!(
            "WITH RECURSIVE waiting(tenant) AS ( \
               SELECT min(tenant) FROM jobs WHERE status = {PENDING} \
               UNION ALL \
               SELECT (SELECT min(j.tenant) FROM jobs j WHERE j.status = {PENDING} AND j.tenant > waiting.tenant) \
               FROM waiting WHERE waiting.tenant IS NOT NULL \
             ), heads AS ( \
               SELECT (SELECT j.id FROM jobs j WHERE j.status = {PENDING} AND j.tenant = w.tenant \
                       ORDER BY j.created_at, j.id LIMIT 1) AS id, \
                 (SELECT max(j.started_at) FROM jobs j WHERE j.tenant = w.tenant) AS turn \
               FROM waiting w \
               WHERE w.tenant IS NOT NULL AND (SELECT count(*) FROM jobs j WHERE j.tenant = w.tenant \
                 AND {has_worker} \
                 AND substr(j.worker, 1, length($4)) = $4) < $5 \
             ) \
             UPDATE jobs SET status = {claimed}, worker = $1, lease_until = $2, started_at = $3, error = NULL \
             WHERE id = (SELECT j.id FROM heads h JOIN jobs j ON j.id = h.id WHERE j.status = {PENDING} \
               ORDER BY COALESCE(h.turn, 0), j.created_at, j.id LIMIT 1 {lock}) \
             RETURNING {COLUMNS}"
        )
    };
    let sql = match db {
        Db::Sqlite(_) => claim_sql(""),
        Db::Postgres(_) => claim_sql("FOR UPDATE OF j SKIP LOCKED"),
    };
    Ok(on!(db, writer, |pool| {
        let query = sqlx::query_as(AssertSqlSafe(sql)).bind(worker.name).bind(lease_until).bind(now);
        query.bind(worker.host).bind(worker.max_per_tenant).fetch_all(pool).await.map(only_row)
    })?)
}

/// Extends the worker's lease of the job and returns the job's status; `None` when the worker has lost the job.
pub async fn renew(
    db: &Db,
    id: &str,
    worker: &str,
    lease_until: Timestamp,
) -> Result<Option<JobStatus>, StoreError> {
    let sql = "UPDATE jobs SET lease_until = $3 WHERE id = $1 AND worker = $2 RETURNING status";
    Ok(on!(db, writer, |pool| {
        let query = sqlx::query_scalar(sql).bind(id).bind(worker).bind(lease_until);
        query.fetch_all(pool).await.map(only_row)
    })?)
}

/// The status of a job; `None` when it is not assigned to this worker.
pub async fn status(db: &Db, id: &str, worker: &str) -> Result<Option<JobStatus>, StoreError> {
    let sql = "SELECT status FROM jobs WHERE id = $1 AND worker = $2";
    Ok(on!(db, reader, |pool| sqlx::query_scalar(sql).bind(id).bind(worker).fetch_optional(pool).await)?)
}

pub async fn set_progress(db: &Db, id: &str, worker: &str, progress: &str) -> Result<bool, StoreError> {
    let sql = "UPDATE jobs SET progress = $3 WHERE id = $1 AND worker = $2";
    let found = on!(db, writer, |pool| {
        sqlx::query(sql).bind(id).bind(worker).bind(progress).execute(pool).await?.rows_affected()
    });
    Ok(found > 0)
}

/// Ends a run with its result (JSON text) or its error. Returns the job's new status: a request to pause or cancel the
/// job prevails over the outcome of the run. `None` when the worker has lost the job.
pub async fn finish(
    db: &Db,
    id: &str,
    worker: &str,
    outcome: Result<&str, &str>,
    now: Timestamp,
) -> Result<Option<JobStatus>, StoreError> {
    let request = if outcome.is_ok() { Request::Complete } else { Request::Fail };
    let sql = format!(
        "{}, {FREE}, result = CASE WHEN status = {RUNNING} THEN $4 END, \
             error = CASE WHEN status = {RUNNING} THEN $5 END \
         WHERE id = $2 AND worker = $3 RETURNING status",
        step(request)
    );
    let clean = |text: &str| text.replace('\0', "\u{fffd}");
    let (result, error) = (outcome.ok().map(clean), outcome.err().map(clean));
    Ok(on!(db, writer, |pool| {
        let query = sqlx::query_scalar(AssertSqlSafe(sql)).bind(now).bind(id).bind(worker);
        query.bind(result).bind(error).fetch_all(pool).await.map(only_row)
    })?)
}

/// Returns a job that can't be run at present to the queue.
pub async fn release(db: &Db, id: &str, worker: &str, now: Timestamp) -> Result<(), StoreError> {
    let sql = format!("{}, {FREE} WHERE id = $2 AND worker = $3", step(Request::Release));
    on!(db, writer, |pool| {
        sqlx::query(AssertSqlSafe(sql)).bind(now).bind(id).bind(worker).execute(pool).await.map(drop)
    })?;
    Ok(())
}

/// Releases the jobs of workers whose lease has expired: running jobs are pending again, pausing and cancelling jobs
/// are paused and cancelled. Returns how many.
pub async fn recover(db: &Db, now: Timestamp) -> Result<u64, StoreError> {
    let sql = format!("{}, {FREE} WHERE lease_until < $1", step(Request::Release));
    Ok(on!(db, writer, |pool| sqlx::query(AssertSqlSafe(sql)).bind(now).execute(pool).await?.rows_affected()))
}

/// Removes jobs that ended before a time, at most `max`. Returns how many.
pub async fn delete_ended_before(db: &Db, before: Timestamp, max: u32) -> Result<u64, StoreError> {
    let sql = "DELETE FROM jobs WHERE id IN (SELECT id FROM jobs WHERE completed_at < $1 LIMIT $2)";
    Ok(on!(db, writer, |pool| {
        sqlx::query(sql).bind(before).bind(i64::from(max)).execute(pool).await?.rows_affected()
    }))
}

/// Removes ended jobs of a tenant except the newest `keep`, at most `max`. Returns how many.
pub async fn delete_ended_beyond(db: &Db, tenant: &str, keep: u32, max: u32) -> Result<u64, StoreError> {
    let sql = "DELETE FROM jobs WHERE id IN (SELECT id FROM jobs WHERE tenant = $1 AND completed_at IS NOT NULL \
               ORDER BY completed_at DESC, id DESC LIMIT $3 OFFSET $2)";
    Ok(on!(db, writer, |pool| {
        let query = sqlx::query(sql).bind(tenant).bind(i64::from(keep)).bind(i64::from(max));
        query.execute(pool).await?.rows_affected()
    }))
}

/// Changes a job's status and returns the new one; `None` when its present status does not allow the request.
pub async fn request(
    db: &Db,
    id: &str,
    request: Request,
    now: Timestamp,
) -> Result<Option<JobStatus>, StoreError> {
    let sql =
        format!("{} WHERE id = $2 AND {} RETURNING status", step(request), JobStatus::sql_allows(request));
    Ok(on!(db, writer, |pool| {
        sqlx::query_scalar(AssertSqlSafe(sql)).bind(now).bind(id).fetch_all(pool).await.map(only_row)
    })?)
}

/// Takes a job from its worker.
const FREE: &str = "worker = NULL, lease_until = NULL";

/// The beginning of a statement that changes statuses by a request. More columns and a condition follow; $1 is the
/// current time.
fn step(request: Request) -> String {
    let status = JobStatus::sql_after(request);
    let ended = JobStatus::sql_list(JobStatus::has_ended);
    format!("UPDATE jobs SET status = {status}, completed_at = CASE WHEN {status} IN {ended} THEN $1 END")
}
