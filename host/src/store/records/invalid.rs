//! Records that their lexicon rejects: reading records to validate them again, and replacing what was found before.

use super::super::{Db, StoreError, on};
use super::slice::{PAGE_BYTES, complete};
use super::{FullRecordRow, RawRow, Slice, columns};
use crate::atproto::Nsid;
use crate::clock::Timestamp;
use crate::query::Keyset;

/// Reads that filter by validity count the invalid records of their collection, up to this many. Up to here, leaving
/// them out or reading only them costs no more than a list.
pub(in crate::store) const FEW: i64 = 2_000;

/// Whether a collection has at most [`FEW`] invalid records.
pub(in crate::store) async fn are_few(db: &Db, collection: i64) -> Result<bool, StoreError> {
    let sql = "SELECT count(*) FROM (SELECT 1 FROM invalid_records WHERE collection_id = $1 LIMIT $2) i";
    let count: i64 = on!(db, reader, |pool| {
        sqlx::query_scalar(sql).bind(collection).bind(FEW + 1).fetch_one(pool).await
    })?;
    Ok(count <= FEW)
}

/// Records in ascending order, those of hidden accounts too.
macro_rules! walk_sql {
    ($dialect:ident) => {
        concat!(
            "SELECT ",
            columns!($dialect full),
            " FROM records r CROSS JOIN dids d WHERE d.id = r.did_id AND r.collection_id = $1 \
               AND (r.indexed_at, r.id) > ($2, $3) ORDER BY r.indexed_at, r.id LIMIT $4"
        )
    };
}
const WALK_SQLITE: &str = walk_sql!(sqlite);
const WALK_POSTGRES: &str = walk_sql!(postgres);

/// The next records of a collection in the order in which they were indexed, at most `limit` and [`PAGE_BYTES`]. Those of
/// hidden accounts are included: the accounts may come back.
pub async fn walk(
    db: &Db,
    (id, collection): (i64, &Nsid),
    after: Keyset,
    limit: u32,
) -> Result<Slice<FullRecordRow>, StoreError> {
    macro_rules! found {
        ($pool:expr, $sql:expr) => {
            sqlx::query($sql)
                .bind(id)
                .bind(after.indexed_at)
                .bind(after.id)
                .bind(i64::from(limit) + 1)
                .fetch_all($pool.reads())
                .await?
                .into_iter()
                .map(|row| row.raw_full(collection.clone()))
                .collect::<Result<Vec<_>, _>>()?
        };
    }
    let found = match db {
        Db::Sqlite(db) => found!(db.read_pool, WALK_SQLITE),
        Db::Postgres(db) => found!(db.read_pool, WALK_POSTGRES),
    };
    complete(db, found, limit, PAGE_BYTES).await
}

/// A record that was validated again with another result.
#[derive(Clone, Debug)]
pub struct Verdict {
    pub id: i64,
    /// The record's when it was read: a newer one was validated when it was written.
    pub updated_at: Timestamp,
    /// `None`: valid.
    pub reason: Option<String>,
}

/// Replaces what is known of the validity of records.
pub async fn set(db: &Db, collection: i64, verdicts: &[Verdict]) -> Result<(), StoreError> {
    let clear = "DELETE FROM invalid_records WHERE record_id = $1 \
                 AND EXISTS (SELECT 1 FROM records r WHERE r.id = $1 AND r.updated_at = $2)";
    let flag = "INSERT INTO invalid_records (record_id, collection_id, reason) \
                SELECT r.id, r.collection_id, $3 FROM records r \
                WHERE r.id = $1 AND r.updated_at = $2 AND r.collection_id = $4 \
                ON CONFLICT (record_id) DO UPDATE SET reason = excluded.reason";
    on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        for Verdict { id, updated_at, reason } in verdicts {
            match reason {
                None => sqlx::query(clear).bind(id).bind(updated_at).execute(&mut *tx).await?,
                Some(reason) => {
                    let query = sqlx::query(flag).bind(id).bind(updated_at).bind(reason).bind(collection);
                    query.execute(&mut *tx).await?
                }
            };
        }
        tx.commit().await?;
        Ok(())
    })
}
