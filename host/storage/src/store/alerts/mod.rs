//! Stores alerts: what is measured, when that is reported and to which target, and the state of each.

mod state;

use sqlx::AssertSqlSafe;

use belvedere_base::clock::Timestamp;

use super::text_enum::text_enum;
use super::{Db, StoreError, on};
pub use state::{Outcome, set_outcome, set_sent};

text_enum! {
    /// The value that an alert compares.
    pub enum AlertMetric {
        /// Percent of the calls of the last minutes that this server failed to answer (5xx).
        ErrorRate = "error_rate",
        /// Milliseconds that 99 of 100 calls of the last minutes did not exceed.
        LatencyP99 = "request_p99_ms",
        /// Calls per minute.
        Requests = "requests",
        /// Calls per minute that were refused because the client's budget was used up (429).
        ClientRateLimited = "client_rate_limited",
        /// Failed runs of scripts per minute.
        ScriptErrors = "script_errors",
        /// Seconds by which the index is behind the stream.
        StreamLag = "stream_lag",
        /// Dead letters that wait for a decision.
        DeadLetters = "dead_letters",
        /// Repos that could not be read by the backfills of the last 24 hours.
        FailedRepos = "backfill_failed_repos",
        /// Bytes of the database.
        DatabaseBytes = "database_bytes",
        /// Free bytes of the disk with the SQLite file.
        DiskFreeBytes = "disk_free_bytes",
    }
}

text_enum! {
    /// The comparison of the value with the threshold.
    pub enum AlertCondition {
        Above = "above",
        Below = "below",
    }
}

text_enum! {
    /// The receiver of changes of state. The event log gets all of them.
    pub enum AlertTarget {
        Log = "log",
        Webhook = "webhook",
    }
}

text_enum! {
    /// The state of an alert.
    pub enum AlertState {
        /// The condition does not hold.
        Ok = "ok",
        /// The condition holds, but not for long enough yet.
        Pending = "pending",
        Firing = "firing",
    }
}

text_enum! {
    /// A change of state that is reported.
    pub enum AlertNotice {
        Firing = "firing",
        Resolved = "resolved",
    }
}

/// The part of an alert that operators choose.
#[derive(Clone, Debug, PartialEq, sqlx::FromRow)]
pub struct AlertRule {
    pub name: String,
    pub metric: AlertMetric,
    /// The method, client or script; `None`: all.
    pub label: Option<String>,
    pub condition: AlertCondition,
    pub threshold: f64,
    /// Minutes for which the condition must hold.
    pub minutes: i64,
    pub target: AlertTarget,
    /// The address of a webhook.
    pub url: Option<String>,
    /// Sealed.
    pub secret: Option<Vec<u8>>,
    pub is_enabled: bool,
}

#[derive(Clone, Debug, PartialEq, sqlx::FromRow)]
pub struct AlertRow {
    pub id: String,
    #[sqlx(flatten)]
    pub rule: AlertRule,
    pub revision: i64,
    pub state: AlertState,
    /// The time at which the state began.
    pub state_at: Timestamp,
    /// The last measured value; `None` without a measurement.
    pub value: Option<f64>,
    pub checked_at: Option<Timestamp>,
    /// The change that the target has not been sent yet.
    pub notice: Option<AlertNotice>,
    pub notice_at: Option<Timestamp>,
    /// Attempts to send it.
    pub attempts: i64,
    /// The reason why the last attempt failed.
    pub delivery_error: Option<String>,
    pub created_by: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

const COLUMNS: &str = "id, name, metric, label, condition, threshold, minutes, target, url, secret, is_enabled, revision, \
     state, state_at, value, checked_at, notice, notice_at, attempts, delivery_error, created_by, created_at, updated_at";

/// The oldest first.
pub async fn list(db: &Db) -> Result<Vec<AlertRow>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM alerts ORDER BY created_at, id");
    Ok(on!(db, reader, |pool| sqlx::query_as(AssertSqlSafe(sql)).fetch_all(pool).await)?)
}

pub async fn get(db: &Db, id: &str) -> Result<Option<AlertRow>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM alerts WHERE id = $1");
    Ok(on!(db, reader, |pool| sqlx::query_as(AssertSqlSafe(sql)).bind(id).fetch_optional(pool).await)?)
}

/// Binds the id, the rule and the time of a write, `$1` to `$12`.
macro_rules! with_rule {
    ($sql:expr, $id:expr, $rule:expr, $now:expr) => {
        sqlx::query($sql)
            .bind($id)
            .bind(&$rule.name)
            .bind($rule.metric)
            .bind(&$rule.label)
            .bind($rule.condition)
            .bind($rule.threshold)
            .bind($rule.minutes)
            .bind($rule.target)
            .bind(&$rule.url)
            .bind(&$rule.secret)
            .bind($rule.is_enabled)
            .bind($now)
    };
}

/// Adds an alert, in the state `ok`. `false` when there are `max` already.
pub async fn create(
    db: &Db,
    id: &str,
    rule: &AlertRule,
    created_by: &str,
    max: i64,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let sql = "INSERT INTO alerts (id, name, metric, label, condition, threshold, minutes, target, url, secret, \
                   is_enabled, revision, state, state_at, created_by, created_at, updated_at) \
               SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 1, 'ok', $12, $13, $12, $12 \
               WHERE (SELECT count(*) FROM alerts) < $14";
    let written = on!(db, writer, |pool| {
        let query = with_rule!(sql, id, rule, now).bind(created_by).bind(max);
        query.execute(pool).await?.rows_affected()
    });
    Ok(written > 0)
}

/// Replaces the rule of an alert whose revision is `based_on`, or whichever it has without one. `false` when there is none.
pub async fn update(
    db: &Db,
    id: &str,
    rule: &AlertRule,
    based_on: Option<i64>,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let sql = "UPDATE alerts SET name = $2, metric = $3, label = $4, condition = $5, threshold = $6, minutes = $7, \
                   target = $8, url = $9, secret = $10, is_enabled = $11, revision = revision + 1, updated_at = $12, \
                   delivery_error = NULL \
               WHERE id = $1 AND ($13 IS NULL OR revision = $13)";
    let written = on!(db, writer, |pool| {
        with_rule!(sql, id, rule, now).bind(based_on).execute(pool).await?.rows_affected()
    });
    Ok(written > 0)
}

/// `false` when the alert does not exist.
pub async fn delete(db: &Db, id: &str) -> Result<bool, StoreError> {
    let sql = "DELETE FROM alerts WHERE id = $1";
    let removed = on!(db, writer, |pool| sqlx::query(sql).bind(id).execute(pool).await?.rows_affected());
    Ok(removed > 0)
}
