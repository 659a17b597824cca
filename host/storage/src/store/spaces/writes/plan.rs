//! Computes the effect of a batch on a repo, without the database.

use std::collections::BTreeMap;

use belvedere_protocol::atproto::record::MAX_RECORD_BYTES;
use belvedere_protocol::atproto::{Cid, Tid};
use belvedere_protocol::spaces::oplog::{Change, Op, Position};
use belvedere_protocol::spaces::{RecordPath, SetHash};

use super::super::repos::RepoState;
use super::{MAX_RECORDS, MAX_WRITES, NewRecord, Precondition, Refused, Write};

/// The state of a repo and of the records that a batch names, before it.
#[derive(Debug, Default)]
pub(super) struct Before {
    pub state: Option<RepoState>,
    pub records: BTreeMap<Key, Cid>,
}

/// The changes of a batch.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    before: Before,
    hash: SetHash,
    records: u64,
    /// The last version of each record that changed.
    rows: BTreeMap<Key, Version<'a>>,
    /// All changes in their order.
    changes: Vec<(&'a RecordPath, Change)>,
}

/// A version of a record.
#[derive(Clone, Copy, Debug)]
struct Version<'a> {
    /// `None` if the record is gone.
    cid: Option<Cid>,
    /// Its content; `None` if it is gone, or the content of this version is not known.
    record: Option<&'a NewRecord>,
}

/// The columns that name a record in a repo.
pub(super) type Key = (String, String);

pub(super) fn key(path: &RecordPath) -> Key {
    (path.collection.to_string(), path.rkey.to_string())
}

pub(super) fn check_sizes(writes: &[Write]) -> Result<(), Refused> {
    if writes.len() > MAX_WRITES {
        return Err(Refused::TooManyWrites);
    }
    match writes.iter().position(|write| write.record.as_ref().is_some_and(is_too_large)) {
        Some(large) => Err(Refused::TooLarge(large)),
        None => Ok(()),
    }
}

pub(super) fn is_too_large(record: &NewRecord) -> bool {
    record.text.len() > MAX_RECORD_BYTES
}

impl<'a> Plan<'a> {
    pub(super) fn new(before: Before) -> Self {
        let (hash, records) =
            before.state.as_ref().map_or_else(Default::default, |state| (state.hash.clone(), state.records));
        Self { before, hash, records, rows: BTreeMap::new(), changes: Vec::new() }
    }

    /// Replaces all records of a repo. The hash and the number of records are those of the new ones, whatever they were. `before`
    /// has all records. There are no changes for a log.
    pub(super) fn replacing(before: Before, records: &'a [(RecordPath, NewRecord)]) -> Self {
        let gone = Version { cid: None, record: None };
        let mut rows: BTreeMap<Key, Version<'a>> =
            before.records.keys().map(|key| (key.clone(), gone)).collect();
        let mut hash = SetHash::default();
        for (path, record) in records {
            hash.add(path, record.cid);
            let key = key(path);
            if before.records.get(&key) == Some(&record.cid) {
                rows.remove(&key);
            } else {
                rows.insert(key, Version { cid: Some(record.cid), record: Some(record) });
            }
        }
        Self { before, hash, records: records.len() as u64, rows, changes: Vec::new() }
    }

    /// Writes a batch. Returns the change of each write.
    ///
    /// # Errors
    /// When the precondition of a write does not hold, or the repo gets too many records. The plan must not be used then.
    pub(super) fn write_all(&mut self, writes: &'a [Write]) -> Result<Vec<Option<Change>>, Refused> {
        let mut changes = Vec::with_capacity(writes.len());
        for (n, write) in writes.iter().enumerate() {
            let current = self.current(&write.path);
            match (write.requires, current) {
                (Precondition::Absent, Some(_)) => return Err(Refused::Exists(n)),
                (Precondition::Present | Precondition::Version(_), None) => {
                    return Err(Refused::NotFound(n));
                }
                (Precondition::Version(expected), Some(current)) if expected != current => {
                    return Err(Refused::OtherVersion(n));
                }
                _ => {}
            }
            let record = write.record.as_ref();
            changes.push(self.write(&write.path, record.map(|record| record.cid), record));
        }
        // A repo that has too many for another reason may still lose some.
        let before = self.before.state.as_ref().map_or(0, |state| state.records);
        if self.records > MAX_RECORDS.max(before) { Err(Refused::TooManyRecords) } else { Ok(changes) }
    }

    /// Writes a version of a record, or deletes it. `record`: its content, which only the last version needs. Returns `None`
    /// when there was nothing to delete.
    pub(super) fn write(
        &mut self,
        path: &'a RecordPath,
        cid: Option<Cid>,
        record: Option<&'a NewRecord>,
    ) -> Option<Change> {
        let change = Change::of(self.current(path), cid)?;
        // The set has each record once: the element of the version before goes first.
        if let Some(prev) = change.prev() {
            self.hash.remove(path, prev);
            self.records = self.records.saturating_sub(1);
        }
        if let Some(cid) = cid {
            self.hash.add(path, cid);
            self.records += 1;
        }
        self.rows.insert(key(path), Version { cid, record });
        self.changes.push((path, change));
        Some(change)
    }

    /// The CID of a record after the writes until now.
    pub(super) fn current(&self, path: &RecordPath) -> Option<Cid> {
        let key = key(path);
        self.rows.get(&key).map_or_else(|| self.before.records.get(&key).copied(), |version| version.cid)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The state of the repo before the batch.
    pub(super) fn state_before(&self) -> Option<&RepoState> {
        self.before.state.as_ref()
    }

    /// The rev before the batch.
    pub(super) fn last_rev(&self) -> Option<Tid> {
        self.state_before().map(|state| state.rev)
    }

    /// The state of the repo after a commit with this rev.
    pub(super) fn state(&self, rev: Tid, copied_bytes: Option<u64>) -> RepoState {
        RepoState { rev, hash: self.hash.clone(), records: self.records, copied_bytes }
    }

    /// The number of records after the batch.
    pub(super) fn records(&self) -> u64 {
        self.records
    }

    pub(super) fn digest(&self) -> [u8; 32] {
        self.hash.digest()
    }

    /// The changes as those of one commit.
    pub(super) fn ops(&self, rev: Tid) -> Vec<Op> {
        let op = |(index, (path, change)): (u32, &(&RecordPath, Change))| Op {
            position: Position { rev, index },
            path: (*path).clone(),
            change: *change,
        };
        (0..).zip(&self.changes).map(op).collect()
    }

    /// The records that changed.
    pub(super) fn changed(&self) -> Vec<&Key> {
        self.rows.keys().collect()
    }

    /// The records that are gone.
    pub(super) fn gone(&self) -> Vec<&Key> {
        self.rows.iter().filter(|(_, version)| version.cid.is_none()).map(|(key, _)| key).collect()
    }

    /// The records to store.
    pub(super) fn stored(&self) -> Vec<(&Key, &'a NewRecord)> {
        self.rows.iter().filter_map(|(key, version)| Some((key, version.record?))).collect()
    }

    /// Whether the content of every record that is left is known.
    pub(super) fn is_complete(&self) -> bool {
        self.rows.values().all(|version| version.cid == version.record.map(|record| record.cid))
    }
}
