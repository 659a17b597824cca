//! Counts records.

use crate::atproto::{Did, Nsid};
use crate::fair_share::Tenant;

use super::super::intern::{self, Collection};
use super::super::partitions::PerPartition;
use super::super::{Db, StoreError, on};

/// Subtracts the records of hidden accounts, of which there are few, from the number that triggers keep (ADR 75).
pub(in crate::store) static COUNT: PerPartition<&str> = PerPartition::new(
    "SELECT CAST(coalesce((SELECT sum(records) FROM record_counts WHERE collection_id = $1), 0) \
     - coalesce((SELECT sum((SELECT count(*) FROM {records} r WHERE r.collection_id = $1 AND r.did_id = d.id)) \
     FROM dids d WHERE d.status <> 0), 0) AS BIGINT)",
);
pub(in crate::store) static COUNT_DID: PerPartition<&str> = PerPartition::new(
    "SELECT count(*) FROM {records} WHERE collection_id = $1 AND did_id = \
     (SELECT id FROM dids WHERE did = $2 AND status = 0)",
);

/// Number of visible records of a collection, or of one account in it.
///
/// # Errors
/// [`StoreError::Busy`] and [`StoreError::TooSlow`], because it passes over all records of the account, and without one
/// over those of hidden accounts.
pub async fn count(
    db: &Db,
    collection: &Nsid,
    did: Option<&Did>,
    tenant: &Tenant,
) -> Result<u64, StoreError> {
    let Some(collection) = intern::collection(db, collection).await? else { return Ok(0) };
    let _place = db.scan_place(tenant).await?;
    macro_rules! counted {
        ($pool:expr) => {
            match did {
                None => sqlx::query_scalar(*COUNT.of(collection.partition)).bind(collection.id),
                Some(did) => {
                    let query = sqlx::query_scalar(*COUNT_DID.of(collection.partition));
                    query.bind(collection.id).bind(did.as_str())
                }
            }
            .fetch_one($pool.reads())
            .await?
        };
    }
    let count: i64 = match db {
        Db::Sqlite(db) => counted!(db.scan_pool),
        Db::Postgres(db) => counted!(db.scan_pool),
    };
    Ok(count as u64)
}

/// The number of visible records of a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectionCount {
    pub collection: String,
    pub records: u64,
    /// Those of them that their lexicon rejects.
    pub invalid: u64,
}

/// The invalid records of visible accounts. Reads no others.
pub(in crate::store) static COUNT_INVALID: PerPartition<&str> = PerPartition::new(
    "SELECT count(*) FROM invalid_records i CROSS JOIN {records} r CROSS JOIN dids d \
     WHERE i.collection_id = $1 AND r.collection_id = $1 AND r.id = i.record_id AND d.id = r.did_id AND d.status = 0",
);

/// Number of visible records per collection, sorted by NSID, without empty collections.
pub async fn collection_counts(db: &Db) -> Result<Vec<CollectionCount>, StoreError> {
    let all = intern::all_collections(db).await?;
    let mut counts = Vec::with_capacity(all.len());
    for (collection, Collection { id, partition }) in all {
        let count = async |sql: &'static str| -> Result<i64, StoreError> {
            Ok(on!(db, reader, |pool| sqlx::query_scalar(sql).bind(id).fetch_one(pool).await)?)
        };
        let records = count(COUNT.of(partition)).await? as u64;
        if records > 0 {
            let invalid = count(COUNT_INVALID.of(partition)).await? as u64;
            counts.push(CollectionCount { collection, records, invalid });
        }
    }
    Ok(counts)
}
