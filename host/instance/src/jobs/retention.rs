//! Retention: deletes expired rows once an hour and when a retention period changes, in small steps.

use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::history;
use belvedere_base::clock::{Clock, Timestamp};
use belvedere_storage::store::events::EventFilter;
use belvedere_storage::store::metric_resolution::Resolution;
use belvedere_storage::store::{
    Db, StoreError, api_client_keys, dead_letters, events, index, instance_oauth_keys, jobs, labels,
    linked_repos, metric_history,
};

/// Time between sweeps. The first one runs one period after the start, so that it does not slow the start.
const PERIOD: Duration = Duration::from_hours(1);

/// Time for which a tombstone is kept. Jetstream replays at most three days; a week leaves a margin.
const TOMBSTONE_SECONDS: i64 = 7 * DAY_SECONDS;

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// Time for which records of a deleted account are kept if their revs say that they are newer than the deletion: the
/// account may have been created again, and the stream may say so later.
const LEFTOVER_SECONDS: i64 = DAY_SECONDS;

/// Time for which a resolved dead letter is kept for inspection.
const DEAD_LETTER_SECONDS: i64 = 30 * DAY_SECONDS;

/// Time for which an unused key of the instance is kept after its rotation: logins that began with it may still
/// complete, and they take half an hour at most.
const OAUTH_KEY_SECONDS: i64 = 60 * 60;

/// Time for which an expired label is kept: while it is there, an older one of the same value that arrives late can't
/// take its place. Labels without an indexed record stay: the record may arrive later.
const LABEL_SECONDS: i64 = 7 * DAY_SECONDS;

/// Time for which an ended job is kept for inspection.
const JOB_SECONDS: i64 = 7 * DAY_SECONDS;

/// Rows deleted in one statement: few enough not to delay requests that write.
const ROWS_PER_STEP: u32 = 1000;

/// The configurable retention periods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Days that rows of the event log are kept; 0 keeps them forever.
    pub event_days: u32,
}

/// Sweeps every hour, and whenever the periods change, until `shutdown`.
pub async fn run(
    db: Db,
    clock: Clock,
    mut retention: watch::Receiver<Retention>,
    shutdown: CancellationToken,
) {
    loop {
        let change = tokio::time::timeout(PERIOD, retention.changed());
        match shutdown.run_until_cancelled(change).await {
            // The server shuts down, or it is gone and with it the periods.
            None | Some(Ok(Err(_))) => return,
            Some(Ok(Ok(())) | Err(_)) => {}
        }
        let periods = *retention.borrow_and_update();
        if let Err(error) = sweep(&db, clock.now(), periods).await {
            tracing::warn!(%error, "a retention sweep failed; the next one is in an hour");
        }
    }
}

/// One sweep. Returns the numbers of deleted events and tombstones.
///
/// # Errors
/// When the database fails; rows deleted until then stay deleted.
pub async fn sweep(db: &Db, now: Timestamp, retention: Retention) -> Result<(u64, u64), StoreError> {
    let mut old_events = 0;
    if retention.event_days > 0 {
        let before = now.plus_seconds(-i64::from(retention.event_days) * DAY_SECONDS);
        old_events = delete_expired(db, Table::Events, before).await?;
    }
    linked_repos::prune_invites(db, now).await?;
    api_client_keys::delete_retired(db).await?;
    instance_oauth_keys::delete_unused(db, now.plus_seconds(-OAUTH_KEY_SECONDS)).await?;
    delete_expired(db, Table::DeadLetters, now.plus_seconds(-DEAD_LETTER_SECONDS)).await?;
    delete_expired(db, Table::Jobs, now.plus_seconds(-JOB_SECONDS)).await?;
    index::purge_leftovers(db, now.plus_seconds(-LEFTOVER_SECONDS)).await?;
    delete_expired(db, Table::Labels, now.plus_seconds(-LABEL_SECONDS)).await?;
    for resolution in Resolution::ALL {
        let before = now.plus_seconds(-history::kept_seconds(resolution));
        delete_expired(db, Table::History(resolution), before).await?;
    }
    let before = now.plus_seconds(-TOMBSTONE_SECONDS);
    let old_tombstones = delete_expired(db, Table::Tombstones, before).await?;
    if old_events + old_tombstones > 0 {
        tracing::info!(events = old_events, deletions = old_tombstones, "a retention sweep removed old rows");
    }
    Ok((old_events, old_tombstones))
}

/// The tables from which expired rows are deleted in steps.
#[derive(Clone, Copy)]
enum Table {
    Events,
    Tombstones,
    DeadLetters,
    Jobs,
    Labels,
    History(Resolution),
}

/// Repeats a bounded delete until it removes less than a full step.
async fn delete_expired(db: &Db, table: Table, before: Timestamp) -> Result<u64, StoreError> {
    let mut total = 0;
    loop {
        let removed = match table {
            Table::Events => {
                let old = EventFilter { before: Some(before), ..EventFilter::default() };
                events::delete(db, &old, ROWS_PER_STEP).await?
            }
            Table::DeadLetters => dead_letters::delete_resolved_before(db, before, ROWS_PER_STEP).await?,
            Table::Labels => labels::delete_expired(db, before, ROWS_PER_STEP).await?,
            Table::History(resolution) => {
                metric_history::delete_before(db, resolution, before, ROWS_PER_STEP).await?
            }
            Table::Jobs => jobs::delete_ended_before(db, before, ROWS_PER_STEP).await?,
            Table::Tombstones => index::prune_tombstones(db, before, ROWS_PER_STEP).await?,
        };
        total += removed;
        if removed < u64::from(ROWS_PER_STEP) {
            return Ok(total);
        }
    }
}
