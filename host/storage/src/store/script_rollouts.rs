//! Stores the rollouts of scripts: a candidate for a script's body that some callers run, and the runs of both versions.
//!
//! [`super::scripts`] ends a rollout in the transaction that stores another body of its script.

use belvedere_base::clock::Timestamp;

use super::text_enum::text_enum;
use super::{Db, StoreError, in_transaction, on, only_row};

text_enum! {
    /// The state of a rollout.
    pub enum RolloutState {
        /// Some callers run the candidate.
        Running = "running",
        /// No caller runs it any more.
        Returned = "returned",
        /// The candidate was saved as the script's body.
        Promoted = "promoted",
        /// Another body was saved meanwhile.
        Replaced = "replaced",
    }
}

text_enum! {
    /// A version of a script during a rollout.
    pub enum RolloutVersion {
        /// The script as it is saved.
        Current = "current",
        Candidate = "candidate",
    }
}

/// When a candidate is returned, and how many callers run it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct RolloutTerms {
    /// Percent of callers that run the candidate, 1 to 100.
    pub percent: i64,
    /// Runs of the candidate before it is compared.
    pub min_runs: i64,
    /// Percentage points by which its failed runs may exceed those of the script.
    pub max_errors: i64,
    /// Percent of the script's mean time that the candidate may take; `None`: any.
    pub max_time: Option<i64>,
    /// Percent of the script's mean instructions; `None`: any.
    pub max_instructions: Option<i64>,
}

/// A rollout.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct RolloutRow {
    /// The trigger.
    pub script_id: String,
    /// The candidate's source.
    pub body: String,
    /// The revision of the script that the other callers run.
    pub base_revision: i64,
    #[sqlx(flatten)]
    pub terms: RolloutTerms,
    pub state: RolloutState,
    /// The reason why it was returned, if it was.
    pub reason: Option<String>,
    pub started_by: String,
    /// When it was started, which also tells it from others of the script.
    pub started_at: Timestamp,
    /// The time at which the terms or the state changed last.
    pub changed_at: Timestamp,
}

/// The runs of one version on all hosts since the rollout started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, sqlx::FromRow)]
pub struct RolloutCounts {
    pub runs: i64,
    pub failures: i64,
    /// Instructions of all runs; 0 for scripts whose instructions are not counted, such as jobs.
    pub instructions: i64,
    /// Microseconds that the runs computed.
    pub guest_micros: i64,
    /// Microseconds from begin to end of the runs, waits included.
    pub took_micros: i64,
}

/// Ends the rollout of a script whose body is about to change, before it changes. Parameters: id, the new body, time.
pub(super) const END_ROLLOUT: &str = "UPDATE rollouts SET changed_at = $3, \
         state = CASE WHEN body = $2 THEN 'promoted' ELSE 'replaced' END \
     WHERE script_id = $1 AND state = 'running' \
         AND EXISTS (SELECT 1 FROM scripts s WHERE s.id = $1 AND s.body <> $2)";

/// Removes the rollout of a script that is deleted. Parameter: id.
pub(super) const DROP_ROLLOUT: [&str; 2] =
    ["DELETE FROM rollouts WHERE script_id = $1", "DELETE FROM rollout_counts WHERE script_id = $1"];

macro_rules! select {
    ($tail:literal) => {
        concat!(
            "SELECT script_id, body, base_revision, percent, min_runs, max_errors, max_time, max_instructions, state, \
                 reason, started_by, started_at, changed_at FROM rollouts ",
            $tail
        )
    };
}

/// The rollouts that go on.
pub async fn running(db: &Db) -> Result<Vec<RolloutRow>, StoreError> {
    let sql = select!("WHERE state = 'running' ORDER BY script_id");
    Ok(on!(db, writer, |pool| sqlx::query_as(sql).fetch_all(pool).await)?)
}

/// The rollout of a script that goes on, or else the one that ended last.
pub async fn get(db: &Db, script_id: &str) -> Result<Option<RolloutRow>, StoreError> {
    let sql = select!("WHERE script_id = $1");
    Ok(on!(db, writer, |pool| sqlx::query_as(sql).bind(script_id).fetch_optional(pool).await)?)
}

/// Starts a rollout in place of the one that ended last, unless one goes on or the script has another revision. `false`: it was
/// not started.
pub async fn start(db: &Db, row: &RolloutRow) -> Result<bool, StoreError> {
    let sql = "INSERT INTO rollouts (script_id, body, base_revision, percent, min_runs, max_errors, max_time, \
                   max_instructions, state, reason, started_by, started_at, changed_at) \
               SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13 \
               WHERE $3 = (SELECT coalesce(max(revision), 0) FROM saved_scripts WHERE script_id = $1) \
                   AND EXISTS (SELECT 1 FROM scripts WHERE id = $1) \
               ON CONFLICT (script_id) DO UPDATE SET body = excluded.body, base_revision = excluded.base_revision, \
                   percent = excluded.percent, min_runs = excluded.min_runs, max_errors = excluded.max_errors, \
                   max_time = excluded.max_time, max_instructions = excluded.max_instructions, state = excluded.state, \
                   reason = excluded.reason, started_by = excluded.started_by, started_at = excluded.started_at, \
                   changed_at = excluded.changed_at \
               WHERE rollouts.state <> 'running'";
    let drop_counts = "DELETE FROM rollout_counts WHERE script_id = $1";
    Ok(in_transaction!(db, |tx| {
        let RolloutTerms { percent, min_runs, max_errors, max_time, max_instructions } = row.terms;
        let started = sqlx::query(sql)
            .bind(&row.script_id)
            .bind(&row.body)
            .bind(row.base_revision)
            .bind(percent)
            .bind(min_runs)
            .bind(max_errors)
            .bind(max_time)
            .bind(max_instructions)
            .bind(row.state)
            .bind(&row.reason)
            .bind(&row.started_by)
            .bind(row.started_at)
            .bind(row.changed_at)
            .execute(&mut *tx)
            .await?
            .rows_affected()
            > 0;
        if started {
            sqlx::query(drop_counts).bind(&row.script_id).execute(&mut *tx).await?;
        }
        started
    }))
}

/// Changes a rollout that goes on. `None` when none does.
pub async fn change(
    db: &Db,
    script_id: &str,
    terms: RolloutTerms,
    now: Timestamp,
) -> Result<Option<RolloutRow>, StoreError> {
    let sql = "UPDATE rollouts SET percent = $2, min_runs = $3, max_errors = $4, max_time = $5, \
                   max_instructions = $6, changed_at = $7 WHERE script_id = $1 AND state = 'running' \
               RETURNING script_id, body, base_revision, percent, min_runs, max_errors, max_time, max_instructions, state, \
                   reason, started_by, started_at, changed_at";
    let RolloutTerms { percent, min_runs, max_errors, max_time, max_instructions } = terms;
    let rows = on!(db, writer, |pool| sqlx::query_as(sql)
        .bind(script_id)
        .bind(percent)
        .bind(min_runs)
        .bind(max_errors)
        .bind(max_time)
        .bind(max_instructions)
        .bind(now)
        .fetch_all(pool)
        .await)?;
    Ok(only_row(rows))
}

/// Returns the rollout that was started at that time. `false` when it does not go on any more.
pub async fn end(
    db: &Db,
    script_id: &str,
    started_at: Timestamp,
    reason: &str,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let sql = "UPDATE rollouts SET state = 'returned', reason = $3, changed_at = $4 \
               WHERE script_id = $1 AND started_at = $2 AND state = 'running'";
    let ended = on!(db, writer, |pool| {
        sqlx::query(sql)
            .bind(script_id)
            .bind(started_at)
            .bind(reason)
            .bind(now)
            .execute(pool)
            .await?
            .rows_affected()
    });
    Ok(ended > 0)
}

/// Adds the runs that a host has counted, if the rollout goes on that was started at that time.
pub async fn add_counts(
    db: &Db,
    script_id: &str,
    started_at: Timestamp,
    version: RolloutVersion,
    counts: RolloutCounts,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO rollout_counts (script_id, version, runs, failures, instructions, guest_micros, took_micros) \
               SELECT $1, $3, $4, $5, $6, $7, $8 WHERE EXISTS (\
                   SELECT 1 FROM rollouts WHERE script_id = $1 AND started_at = $2 AND state = 'running') \
               ON CONFLICT (script_id, version) DO UPDATE SET runs = rollout_counts.runs + excluded.runs, \
                   failures = rollout_counts.failures + excluded.failures, \
                   instructions = rollout_counts.instructions + excluded.instructions, \
                   guest_micros = rollout_counts.guest_micros + excluded.guest_micros, \
                   took_micros = rollout_counts.took_micros + excluded.took_micros";
    on!(db, writer, |pool| {
        sqlx::query(sql)
            .bind(script_id)
            .bind(started_at)
            .bind(version)
            .bind(counts.runs)
            .bind(counts.failures)
            .bind(counts.instructions)
            .bind(counts.guest_micros)
            .bind(counts.took_micros)
            .execute(pool)
            .await?;
    });
    Ok(())
}

/// The runs of a version, on all hosts.
pub async fn counts(db: &Db, script_id: &str, version: RolloutVersion) -> Result<RolloutCounts, StoreError> {
    let sql = "SELECT runs, failures, instructions, guest_micros, took_micros FROM rollout_counts \
               WHERE script_id = $1 AND version = $2";
    let found: Option<RolloutCounts> =
        on!(db, writer, |pool| sqlx::query_as(sql).bind(script_id).bind(version).fetch_optional(pool).await)?;
    Ok(found.unwrap_or_default())
}
