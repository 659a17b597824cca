//! Reads of the record index. Rows of accounts that are not active are invisible in every one of them.

use bytes::Bytes;

use crate::atproto::{Cid, Did, Nsid, RecordUri};
use crate::clock::Timestamp;

use super::{Db, StoreError};

/// A record as lists and scripts need it.
#[derive(Clone, Debug)]
pub struct RecordRow {
    pub id: i64,
    pub did: String,
    pub collection: Nsid,
    pub rkey: String,
    pub indexed_at: Timestamp,
    /// A JSON object. SQLite keeps the text as it came; PostgreSQL writes its own text of the same value.
    pub record: Bytes,
}

/// A record with everything the admin API shows.
#[derive(Clone, Debug)]
pub struct FullRecordRow {
    pub row: RecordRow,
    pub cid: Option<Cid>,
    pub cid_verified: bool,
    pub updated_at: Timestamp,
}

/// Where a page ended: rows after it are older, or as old with a smaller id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keyset {
    pub indexed_at: Timestamp,
    pub id: i64,
}

#[derive(Clone, Debug)]
pub struct ListArgs<'a> {
    pub collection: &'a Nsid,
    pub did: Option<&'a Did>,
    /// Rows to read: ask for one more than the page to know whether another page follows.
    pub limit: u32,
    pub after: Option<Keyset>,
}

impl RecordRow {
    /// `at://did/collection/rkey`
    pub fn uri(&self) -> String {
        format!("at://{}/{}/{}", self.did, self.collection, self.rkey)
    }
}

/// Newest first by (`indexed_at`, id).
pub async fn list(_db: &Db, _args: &ListArgs<'_>) -> Result<Vec<RecordRow>, StoreError> {
    todo!()
}

/// As [`list`], with CID and times.
pub async fn list_full(_db: &Db, _args: &ListArgs<'_>) -> Result<Vec<FullRecordRow>, StoreError> {
    todo!()
}

pub async fn get(_db: &Db, _uri: &RecordUri) -> Result<Option<RecordRow>, StoreError> {
    todo!()
}

pub async fn get_full(_db: &Db, _uri: &RecordUri) -> Result<Option<FullRecordRow>, StoreError> {
    todo!()
}

/// Those of `uris` that exist, in no order.
pub async fn get_many(_db: &Db, _uris: &[RecordUri]) -> Result<Vec<RecordRow>, StoreError> {
    todo!()
}

pub async fn count(_db: &Db, _collection: &Nsid, _did: Option<&Did>) -> Result<u64, StoreError> {
    todo!()
}

/// Visible records per collection that has any, by NSID.
pub async fn collection_counts(_db: &Db) -> Result<Vec<(String, u64)>, StoreError> {
    todo!()
}

/// Removes one row and its references, visible or not. Leaves no tombstone: a later event or a backfill brings
/// the record back. `false` when it was not there.
pub async fn delete(_db: &Db, _uri: &RecordUri) -> Result<bool, StoreError> {
    todo!()
}

/// Removes all rows of a collection, in steps that let other writers through. Returns how many.
pub async fn delete_collection(_db: &Db, _collection: &Nsid) -> Result<u64, StoreError> {
    todo!()
}
