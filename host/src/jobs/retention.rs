//! Retention: what is only kept for a while is removed, in small steps, once an hour.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::clock::{Clock, Timestamp};
use crate::store::{Db, StoreError, api_client_keys, dead_letters, events, index, jobs, linked_repos};

/// Between sweeps; the first comes one period after the start, so that a start is never busy with it.
const PERIOD: Duration = Duration::from_hours(1);

/// How long a deletion's `rev` is remembered. Jetstream replays at most three days; a week leaves room.
const TOMBSTONE_SECONDS: i64 = 7 * DAY_SECONDS;

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// How long a resolved dead letter stays to be looked at.
const LETTER_SECONDS: i64 = 30 * DAY_SECONDS;

/// How long a job that has ended stays to be looked at.
const JOB_SECONDS: i64 = 7 * DAY_SECONDS;

/// Rows removed in one statement: short enough that requests that write don't notice.
const STEP: u32 = 1000;

/// What to keep, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// Days of the event log; 0 keeps it for ever (`EVENT_LOG_RETENTION_DAYS`).
    pub event_days: u32,
}

/// Sweeps every hour until `shutdown`.
pub async fn run(db: Db, clock: Clock, retention: Retention, shutdown: CancellationToken) {
    while shutdown.run_until_cancelled(tokio::time::sleep(PERIOD)).await.is_some() {
        if let Err(error) = sweep(&db, clock.now(), retention).await {
            tracing::warn!(%error, "a retention sweep failed; the next one is in an hour");
        }
    }
}

/// One sweep. Returns how many events and deletions were forgotten.
///
/// # Errors
/// When the database fails; what was removed until then stays removed.
pub async fn sweep(db: &Db, now: Timestamp, retention: Retention) -> Result<(u64, u64), StoreError> {
    let mut old_events = 0;
    if retention.event_days > 0 {
        let before = now.plus_seconds(-i64::from(retention.event_days) * DAY_SECONDS);
        old_events = all_steps(db, Kept::Events, before).await?;
    }
    linked_repos::prune_invites(db, now).await?;
    api_client_keys::delete_retired(db).await?;
    all_steps(db, Kept::Letters, now.plus_seconds(-LETTER_SECONDS)).await?;
    all_steps(db, Kept::Jobs, now.plus_seconds(-JOB_SECONDS)).await?;
    let before = now.plus_seconds(-TOMBSTONE_SECONDS);
    let old_deletions = all_steps(db, Kept::Deletions, before).await?;
    if old_events + old_deletions > 0 {
        tracing::info!(events = old_events, deletions = old_deletions, "a retention sweep removed old rows");
    }
    Ok((old_events, old_deletions))
}

/// What is kept for a while.
#[derive(Clone, Copy)]
enum Kept {
    Events,
    Deletions,
    Letters,
    Jobs,
}

/// Repeats a bounded removal until it finds less than a full step.
async fn all_steps(db: &Db, kept: Kept, before: Timestamp) -> Result<u64, StoreError> {
    let mut total = 0;
    loop {
        let removed = match kept {
            Kept::Events => events::delete_before(db, before, STEP).await?,
            Kept::Letters => dead_letters::delete_resolved_before(db, before, STEP).await?,
            Kept::Jobs => jobs::delete_ended_before(db, before, STEP).await?,
            Kept::Deletions => index::prune_tombstones(db, before, STEP).await?,
        };
        total += removed;
        if removed < u64::from(STEP) {
            return Ok(total);
        }
    }
}
