//! Counts records.

use std::collections::HashMap;

use belvedere_protocol::atproto::{Did, Nsid};
use belvedere_web::fair_share::Tenant;

use super::super::intern::{self, Collection};
use super::super::partitions::{PerPartition, Tables};
use super::super::reads::Reads;
use super::super::{Db, StoreError, on};

/// Writers keep the numbers ([`counts`](crate::store::counts)).
const COUNT: &str =
    "SELECT CAST(coalesce(sum(records - hidden), 0) AS BIGINT) FROM record_counts WHERE collection_id = $1";
pub(in crate::store) static COUNT_DID: PerPartition<String> =
    PerPartition::new(|Tables { records, .. }| {
        format!(
            "SELECT count(*) FROM {records} WHERE collection_id = $1 AND did_id = \
     (SELECT id FROM dids WHERE did = $2 AND status = 0)"
        )
    });

/// Number of visible records of a collection, or of one account in it.
///
/// # Errors
/// [`StoreError::Busy`]; with an account [`StoreError::TooSlow`], because it passes over all records of the account.
pub async fn count(
    db: &Db,
    collection: &Nsid,
    did: Option<&Did>,
    tenant: &Tenant,
) -> Result<u64, StoreError> {
    let Some(collection) = intern::collection(db, collection).await? else { return Ok(0) };
    macro_rules! count {
        ($pool:expr, $sql:expr $(, $arg:expr)?) => {
            sqlx::query_scalar($sql).bind(collection.id)$(.bind($arg))?.fetch_one($pool.reads()).await?
        };
    }
    let count: i64 = if let Some(did) = did {
        let (sql, did) = (*COUNT_DID.of(collection.partition), did.as_str());
        let _permit = db.scan_permit(tenant).await?;
        match db {
            Db::Sqlite(db) => count!(db.scan_pool, sql, did),
            Db::Postgres(db) => count!(db.pool_of(collection.partition, Reads::Scans), sql, did),
        }
    } else {
        let _permit = db.read_permit(tenant).await?;
        match db {
            Db::Sqlite(db) => count!(db.read_pool, COUNT),
            Db::Postgres(db) => count!(db.read_pools.hot, COUNT),
        }
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
pub(in crate::store) static COUNT_INVALID: PerPartition<String> = PerPartition::new(
    |Tables { records, invalid_records, .. }| {
        format!(
            "SELECT count(*) FROM {invalid_records} i CROSS JOIN {records} r CROSS JOIN dids d \
     WHERE i.collection_id = $1 AND r.collection_id = $1 AND r.id = i.record_id AND d.id = r.did_id AND d.status = 0"
        )
    },
);

/// Number of visible records per collection, sorted by NSID, without empty collections.
pub async fn collection_counts(db: &Db) -> Result<Vec<CollectionCount>, StoreError> {
    let numbers: Vec<(i64, i64)> = on!(db, reader, |pool| {
        let sql = "SELECT collection_id, CAST(sum(records - hidden) AS BIGINT) FROM record_counts GROUP BY collection_id";
        sqlx::query_as(sql).fetch_all(pool).await
    })?;
    let numbers: HashMap<i64, i64> = numbers.into_iter().collect();
    let mut counts = Vec::with_capacity(numbers.len());
    for (collection, Collection { id, partition }) in intern::all_collections(db).await? {
        let records = numbers.get(&id).copied().unwrap_or_default() as u64;
        if records > 0 {
            let sql = *COUNT_INVALID.of(partition);
            let invalid: i64 =
                on!(db, reader, |pool| sqlx::query_scalar(sql).bind(id).fetch_one(pool).await)?;
            counts.push(CollectionCount { collection, records, invalid: invalid as u64 });
        }
    }
    Ok(counts)
}
