//! The write path of the index: many changes, accounts and the stream cursor in ONE transaction.
//!
//! `plan` turns a batch into rows that name each record once; `sqlite` and `postgres` bring the rows into the
//! database, each in the way that is cheapest there.

mod accounts;
mod plan;
mod postgres;
mod sqlite;

use bytes::Bytes;

use crate::atproto::{Cid, Did, Nsid, RecordKey, RecordUri, Tid};
use crate::clock::Timestamp;

use super::lease::Term;
use super::{Db, StoreError, on};

/// One group commit.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    pub changes: Vec<Change>,
    /// In order. A deletion removes what was there before the batch; if it is the account's last word, its changes
    /// in this batch are dropped too. The other states only hide and show, so their place in the batch is no matter.
    /// DIDs that were never indexed are ignored: a stream tells about every account of the network.
    pub accounts: Vec<AccountChange>,
    /// Committed with everything above, and only with it.
    pub cursor: Option<StreamCursor>,
    /// Whose lease of the stream this comes from; if that is over, nothing is committed.
    pub term: Term,
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
    Active = 0,
    Deactivated = 1,
    TakenDown = 2,
    Suspended = 3,
    Deleted = 4,
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

/// References longer than this are not kept: no AT URI of a record is, and an index entry on PostgreSQL has to fit
/// a third of a page (2,704 bytes).
const MAX_TARGET_BYTES: usize = 2_000;

/// Applies a batch in one transaction. Rules: an older or equal `rev` never overwrites, also not a deletion; a
/// batch may name a record several times, the newest `rev` wins; `indexed_at` is kept on update; references are
/// replaced with their record.
///
/// # Errors
/// When the database fails; then nothing of the batch is there, and it may be applied again as it is. After
/// [`StoreError::Superseded`] it never will be.
pub async fn apply(db: &Db, batch: &Batch) -> Result<Applied, StoreError> {
    let plan = plan::Plan::of(db, batch).await?;
    match db {
        Db::Sqlite(sqlite) => sqlite::apply(sqlite, plan).await,
        Db::Postgres(postgres) => postgres::apply(postgres, plan).await,
    }
}

/// Forgets deletions older than `before`; at most `max` rows a call. Returns how many.
pub async fn prune_tombstones(db: &Db, before: Timestamp, max: u32) -> Result<u64, StoreError> {
    let sql = "DELETE FROM tombstones WHERE (collection_id, did_id, rkey) IN \
               (SELECT collection_id, did_id, rkey FROM tombstones WHERE deleted_at < $1 LIMIT $2)";
    Ok(on!(db, writer, |pool| {
        sqlx::query(sql).bind(before).bind(i64::from(max)).execute(pool).await?.rows_affected()
    }))
}

pub(super) const SET_CURSOR: &str = "INSERT INTO stream_cursors (source, cursor, updated_at) VALUES ($1, $2, $3) \
     ON CONFLICT (source) DO UPDATE SET cursor = excluded.cursor, updated_at = excluded.updated_at";
