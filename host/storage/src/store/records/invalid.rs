//! Records that their lexicon rejects: reading records to validate them again, and replacing what was found before.

use super::super::intern::{self, Collection};
use super::super::partitions::{PerPartition, Tables};
use super::super::select::{Accounts, Columns, Select};
use super::super::{Db, StoreError, hot, on};
use super::{FullRecordRow, Page};
use crate::query::{Direction, Keyset};
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Nsid;

/// Reads that filter by validity count the invalid records of their collection, up to this many. Up to here, leaving
/// them out or reading only them costs no more than a list.
pub(in crate::store) const FEW: i64 = 2_000;

/// Whether a collection has at most [`FEW`] invalid records.
pub(in crate::store) async fn are_few(db: &Db, collection: Collection) -> Result<bool, StoreError> {
    static COUNT: PerPartition<String> = PerPartition::new(|Tables { invalid_records, .. }| {
        format!("SELECT count(*) FROM (SELECT 1 FROM {invalid_records} WHERE collection_id = $1 LIMIT $2) i")
    });
    let sql = *COUNT.of(collection.partition);
    let count: i64 = hot!(db, collection.partition, |pool| sqlx::query_scalar(sql)
        .bind(collection.id)
        .bind(FEW + 1)
        .fetch_one(pool)
        .await)?;
    Ok(count <= FEW)
}

/// The next records of a collection in the order in which they were indexed, at most `limit` and [`PAGE_BYTES`](super::PAGE_BYTES). Those of
/// hidden accounts are included: the accounts may come back.
pub async fn walk(
    db: &Db,
    collection: &Nsid,
    after: Keyset,
    limit: u32,
) -> Result<Page<FullRecordRow>, StoreError> {
    let Some(id) = intern::collection(db, collection).await? else { return Ok(Page::empty()) };
    let select = Select {
        columns: Columns::Full,
        accounts: Accounts::All,
        direction: Direction::Asc,
        after: Some(after),
        limit,
        ..Select::page(collection, id, limit)
    };
    select.complete(db, select.full_rows(db).await?).await
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

/// Notes that a record is valid, and that it is not, unless it was changed.
static SET: PerPartition<[String; 2]> = PerPartition::new(|Tables { records, invalid_records, .. }| {
    [
        format!(
            "DELETE FROM {invalid_records} WHERE record_id = $1 \
     AND EXISTS (SELECT 1 FROM {records} r WHERE r.id = $1 AND r.updated_at = $2 AND r.collection_id = $3)"
        ),
        format!(
            "INSERT INTO {invalid_records} (record_id, collection_id, reason) \
     SELECT r.id, r.collection_id, $4 FROM {records} r \
     WHERE r.id = $1 AND r.updated_at = $2 AND r.collection_id = $3 \
     ON CONFLICT (record_id) DO UPDATE SET reason = excluded.reason"
        ),
    ]
});

/// Replaces what is known of the validity of records of a collection.
pub async fn set(db: &Db, collection: &Nsid, verdicts: &[Verdict]) -> Result<(), StoreError> {
    let Some(collection) = intern::collection(db, collection).await? else { return Ok(()) };
    let [clear, flag] = SET.of(collection.partition);
    on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        for Verdict { id, updated_at, reason } in verdicts {
            let query = sqlx::query(if reason.is_none() { *clear } else { *flag });
            let mut query = query.bind(id).bind(updated_at).bind(collection.id);
            if let Some(reason) = reason {
                query = query.bind(reason);
            }
            query.execute(&mut *tx).await?;
        }
        tx.commit().await?;
        Ok(())
    })
}
