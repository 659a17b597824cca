//! Forgets revs of the future: of records and tombstones that were stored before such revs were refused, or by a host
//! whose clock was ahead. Until their time has come, they would win against every commit of their repo.

use sqlx::{PgConnection, SqliteConnection};

use super::plan::Key;
use crate::store::partitions::{Partition, PerPartition, Tables};
use crate::store::types::to_json_text;
use crate::store::{Db, StoreError, cursors};
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::{Tid, rev};

/// The time at which a host last committed the cursor of the stream, by its clock.
pub(super) const LAST_COMMIT: &str = "SELECT updated_at FROM stream_cursors WHERE source = $1";

/// The highest rev that is not of the future. `None` when the clock decides nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RevLimit(Option<Tid>);

impl RevLimit {
    /// After our clock went back, the last commit is later than `now`: then revs up to that time are of the past.
    pub(super) fn at(now: Timestamp, last_commit: Option<Timestamp>) -> Self {
        Self(rev::latest_possible(now.max(last_commit.unwrap_or(now))))
    }

    /// The limit at a time, by which also [`super::apply`] decides.
    pub async fn read(db: &Db, now: Timestamp) -> Result<Self, StoreError> {
        let stored = cursors::stored(db, cursors::STREAM).await?;
        Ok(Self::at(now, stored.map(|stored| stored.committed_at)))
    }

    pub fn permits(self, rev: u64) -> bool {
        self.0.is_none_or(|latest| rev <= latest.as_u64())
    }

    pub(super) fn as_number(self) -> Option<i64> {
        // The top bit of a TID is zero.
        self.0.map(|latest| latest.as_u64() as i64)
    }
}

/// Forgets the revs of the future of these records, of their tombstones and of their repos' tombstones. Returns whether
/// there were any: then a change that lost against them has to be applied again. `keys` are those of changes that lost,
/// so that batches without such changes pay nothing.
pub(super) async fn forget_sqlite(
    conn: &mut SqliteConnection,
    keys: impl Iterator<Item = Key<'_>>,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let keys = to_json_text(&keys.collect::<Vec<_>>());
    let last_commit =
        sqlx::query_scalar(LAST_COMMIT).bind(cursors::STREAM).fetch_optional(&mut *conn).await?;
    let Some(limit) = RevLimit::at(now, last_commit).as_number() else { return Ok(false) };
    let records = "UPDATE records SET rev = 0 WHERE id IN (SELECT r.id FROM json_each($1) AS v CROSS JOIN records r \
                       ON r.collection_id = v.value ->> 0 AND r.did_id = v.value ->> 1 AND r.rkey = v.value ->> 2 \
                       WHERE r.rev > $2)";
    let tombstones = "DELETE FROM tombstones WHERE rev > $2 AND (collection_id, did_id, rkey) IN \
                          (SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each($1))";
    let repos =
        "DELETE FROM repo_tombstones WHERE rev > $2 AND did_id IN (SELECT value ->> 1 FROM json_each($1))";
    let mut forgotten = 0;
    for sql in [records, tombstones, repos] {
        forgotten += sqlx::query(sql).bind(&keys).bind(limit).execute(&mut *conn).await?.rows_affected();
    }
    Ok(forgotten > 0)
}

/// Forgets revs of records, and of tombstones.
pub(in crate::store) static FORGET: PerPartition<[String; 2]> = PerPartition::new(
    |Tables { records, tombstones, .. }| {
        let keys = "UNNEST ($1::bigint[], $2::bigint[], $3::text[]) AS v (collection_id, did_id, rkey) \
             WHERE r.collection_id = v.collection_id AND r.did_id = v.did_id AND r.rkey = v.rkey AND r.rev > $4";
        [
            format!("UPDATE {records} r SET rev = 0 FROM {keys}"),
            format!("DELETE FROM {tombstones} r USING {keys}"),
        ]
    },
);

/// Like [`forget_sqlite`], for records of one partition.
pub(super) async fn forget_postgres(
    conn: &mut PgConnection,
    partition: Partition,
    keys: impl Iterator<Item = Key<'_>>,
    now: Timestamp,
) -> Result<bool, sqlx::Error> {
    let (mut collections, mut dids, mut rkeys) = (Vec::new(), Vec::new(), Vec::new());
    for (collection, did, rkey) in keys {
        collections.push(collection);
        dids.push(did);
        rkeys.push(rkey);
    }
    let last_commit =
        sqlx::query_scalar(LAST_COMMIT).bind(cursors::STREAM).fetch_optional(&mut *conn).await?;
    let Some(limit) = RevLimit::at(now, last_commit).as_number() else { return Ok(false) };
    let mut forgotten = 0;
    for sql in FORGET.of(partition) {
        let query = sqlx::query(*sql).bind(&collections).bind(&dids).bind(&rkeys).bind(limit);
        forgotten += query.execute(&mut *conn).await?.rows_affected();
    }
    let repos = "DELETE FROM repo_tombstones WHERE did_id = ANY($1) AND rev > $2";
    forgotten += sqlx::query(repos).bind(&dids).bind(limit).execute(&mut *conn).await?.rows_affected();
    Ok(forgotten > 0)
}
