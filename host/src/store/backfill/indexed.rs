//! Reads which records of a repo's collection the index has, to compare them with a PDS's list.

use sqlx::AssertSqlSafe;

use crate::atproto::{Cid, Did, Nsid, RecordKey};
use crate::store::types::to_json_text;
use crate::store::{Db, StoreError, on};

/// A record of the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexedRow {
    pub rkey: RecordKey,
    /// The TID as an integer.
    pub rev: u64,
    pub cid: Option<Cid>,
}

/// A range of record keys, in the order of their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyRange<'a> {
    /// Exclusive; `None`: no end.
    pub below: Option<&'a str>,
    /// Inclusive; `None`: from the lowest.
    pub from: Option<&'a str>,
}

type Row = (String, i64, Option<Vec<u8>>);

const SELECT: &str = "SELECT r.rkey, r.rev, r.cid FROM records r \
     WHERE r.collection_id = (SELECT id FROM collections WHERE nsid = $1) \
     AND r.did_id = (SELECT id FROM dids WHERE did = $2)";

/// The records of the index in a range of record keys, the highest key first, at most `limit`.
pub async fn in_range(
    db: &Db,
    did: &Did,
    collection: &Nsid,
    range: KeyRange<'_>,
    limit: usize,
) -> Result<Vec<IndexedRow>, StoreError> {
    // An open end has no condition, so that the key's index is used for the others.
    let below = if range.below.is_some() { "r.rkey < $3" } else { "CAST($3 AS TEXT) IS NULL" };
    // Every key is greater than the empty text.
    let sql = format!("{SELECT} AND {below} AND r.rkey >= $4 ORDER BY r.rkey DESC LIMIT $5");
    let rows: Vec<Row> = on!(db, reader, |pool| {
        let query = sqlx::query_as(AssertSqlSafe(sql)).bind(collection.as_str()).bind(did.as_str());
        let query = query.bind(range.below).bind(range.from.unwrap_or_default());
        query.bind(limit as i64).fetch_all(pool).await
    })?;
    rows.into_iter().map(indexed_row).collect()
}

/// The records of the index with these keys.
pub async fn with_keys(
    db: &Db,
    did: &Did,
    collection: &Nsid,
    keys: &[&str],
) -> Result<Vec<IndexedRow>, StoreError> {
    let list = match db {
        Db::Sqlite(_) => "SELECT value FROM json_each($3)",
        Db::Postgres(_) => "SELECT json_array_elements_text($3::json)",
    };
    let sql = format!("{SELECT} AND r.rkey IN ({list})");
    let keys = to_json_text(keys);
    let rows: Vec<Row> = on!(db, reader, |pool| {
        let query = sqlx::query_as(AssertSqlSafe(sql)).bind(collection.as_str()).bind(did.as_str());
        query.bind(keys).fetch_all(pool).await
    })?;
    rows.into_iter().map(indexed_row).collect()
}

fn indexed_row((rkey, rev, cid): Row) -> Result<IndexedRow, StoreError> {
    let corrupt = |what: &str| StoreError::Corrupt(format!("{what} of a record"));
    Ok(IndexedRow {
        rkey: RecordKey::try_from(rkey.as_str()).map_err(|_| corrupt("the key"))?,
        rev: u64::try_from(rev).map_err(|_| corrupt("the rev"))?,
        cid: cid.map(|bytes| Cid::from_bytes(&bytes).map_err(|_| corrupt("the CID"))).transpose()?,
    })
}
