//! Catch-ups: jobs that read what has changed since a gap of the stream began. The gaps of a job are removed when it has
//! ended, in a step of its own, so that a crash in between loses none.
//!
//! Only the host with the lease of backfills calls these functions. The stream's host adds gaps at the same time.

use sqlx::AssertSqlSafe;

use super::{CATCH_UP, QUEUED, queued};
use crate::store::status::{BackfillStatus, Stage};
use crate::store::{Db, StoreError, on};
use belvedere_base::clock::Timestamp;

/// A catch-up that was queued, or that waits and was extended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedCatchUp {
    pub id: String,
    pub changed_since: Timestamp,
    /// The gaps that were added to it.
    pub gaps: u64,
}

/// A catch-up of gaps, and not the retry of another's failed repos.
const OF_GAPS: &str = "kind = 'catch_up' AND is_discovered = 0";

/// Removes the gaps of the catch-ups that have read everything they could or were cancelled. Those of others that have
/// ended wait for another catch-up. Returns whether gaps wait for one.
pub async fn settle_gaps(db: &Db) -> Result<bool, StoreError> {
    let states = "SELECT CAST(coalesce(sum(CASE WHEN job IS NULL THEN 1 ELSE 0 END), 0) AS BIGINT), \
                      CAST(coalesce(sum(CASE WHEN job IN \
                          (SELECT id FROM backfill_jobs WHERE completed_at IS NOT NULL) THEN 1 ELSE 0 END), 0) AS BIGINT) \
                  FROM stream_gaps";
    let (cancelled, completed) = (BackfillStatus::Cancelled.sql(), BackfillStatus::Completed.sql());
    let done = format!(
        "DELETE FROM stream_gaps WHERE job IN (SELECT id FROM backfill_jobs WHERE completed_at IS NOT NULL \
             AND (status = {cancelled} OR status = {completed} AND error IS NULL))"
    );
    let again = format!(
        "UPDATE stream_gaps SET job = NULL WHERE job IN (SELECT id FROM backfill_jobs \
         WHERE completed_at IS NOT NULL AND status <> {cancelled} AND error IS NOT NULL)"
    );
    let (waiting, ended): (i64, i64) = on!(db, reader, |pool| sqlx::query_as(states).fetch_one(pool).await)?;
    if ended == 0 {
        return Ok(waiting > 0);
    }
    let freed = on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        sqlx::query(AssertSqlSafe(done)).execute(&mut *tx).await?;
        let freed = sqlx::query(AssertSqlSafe(again)).execute(&mut *tx).await?.rows_affected();
        tx.commit().await?;
        freed
    });
    Ok(waiting > 0 || freed > 0)
}

/// Queues a catch-up with the id `id` for the gaps that wait, or adds them to the one that has not begun. It reads
/// repos that have changed since `margin` seconds before the first gap. `None` when no gap waits, while a catch-up has
/// begun and not ended, and when the last one was created after `not_before`.
pub async fn queue_catch_up(
    db: &Db,
    id: &str,
    margin: i64,
    not_before: Timestamp,
    now: Timestamp,
) -> Result<Option<QueuedCatchUp>, StoreError> {
    let Some((id, known)) = catch_up_for(db, id, not_before).await? else { return Ok(None) };
    let first = "SELECT min(started_at) FROM stream_gaps WHERE job IS NULL";
    let first: Option<Timestamp> = on!(db, reader, |pool| sqlx::query_scalar(first).fetch_one(pool).await)?;
    let Some(first) = first else { return Ok(None) };
    let since = Timestamp(first.plus_seconds(-margin).0.max(0));
    let changed_since = known.map_or(since, |known| known.min(since));
    let insert = format!(
        "INSERT INTO backfill_jobs \
             (id, kind, changed_since, status, stage, is_discovered, created_at, started_at) \
         VALUES ($1, $2, $3, {}, 0, $4, $4)",
        queued()
    );
    let extend = "UPDATE backfill_jobs SET changed_since = $2 WHERE id = $1";
    // Not a gap that was added or extended meanwhile and began before.
    let assign = "UPDATE stream_gaps SET job = $1 WHERE job IS NULL AND started_at >= $2";
    Ok(on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        if known.is_some() {
            sqlx::query(extend).bind(&id).bind(changed_since).execute(&mut *tx).await?;
        } else {
            let query =
                sqlx::query(AssertSqlSafe(insert)).bind(&id).bind(CATCH_UP).bind(changed_since).bind(now);
            query.execute(&mut *tx).await?;
        }
        let gaps = sqlx::query(assign).bind(&id).bind(first).execute(&mut *tx).await?.rows_affected();
        tx.commit().await?;
        Some(QueuedCatchUp { id, changed_since, gaps })
    }))
}

/// The id of the catch-up to which gaps can be added, and since when it reads changes if it is queued already.
async fn catch_up_for(
    db: &Db,
    new_id: &str,
    not_before: Timestamp,
) -> Result<Option<(String, Option<Timestamp>)>, StoreError> {
    let unended = format!(
        "SELECT id, changed_since, status, stage FROM backfill_jobs WHERE {OF_GAPS} AND completed_at IS NULL \
         ORDER BY seq LIMIT 1"
    );
    let latest = format!("SELECT max(created_at) FROM backfill_jobs WHERE {OF_GAPS}");
    let unended: Option<(String, Timestamp, BackfillStatus, Stage)> =
        on!(db, reader, |pool| sqlx::query_as(AssertSqlSafe(unended)).fetch_optional(pool).await)?;
    if let Some((id, changed_since, status, stage)) = unended {
        return Ok(((status, stage) == QUEUED).then_some((id, Some(changed_since))));
    }
    let latest: Option<Timestamp> =
        on!(db, reader, |pool| sqlx::query_scalar(AssertSqlSafe(latest)).fetch_one(pool).await)?;
    let is_due = latest.is_none_or(|latest| latest <= not_before);
    Ok(is_due.then(|| (new_id.to_owned(), None)))
}
