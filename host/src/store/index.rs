//! The write path of the index: many changes, accounts and the stream cursor in ONE transaction.

use bytes::Bytes;

use crate::atproto::{Cid, Did, Nsid, RecordKey, RecordUri, Tid};
use crate::clock::Timestamp;

use super::{Db, StoreError};

/// One group commit.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    pub changes: Vec<Change>,
    /// Applied before `changes`, in order.
    pub accounts: Vec<AccountChange>,
    /// Committed with everything above, and only with it.
    pub cursor: Option<StreamCursor>,
    /// `indexed_at` of new rows, `updated_at` of all.
    pub now: Timestamp,
}

#[derive(Clone, Debug)]
pub enum Change {
    Upsert(Upsert),
    Delete(Delete),
}

#[derive(Clone, Debug)]
pub struct Upsert {
    pub did: Did,
    pub collection: Nsid,
    pub rkey: RecordKey,
    pub rev: Tid,
    pub cid: Option<Cid>,
    /// Whether `cid` was recomputed from the record and matched.
    pub cid_verified: bool,
    /// A JSON object, kept as it is.
    pub record: Bytes,
    /// The `at://` strings in the record, without duplicates.
    pub refs: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct Delete {
    pub did: Did,
    pub collection: Nsid,
    pub rkey: RecordKey,
    pub rev: Tid,
}

#[derive(Clone, Debug)]
pub struct AccountChange {
    pub did: Did,
    pub status: AccountStatus,
}

/// Everything but `Active` makes an account's rows invisible; `Deleted` removes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccountStatus {
    Active,
    Deactivated,
    TakenDown,
    Suspended,
    Deleted,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamCursor {
    pub source: String,
    pub cursor: i64,
}

/// What a batch did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    pub inserted: u64,
    pub updated: u64,
    pub deleted: u64,
    /// Changes that lost to a newer or equal `rev`, in the batch or in the database.
    pub stale: u64,
    /// Rows of purged accounts.
    pub purged: u64,
    /// Upserts that the database can't hold. The others were committed.
    pub rejected: Vec<Rejected>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    pub uri: RecordUri,
    pub reason: String,
}

/// Applies a batch in one transaction. Rules: an older or equal `rev` never overwrites, also not a deletion; a
/// batch may name a record several times, the newest `rev` wins; `indexed_at` is kept on update; references are
/// replaced with their record.
///
/// # Errors
/// When the database fails; then nothing of the batch is there, and it may be applied again as it is.
pub async fn apply(_db: &Db, _batch: &Batch) -> Result<Applied, StoreError> {
    todo!()
}

/// Forgets deletions older than `before`; at most `max` rows a call. Returns how many.
pub async fn prune_tombstones(_db: &Db, _before: Timestamp, _max: u32) -> Result<u64, StoreError> {
    todo!()
}
