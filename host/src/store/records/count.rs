//! Counts records.

use crate::atproto::{Did, Nsid};
use crate::fair_share::Tenant;

use super::super::{Db, StoreError, intern, on};

/// Subtracts the records of hidden accounts, of which there are few, from the number that triggers keep (ADR 75).
const COUNT: &str = "SELECT CAST(coalesce((SELECT sum(records) FROM record_counts WHERE collection_id = $1), 0) \
     - coalesce((SELECT sum((SELECT count(*) FROM records r WHERE r.collection_id = $1 AND r.did_id = d.id)) \
     FROM dids d WHERE d.status <> 0), 0) AS BIGINT)";
const COUNT_DID: &str = "SELECT count(*) FROM records WHERE collection_id = $1 AND did_id = \
     (SELECT id FROM dids WHERE did = $2 AND status = 0)";

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
    let Some(id) = intern::collection_id(db, collection).await? else { return Ok(0) };
    let _place = db.scan_place(tenant).await?;
    macro_rules! counted {
        ($pool:expr) => {
            match did {
                None => sqlx::query_scalar(COUNT).bind(id),
                Some(did) => sqlx::query_scalar(COUNT_DID).bind(id).bind(did.as_str()),
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
const COUNT_INVALID: &str = "SELECT count(*) FROM invalid_records i CROSS JOIN records r CROSS JOIN dids d \
     WHERE i.collection_id = $1 AND r.id = i.record_id AND d.id = r.did_id AND d.status = 0";

/// Number of visible records per collection, sorted by NSID, without empty collections.
pub async fn collection_counts(db: &Db) -> Result<Vec<CollectionCount>, StoreError> {
    let sql = "SELECT nsid, id FROM collections ORDER BY nsid";
    let collections: Vec<(String, i64)> = on!(db, reader, |pool| sqlx::query_as(sql).fetch_all(pool).await)?;
    let mut counts = Vec::with_capacity(collections.len());
    for (collection, id) in collections {
        let count = async |sql: &'static str| -> Result<i64, StoreError> {
            Ok(on!(db, reader, |pool| sqlx::query_scalar(sql).bind(id).fetch_one(pool).await)?)
        };
        let records = count(COUNT).await? as u64;
        if records > 0 {
            counts.push(CollectionCount { collection, records, invalid: count(COUNT_INVALID).await? as u64 });
        }
    }
    Ok(counts)
}
