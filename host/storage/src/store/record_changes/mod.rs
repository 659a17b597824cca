//! Stores changes of records for subscriptions, in the order in which they were committed (ADR 165).

mod triggers;
mod watched;

use std::time::Duration;

use sqlx::AssertSqlSafe;

use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Nsid;

use super::{Db, StoreError, intern, on};

pub use super::change_notes::{Action, NOTIFICATION};
pub use triggers::follow;
pub use watched::{forget, watch, watched_since};

/// A change of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordChange {
    /// Later changes have higher numbers, over all collections.
    pub seq: i64,
    pub did: String,
    pub collection: String,
    pub rkey: String,
    pub action: Action,
    pub changed_at: Timestamp,
    /// The bytes of the record's CID.
    pub cid: Option<Vec<u8>>,
    /// The record as it was then. `None` of a deletion, of a record or an account that is hidden now, and of a collection that
    /// no subscription showed then.
    pub record: Option<String>,
}

/// The changes that are kept. The last one always is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Older changes are deleted.
    pub since: Timestamp,
    /// The oldest changes are deleted while all together are larger.
    pub max_bytes: i64,
}

/// Rows and bytes that are read at a time. A page has one row in any case.
const PAGE_ROWS: i64 = 500;
const PAGE_BYTES: i64 = 4 << 20;

/// Interval at which a reader looks for changes that nothing announces. On SQLite nothing does, and a look takes microseconds.
pub fn poll_interval(db: &Db) -> Duration {
    match db {
        Db::Sqlite(_) => Duration::from_millis(25),
        Db::Postgres(_) => Duration::from_secs(1),
    }
}

/// The lowest and the highest number; `None` without changes.
pub async fn bounds(db: &Db) -> Result<Option<(i64, i64)>, StoreError> {
    let sql = "SELECT (SELECT min(seq) FROM record_changes), (SELECT max(seq) FROM record_changes)";
    let (first, last): (Option<i64>, Option<i64>) =
        on!(db, reader, |pool| sqlx::query_as(sql).fetch_one(pool).await)?;
    Ok(first.zip(last))
}

/// The highest number; 0 without changes.
pub async fn last_seq(db: &Db) -> Result<i64, StoreError> {
    let sql = "SELECT coalesce(max(seq), 0) FROM record_changes";
    Ok(on!(db, reader, |pool| sqlx::query_scalar(sql).fetch_one(pool).await)?)
}

/// A page of changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangePage {
    pub changes: Vec<RecordChange>,
    /// The number up to which all changes were looked at.
    pub until: i64,
}

/// The changes after a number, in order, of one collection or of all. `None` when there are no later ones of any collection.
pub async fn page(db: &Db, after: i64, collection: Option<&Nsid>) -> Result<Option<ChangePage>, StoreError> {
    let end = "SELECT max(s.seq) FROM (SELECT seq, bytes_before FROM record_changes WHERE seq > $1 ORDER BY seq LIMIT $2) s \
         WHERE s.bytes_before < $3 + (SELECT bytes_before FROM record_changes WHERE seq > $1 ORDER BY seq LIMIT 1)";
    let until: Option<i64> = on!(db, reader, |pool| {
        let query = sqlx::query_scalar(end).bind(after).bind(PAGE_ROWS).bind(PAGE_BYTES);
        query.fetch_one(pool).await
    })?;
    let Some(until) = until else { return Ok(None) };
    let of_collection = match collection {
        None => None,
        Some(nsid) => match intern::collection(db, nsid).await? {
            Some(collection) => Some(collection.id),
            None => return Ok(Some(ChangePage { changes: Vec::new(), until })),
        },
    };
    let condition =
        if of_collection.is_some() { "c.collection_id = $3" } else { "CAST($3 AS BIGINT) IS NULL" };
    let sql = format!(
        "SELECT c.seq, d.did, n.nsid, c.rkey, CAST(c.action AS BIGINT), c.changed_at, c.cid, \
             CASE WHEN d.status = 0 AND NOT EXISTS (SELECT 1 FROM hidden_records h WHERE h.collection_id = c.collection_id \
                 AND h.did_id = c.did_id AND h.rkey = c.rkey) THEN c.record END \
         FROM record_changes c JOIN dids d ON d.id = c.did_id JOIN collections n ON n.id = c.collection_id \
         WHERE c.seq > $1 AND c.seq <= $2 AND {condition} ORDER BY c.seq"
    );
    let rows: Vec<Row> = on!(db, reader, |pool| {
        let query = sqlx::query_as(AssertSqlSafe(sql)).bind(after).bind(until).bind(of_collection);
        query.fetch_all(pool).await
    })?;
    let changes = rows.into_iter().map(change).collect::<Result<_, _>>()?;
    Ok(Some(ChangePage { changes, until }))
}

type Row = (i64, String, String, String, i64, Timestamp, Option<Vec<u8>>, Option<String>);

fn change(
    (seq, did, collection, rkey, action, changed_at, cid, record): Row,
) -> Result<RecordChange, StoreError> {
    let action = match action {
        0 => Action::Created,
        1 => Action::Updated,
        2 => Action::Deleted,
        other => return Err(StoreError::Corrupt(format!("a change of a record has the action {other}"))),
    };
    Ok(RecordChange { seq, did, collection, rkey, action, changed_at, cid, record })
}

/// Deletes the oldest changes outside of the window, at most `limit`. Returns how many. The last change stays, so that no
/// number is lost.
pub async fn prune(db: &Db, window: Window, limit: u32) -> Result<u64, StoreError> {
    let sql = "DELETE FROM record_changes WHERE seq IN ( \
             SELECT o.seq FROM (SELECT seq, changed_at, bytes_before FROM record_changes ORDER BY seq LIMIT $1) o \
             CROSS JOIN (SELECT seq, bytes_before + size AS bytes FROM record_changes ORDER BY seq DESC LIMIT 1) l \
             WHERE o.seq < l.seq AND (o.changed_at < $2 OR o.bytes_before < l.bytes - $3))";
    Ok(on!(db, writer, |pool| {
        let query = sqlx::query(sql).bind(i64::from(limit)).bind(window.since).bind(window.max_bytes);
        query.execute(pool).await?.rows_affected()
    }))
}
