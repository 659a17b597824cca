//! Prepares a batch for SQL: replaces names with ids and keeps only the newest `rev` of each record.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::record::Ref;
use belvedere_protocol::atproto::{Did, RecordUri};

use super::super::intern::{self, Collection};
use super::super::lease::Term;
use super::super::partitions::Partition;
use super::accounts::Accounts;
use super::{
    ApplyReport, Batch, Change, CheckedRecord, Db, MAX_TARGET_BYTES, RejectedRecord, StoreError, StreamCursor,
};

/// The key of a record in the database.
pub(super) type Key<'a> = (i64, i64, &'a str);

/// A row to insert or update.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'a> {
    pub(super) partition: Partition,
    pub(super) collection_id: i64,
    pub(super) did_id: i64,
    pub(super) rev: i64,
    pub(super) text: &'a str,
    pub(super) uri: &'a RecordUri,
    pub(super) record: &'a CheckedRecord,
}

/// The record that has a reference, as stored with the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Source {
    pub(super) collection_id: i64,
    pub(super) id: i64,
    pub(super) did_id: i64,
}

/// A row to delete, and the tombstone it leaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeleteRow<'a> {
    pub(super) partition: Partition,
    pub(super) collection_id: i64,
    pub(super) did_id: i64,
    pub(super) rev: i64,
    pub(super) rkey: &'a str,
}

#[derive(Debug)]
pub(super) struct Plan<'a> {
    /// Sorted by partition and key, each key once.
    pub(super) rows: Vec<Row<'a>>,
    /// Sorted by partition and key, each key once, and none that is in `rows`.
    pub(super) deletes: Vec<DeleteRow<'a>>,
    pub(super) accounts: Accounts<'a>,
    pub(super) repairs: &'a [Did],
    /// The repos of the batch, see [`Plan::locks`].
    locks: Vec<i32>,
    pub(super) cursor: Option<&'a StreamCursor>,
    pub(super) term: Term,
    pub(super) now: Timestamp,
    /// The effects known before SQL: stale changes within the batch, and records that are not UTF-8.
    pub(super) applied: ApplyReport,
}

impl<'a> Row<'a> {
    pub(super) fn key(&self) -> Key<'a> {
        (self.collection_id, self.did_id, self.uri.rkey.as_str())
    }

    /// The record with the id that it got.
    pub(super) fn source(&self, id: i64) -> Source {
        Source { collection_id: self.collection_id, id, did_id: self.did_id }
    }

    /// The references that are stored.
    pub(super) fn refs(&self) -> impl Iterator<Item = &'a Ref> + use<'a> {
        storable(&self.record.refs)
    }

    pub(super) fn reject(&self, reason: impl Into<String>) -> RejectedRecord {
        RejectedRecord { uri: self.uri.clone(), reason: reason.into() }
    }
}

impl<'a> DeleteRow<'a> {
    pub(super) fn key(&self) -> Key<'a> {
        (self.collection_id, self.did_id, self.rkey)
    }
}

impl<'a> Plan<'a> {
    pub(super) async fn of(db: &Db, batch: &'a Batch) -> Result<Self, StoreError> {
        let uris = || batch.changes.iter().map(|change| &change.uri);
        let dids = intern::did_ids(db, uris().map(|uri| &uri.did)).await?;
        let collections = intern::collections(db, uris().map(|uri| &uri.collection)).await?;
        let id_of = |uri: &RecordUri| {
            // Both maps were made from the same names a few lines above.
            Some((*collections.get(&uri.collection)?, *dids.get(&uri.did)?))
        };

        let accounts = Accounts::of(&batch.accounts);
        let mut applied = ApplyReport::default();
        let mut newest: HashMap<Key<'a>, (Partition, &'a Change)> =
            HashMap::with_capacity(batch.changes.len());
        for change in &batch.changes {
            let Some((Collection { id, partition }, did_id)) = id_of(&change.uri) else { continue };
            match newest.entry((id, did_id, change.uri.rkey.as_str())) {
                Entry::Vacant(entry) => {
                    entry.insert((partition, change));
                }
                Entry::Occupied(mut entry) => {
                    applied.stale += 1;
                    if change.rev > entry.get().1.rev {
                        entry.insert((partition, change));
                    }
                }
            }
        }

        let mut rows = Vec::with_capacity(newest.len());
        let mut deletes = Vec::new();
        for ((collection_id, did_id, rkey), (partition, change)) in newest {
            // The top bit of a TID is zero.
            let rev = change.rev.as_u64() as i64;
            let Some(record) = &change.record else {
                deletes.push(DeleteRow { partition, collection_id, did_id, rev, rkey });
                continue;
            };
            let uri = &change.uri;
            match std::str::from_utf8(&record.text) {
                Ok(text) => rows.push(Row { partition, collection_id, did_id, rev, text, uri, record }),
                Err(error) => {
                    applied.rejected.push(RejectedRecord { uri: uri.clone(), reason: error.to_string() });
                }
            }
        }
        // All hosts write in this order, so that two of them can't deadlock. It also makes index accesses local.
        rows.sort_unstable_by(|a, b| (a.partition, a.key()).cmp(&(b.partition, b.key())));
        deletes.sort_unstable_by(|a, b| (a.partition, a.key()).cmp(&(b.partition, b.key())));
        Ok(Self {
            rows,
            deletes,
            locks: locks(uris().map(|uri| &uri.did).chain(accounts.dids())),
            accounts,
            repairs: &batch.repairs,
            cursor: batch.cursor.as_ref(),
            term: batch.term,
            now: batch.now,
            applied,
        })
    }
}

impl<'a> Plan<'a> {
    /// The plan to write one row.
    pub(super) fn of_row(row: Row<'a>, now: Timestamp) -> Self {
        Self {
            locks: locks(std::iter::once(&row.uri.did)),
            rows: vec![row],
            deletes: Vec::new(),
            accounts: Accounts::default(),
            repairs: &[],
            cursor: None,
            term: Term::ALONE,
            now,
            applied: ApplyReport::default(),
        }
    }

    /// Numbers below [`LOCKS`], in order, that two batches share if they share a repo. If several hosts write at the
    /// same time, locks on these numbers keep one from inserting a record that another is just deleting.
    pub(super) fn locks(&self) -> &[i32] {
        &self.locks
    }
}

/// The references that are stored, see [`MAX_TARGET_BYTES`].
pub(super) fn storable(refs: &[Ref]) -> impl Iterator<Item = &Ref> {
    refs.iter().filter(|found| found.target.len() <= MAX_TARGET_BYTES)
}

/// The number of locks: enough that small batches seldom share one, and few for a batch that takes all.
const LOCKS: u32 = 64;

/// The numbers of the locks of some repos, see [`Plan::locks`].
pub(super) fn locks<'a>(dids: impl Iterator<Item = &'a Did>) -> Vec<i32> {
    let numbers: BTreeSet<i32> = dids.map(|did| (fnv_1a(did.as_str().bytes()) % LOCKS) as i32).collect();
    numbers.into_iter().collect()
}

/// A hash that is the same on all hosts. Its lower bits depend on all bytes.
pub(super) fn fnv_1a(bytes: impl Iterator<Item = u8>) -> u32 {
    bytes.fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}
