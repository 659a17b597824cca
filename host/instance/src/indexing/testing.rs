//! Test doubles for the store and the rest of the server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::{Did, Nsid, RecordKey, RecordUri, Tid};
use belvedere_storage::store::StoreError;
use belvedere_storage::store::cursors::StoredCursor;
use belvedere_storage::store::gaps::Gap;
use belvedere_storage::store::index::{AccountStatus, ApplyReport, Batch, Change};
use belvedere_storage::store::lease::{Lease, Term};

use super::commit::Sink;
use super::observer::{Observer, StreamReport};

/// Records reports and changed identities.
#[derive(Default)]
pub(super) struct Recorder {
    reports: Mutex<Vec<StreamReport>>,
    identities: Mutex<Vec<String>>,
}

impl Recorder {
    pub(super) fn reports(&self) -> Vec<StreamReport> {
        self.reports.lock().unwrap().clone()
    }

    pub(super) fn identities(&self) -> Vec<String> {
        self.identities.lock().unwrap().clone()
    }
}

impl Observer for Recorder {
    fn report(&self, report: StreamReport) {
        self.reports.lock().unwrap().push(report);
    }

    fn identity_changed(&self, did: &Did) {
        self.identities.lock().unwrap().push(did.to_string());
    }
}

/// (did, collection, rkey)
pub(super) type Key = (String, String, String);

/// An in-memory store with the real store's rules, which fails on demand.
#[derive(Default)]
pub(super) struct FakeStore(Mutex<Model>);

#[derive(Default)]
struct Model {
    /// A deleted record stays as `None` with the rev of its deletion.
    records: BTreeMap<Key, (Tid, Option<String>)>,
    hidden: BTreeMap<String, AccountStatus>,
    /// The revs up to which repos are deleted.
    deleted: BTreeMap<String, Tid>,
    cursor: Option<i64>,
    commits_until: Option<i64>,
    /// The latest term.
    term: Term,
    cursors: Vec<i64>,
    applied_changes: u64,
    largest: usize,
    unavailable: u32,
    refusals: u32,
    refused: BTreeSet<String>,
    /// With the cursor that was committed before.
    gaps: Vec<(Gap, Option<i64>)>,
}

impl FakeStore {
    /// Makes the next `n` calls fail with an unreachable database.
    pub(super) fn fail_next(&self, n: u32) {
        self.0.lock().unwrap().unavailable = n;
    }

    /// Makes the database refuse the next `n` batches.
    pub(super) fn refuse_next(&self, n: u32) {
        self.0.lock().unwrap().refusals = n;
    }

    /// Makes the database refuse every batch with this record key.
    pub(super) fn refuse_rkey(&self, rkey: &str) {
        self.0.lock().unwrap().refused.insert(rkey.to_owned());
    }

    /// Begins a later term: this or another host has taken the lease.
    pub(super) fn begin_term(&self, number: i64) {
        self.0.lock().unwrap().term = Term::numbered(number);
    }

    pub(super) fn cursor(&self) -> Option<i64> {
        self.0.lock().unwrap().cursor
    }

    pub(super) fn set_cursor(&self, cursor: i64) {
        self.0.lock().unwrap().cursor = Some(cursor);
    }

    pub(super) fn commits_until(&self) -> Option<i64> {
        self.0.lock().unwrap().commits_until
    }

    pub(super) fn set_commits_until(&self, time: i64) {
        self.0.lock().unwrap().commits_until = Some(time);
    }

    /// Every cursor that was committed, in order.
    pub(super) fn cursors(&self) -> Vec<i64> {
        self.0.lock().unwrap().cursors.clone()
    }

    pub(super) fn applied_changes(&self) -> u64 {
        self.0.lock().unwrap().applied_changes
    }

    pub(super) fn largest_batch(&self) -> usize {
        self.0.lock().unwrap().largest
    }

    /// The status of an account that is hidden.
    pub(super) fn hidden(&self, did: &str) -> Option<AccountStatus> {
        self.0.lock().unwrap().hidden.get(did).copied()
    }

    /// The gaps, each with the cursor that was committed when it was stored.
    pub(super) fn gaps(&self) -> Vec<(Gap, Option<i64>)> {
        self.0.lock().unwrap().gaps.clone()
    }

    /// The records that a query can see: not deleted, of visible accounts.
    pub(super) fn visible(&self) -> BTreeMap<Key, String> {
        let model = self.0.lock().unwrap();
        model
            .records
            .iter()
            .filter(|((did, ..), _)| !model.hidden.contains_key(did))
            .filter_map(|(key, (_, record))| Some((key.clone(), record.clone()?)))
            .collect()
    }
}

impl Sink for Arc<FakeStore> {
    async fn apply(&self, batch: &Batch) -> Result<ApplyReport, StoreError> {
        // Yields, so that messages queue up during a commit and share the next batch.
        tokio::task::yield_now().await;
        let mut model = self.0.lock().unwrap();
        if model.unavailable > 0 {
            model.unavailable -= 1;
            return Err(StoreError::Unavailable(sqlx::Error::PoolTimedOut));
        }
        if batch.term != Term::ALONE && batch.term < model.term {
            return Err(StoreError::Superseded);
        }
        let poisoned = batch.changes.iter().any(|change| model.refused.contains(change.uri.rkey.as_str()));
        if poisoned || model.refusals > 0 {
            model.refusals = model.refusals.saturating_sub(1);
            return Err(StoreError::Corrupt("refused by the test".to_owned()));
        }
        Ok(model.apply(batch))
    }

    async fn stored_cursor(&self) -> Result<Option<StoredCursor>, StoreError> {
        let commits_until = self.commits_until();
        let stored = |cursor| StoredCursor { cursor, commits_until, committed_at: Timestamp(cursor) };
        Ok(FakeStore::cursor(self).map(stored))
    }

    async fn store_gap(&self, gap: &Gap, _now: Timestamp) -> Result<(), StoreError> {
        let mut model = self.0.lock().unwrap();
        if model.unavailable > 0 {
            model.unavailable -= 1;
            return Err(StoreError::Unavailable(sqlx::Error::PoolTimedOut));
        }
        let cursor = model.cursor;
        model.gaps.push((gap.clone(), cursor));
        Ok(())
    }

    fn lease(&self) -> Lease {
        Lease::alone()
    }
}

impl Model {
    fn apply(&mut self, batch: &Batch) -> ApplyReport {
        let mut applied = ApplyReport::default();
        for account in &batch.accounts {
            let did = account.did.to_string();
            match account.status {
                AccountStatus::Active => self.hidden.remove(&did),
                status => self.hidden.insert(did.clone(), status),
            };
            if account.status == AccountStatus::Deleted {
                let deleted = self.deleted.entry(did.clone()).or_default();
                *deleted = account.rev.max(*deleted);
                self.records.retain(|key, (rev, _)| key.0 != did || *rev > *deleted);
            }
        }
        for change in &batch.changes {
            let record = change.text().map(|record| String::from_utf8(record.to_vec()).unwrap());
            let (RecordUri { did, collection, rkey }, rev) = (&change.uri, change.rev);
            let key = (did.to_string(), collection.to_string(), rkey.to_string());
            let is_deleted = self.deleted.get(&key.0).is_some_and(|deleted| *deleted >= rev);
            if is_deleted || self.records.get(&key).is_some_and(|(known, _)| *known >= rev) {
                applied.stale += 1;
            } else {
                self.records.insert(key, (rev, record));
                applied.updated += 1;
            }
        }
        self.applied_changes += batch.changes.len() as u64;
        self.largest = self.largest.max(batch.changes.len());
        if let Some(cursor) = batch.cursor.as_ref().filter(|c| c.source == super::CURSOR_SOURCE) {
            self.cursor = Some(cursor.cursor);
            self.commits_until = cursor.commits_until;
            self.cursors.push(cursor.cursor);
        }
        applied
    }
}

/// A deletion in `did:plc:<name>`, collection `app.example.note`.
pub(super) fn delete(name: &str, rkey: &str, rev: u64) -> Change {
    let uri = RecordUri {
        did: Did::try_from(format!("did:plc:{name}").as_str()).unwrap(),
        collection: Nsid::try_from("app.example.note").unwrap(),
        rkey: RecordKey::try_from(rkey).unwrap(),
    };
    Change { uri, rev: Tid::new(rev, 0).unwrap(), record: None }
}
