//! Reads pages of the records of one repo into the index.
//!
//! The repo's rev is read first, and all changes carry it. A record that the stream changes after that has a newer rev
//! and wins, before and after the page is stored; an older change of the stream is already contained in the page.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::choice::Cars;
use super::failure::{Attempts, Failure};
use super::left_out::LeftOut;
use super::listing::{Listing, MAX_ABSENT, PageEnd, Proof};
use super::meter::Meter;
use super::request::{OwnRecords, PageRecord, RecordPage, Server};
use super::slow_guard;
use crate::identity::Resolver;
use crate::indexing::{
    Candidate, Claim, RecordAction, RecordChecker, RecordEvent, RecordScriptRunner, WriterHandle,
};
use crate::lexicons::Registry;
use belvedere_base::clock::{Clock, Timestamp};
use belvedere_base::hand_over_thread::hand_over_thread;
use belvedere_protocol::atproto::{Did, Nsid, RecordKey, RecordUri, Tid};
use belvedere_storage::store::backfill::{self, IndexedRow, KeyRange, RangeReader};
use belvedere_storage::store::index::{Change, Delete, RevLimit, Upsert};
use belvedere_storage::store::{Db, StoreError};
use belvedere_web::net::Client;

/// Pages after which the position in a repo is saved: a crash repeats no more than these.
const PAGES_PER_SAVE: u32 = 10;

/// What reading a repo needs, the same for all repos of a job.
pub(super) struct RepoReader {
    pub(super) db: Db,
    pub(super) net: Client,
    pub(super) clock: Clock,
    pub(super) resolver: Resolver,
    pub(super) writer: WriterHandle,
    pub(super) scripts: Arc<dyn RecordScriptRunner>,
    pub(super) checker: Arc<RecordChecker>,
    /// The job's `seq`.
    pub(super) job: i64,
    /// Positions in repos were stored before the job was continued.
    pub(super) is_continued: bool,
    /// The job reads repos that failed or have changed: cached documents of their DIDs may be outdated.
    pub(super) is_retry: bool,
    pub(super) registry: Arc<Registry>,
    pub(super) collections: Arc<[Nsid]>,
    /// Records of the job so far.
    pub(super) records: Arc<AtomicI64>,
    /// Of a catch-up: repos without a later commit are not read, and accounts get the status that their PDS reports.
    pub(super) changed_since: Option<Timestamp>,
    pub(super) meter: Arc<Meter>,
    pub(super) cars: Cars,
    /// Cancelled when the job is to stop, and when it ends by itself.
    pub(super) stop: CancellationToken,
}

/// A repo to read, and how far it was read.
#[derive(Debug)]
pub(super) struct Repo {
    pub(super) did: Did,
    pub(super) attempts: Attempts,
    /// Empty before the first attempt.
    pub(super) listings: Vec<Listing>,
    pub(super) moves: u32,
    pub(super) left_out: LeftOut,
    /// Bytes of its pages.
    pub(super) page_bytes: i64,
    /// Its source was chosen: it is not considered for a CAR again.
    pub(super) is_chosen: bool,
    /// The time that requests for its pages took, in all attempts. Waits between two attempts don't count.
    pub(super) spent: Duration,
    /// Records that were read before the job was continued.
    pub(super) restored: i64,
    /// What the last attempt has brought.
    pub(super) progress: u64,
}

/// How an attempt to read a repo ended.
#[derive(Debug)]
pub(super) enum RepoEnd {
    Read,
    Failed(Failure),
    /// The account is at another PDS.
    Moved(String),
    /// The job stops. The position is saved.
    Stopped,
}

/// The records of a page that are, or will be, in the index.
#[derive(Default)]
struct Accepted {
    changes: Vec<Change>,
    valid: u64,
    /// Bytes of their records.
    kept: usize,
}

impl Accepted {
    /// Adds a record of so many bytes; without a change if the index has it already.
    fn add(&mut self, bytes: usize, upsert: Option<Upsert>) {
        self.changes.extend(upsert.map(Change::Upsert));
        self.valid += 1;
        self.kept += bytes;
    }
}

/// Why an attempt was broken off.
pub(super) enum Break {
    Failed(Failure),
    Stopped,
    /// The job or the writer has ended before the last changes were committed: the position is not saved.
    Uncommitted,
    Store(StoreError),
}

impl From<Failure> for Break {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<StoreError> for Break {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Repo {
    pub(super) fn new(did: Did) -> Self {
        Self {
            did,
            attempts: Attempts::default(),
            listings: Vec::new(),
            left_out: LeftOut::default(),
            moves: 0,
            page_bytes: 0,
            is_chosen: false,
            spent: Duration::ZERO,
            restored: 0,
            progress: 0,
        }
    }

    /// Records read so far.
    pub(super) fn records(&self) -> i64 {
        self.listings.iter().map(|listing| listing.records).sum()
    }

    /// What its PDS has given: records, and denials of records that its lists lack. Not pages: a page without records
    /// costs the PDS nothing, so it is no reason to go on.
    pub(super) fn given(&self) -> i64 {
        let denied = self.listings.iter().map(|listing| listing.denied).sum::<i64>();
        self.records() - self.restored + denied
    }
}

impl RepoReader {
    /// The repo's listings, from where an earlier attempt stopped.
    pub(super) async fn listings(&self, did: &Did) -> Result<Vec<Listing>, StoreError> {
        let stored = if self.is_continued {
            backfill::positions(&self.db, self.job, did.as_str()).await?
        } else {
            Vec::new()
        };
        let mut stored: HashMap<_, _> = stored.into_iter().map(|at| (at.collection.clone(), at)).collect();
        let listing = |collection: &Nsid| match stored.remove(collection.as_str()) {
            Some(position) => Listing::at(collection.clone(), position),
            None => Listing::new(collection.clone()),
        };
        Ok(self.collections.iter().map(listing).collect())
    }

    /// Reads pages of each listing while it `continues`.
    pub(super) async fn read_pages(
        &self,
        server: &Server<'_>,
        repo: &mut Repo,
        rev: Tid,
        continues: impl Fn(&Listing) -> bool,
    ) -> Result<(), Break> {
        let (began, before) = (Instant::now(), repo.spent);
        for at in 0..repo.listings.len() {
            while let Some(listing) = repo.listings.get_mut(at).filter(|listing| continues(listing)) {
                let left_out = &mut repo.left_out;
                let page = self.or_stop(server.next_page(&repo.did, listing)).await?;
                repo.spent = before + began.elapsed();
                let page = page?;
                repo.page_bytes += page.bytes as i64;
                self.take_page(Some(server), (&repo.did, rev), listing, page, left_out).await?;
                let is_saved = listing.pages().is_multiple_of(PAGES_PER_SAVE);
                if listing.is_done || is_saved || listing.absent.len() > MAX_ABSENT {
                    self.remove_absent(Some(server), &repo.did, listing, left_out).await?;
                }
                if is_saved {
                    self.save(repo).await?;
                }
                repo.spent = before + began.elapsed();
                slow_guard::check(repo.spent, repo.given())?;
            }
        }
        Ok(())
    }

    /// Waits for a response, but not once the job stops.
    pub(super) async fn or_stop<T>(&self, request: impl Future<Output = T>) -> Result<T, Break> {
        self.stop.run_until_cancelled(request).await.ok_or(Break::Stopped)
    }

    /// Stores a page, and keeps with the listing which records of the index it lacks. `server`: who gave it; `None`: it
    /// is part of a CAR.
    pub(super) async fn take_page(
        &self,
        server: Option<&Server<'_>>,
        (did, rev): (&Did, Tid),
        listing: &mut Listing,
        page: RecordPage,
        left_out: &mut LeftOut,
    ) -> Result<(), Break> {
        let collection = listing.collection.clone();
        if !self.registry.snapshot().is_tracked(collection.as_str()) {
            // The lexicon was deleted meanwhile.
            listing.is_done = true;
            return Ok(());
        }
        let OwnRecords { cursor, keys, records, is_clean, listed, foreign, malformed } =
            page.of(did, &collection);
        for uri in foreign {
            left_out.add(uri, "it is listed, but is no record of this collection");
        }
        for _ in 0..malformed {
            left_out.add(&collection, "it is listed without a URI, a CID or a value");
        }
        let limit = RevLimit::read(&self.db, self.clock.now()).await?;
        let rows = match listing.take_page(&keys, is_clean, cursor.as_deref())? {
            Proof::Complete(KeyRange { below, from }) => {
                let (below, from) = (below.map(str::to_owned), from.map(str::to_owned));
                let range = KeyRange { below: below.as_deref(), from: from.as_deref() };
                let on_page: HashSet<&str> = keys.iter().map(RecordKey::as_str).collect();
                let mut known = Vec::new();
                let mut parts = RangeReader::new(range);
                while let Some(rows) = parts.next(&self.db, did, &collection).await? {
                    for row in rows {
                        if on_page.contains(row.rkey.as_str()) {
                            known.push(row);
                        } else if row.rev_by(limit) < rev.as_u64() && listing.is_ordered() {
                            let (did, collection) = (did.clone(), collection.clone());
                            let rev = removal_rev(rev, row.rev_by(limit));
                            listing.absent.push(Delete { did, collection, rkey: row.rkey, rev });
                        }
                    }
                    if listing.absent.len() > MAX_ABSENT {
                        self.remove_absent(server, did, listing, left_out).await?;
                    }
                }
                known
            }
            Proof::Open | Proof::Nothing => {
                let keys: Vec<&str> = keys.iter().map(RecordKey::as_str).collect();
                backfill::with_keys(&self.db, did, &collection, &keys).await?
            }
        };
        let known: HashMap<&str, &IndexedRow> = rows.iter().map(|row| (row.rkey.as_str(), row)).collect();
        let bytes = records.iter().map(|record| record.value.len()).sum();
        let mut accepted = Accepted::default();
        hand_over_thread(bytes, || {
            for (rkey, PageRecord { cid, value: record, .. }) in keys.iter().zip(records) {
                let (claim, bytes) = (Claim::parse(&cid), record.len());
                if let Some(row) = known.get(rkey.as_str())
                    && (row.rev_by(limit) > rev.as_u64()
                        || row.cid.is_some_and(|cid| claim == Claim::Cid(cid)))
                {
                    accepted.add(bytes, None);
                    continue;
                }
                let candidate = Candidate {
                    did: did.clone(),
                    collection: collection.clone(),
                    rkey: rkey.clone(),
                    rev,
                    record,
                    claim,
                    action: RecordAction::Create,
                };
                match self.checker.accept(candidate) {
                    Ok(upsert) => accepted.add(bytes, Some(upsert)),
                    Err(why) => left_out.add(format!("at://{did}/{collection}/{rkey}"), why),
                }
            }
        });
        let Accepted { changes, valid, kept } = accepted;
        metrics::counter!("belvedere_backfill_records_total", "result" => "rejected")
            .increment(listed - valid);
        metrics::counter!("belvedere_backfill_records_total", "result" => "read").increment(valid);
        let decided = self.or_stop(self.decide(changes)).await?;
        for uri in self.commit(decided).await?.iter().filter(|uri| uri.did == *did) {
            left_out.add(uri, "the database can't store it");
        }
        self.meter.kept(kept);
        let records = valid as i64;
        self.records.fetch_add(records, Ordering::Relaxed);
        Ok(listing.advance(PageEnd { last: keys.last(), next: cursor, records })?)
    }

    /// Lets record scripts decide about the changes.
    pub(super) async fn decide(&self, changes: Vec<Change>) -> Vec<Change> {
        let mut decided = Vec::with_capacity(changes.len());
        for change in changes {
            let action = match change {
                Change::Upsert(_) => RecordAction::Create,
                Change::Delete(_) => RecordAction::Delete,
            };
            if self.scripts.is_idle() || !self.scripts.wants(action, &change) {
                decided.push(change);
            } else {
                decided.extend(self.scripts.decide(RecordEvent { action, change }).await);
            }
        }
        decided
    }

    /// Returns the records that the database can't store, of this repo and others.
    pub(super) async fn commit(&self, changes: Vec<Change>) -> Result<Arc<[RecordUri]>, Break> {
        self.writer.submit_all(changes).await.map_err(|_| Break::Uncommitted)
    }

    /// Saves the position in a repo, after the records before it were committed. Not once records were left out: their
    /// number is not saved, so a job that is continued reads them again. Nor of a listing whose absent records were not
    /// removed yet: only its pages show them.
    pub(super) async fn save(&self, repo: &Repo) -> Result<(), StoreError> {
        if !repo.left_out.is_empty() {
            return Ok(());
        }
        let begun = repo.listings.iter().filter(|listing| listing.is_done || listing.cursor().is_some());
        let saved = begun.filter(|listing| listing.absent.is_empty());
        let positions: Vec<_> = saved.map(Listing::position).collect();
        if positions.is_empty() {
            return Ok(());
        }
        backfill::save_positions(&self.db, self.job, repo.did.as_str(), &positions).await
    }
}

/// The rev of a removal that a list proves: one below the rev `listed` before the list. It is newer than the removed
/// `row`, and a later list of a repo without new commits restores the record if this one was incomplete.
fn removal_rev(listed: Tid, row: u64) -> Tid {
    let below = listed.as_u64().saturating_sub(1);
    if row < below { Tid::new(below >> 10, (below & 0x3ff) as u16).unwrap_or(listed) } else { listed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_and_denials_are_progress_and_pages_are_not() {
        let mut repo = Repo::new(Did::try_from("did:plc:abcdefghijklmnopqrstuvwx").unwrap());
        let mut listing = Listing::new(Nsid::try_from("com.example.note").unwrap());
        for n in 0..10 {
            listing.take_page(&[], true, Some("next")).unwrap();
            listing.advance(PageEnd { next: Some(n.to_string()), ..PageEnd::default() }).unwrap();
        }
        repo.listings.push(listing);
        assert_eq!(repo.given(), 0);
        repo.listings[0].advance(PageEnd { records: 7, ..PageEnd::default() }).unwrap();
        repo.listings[0].denied = 5;
        assert_eq!((repo.records(), repo.given()), (7, 12));
        repo.restored = 7;
        assert_eq!(repo.given(), 5);
    }

    #[test]
    fn a_removal_is_newer_than_its_row_and_older_than_the_list() {
        let rev = |at: u64| Tid::new(at >> 10, (at & 0x3ff) as u16).unwrap();
        let listed = 1_700_000_000_000_000 << 10;
        // The clock identifier may be 0: one below is in the microsecond before.
        for listed in [listed, listed + 1, listed + 0x3ff] {
            for row in [0, listed - 1_000_000, listed - 2] {
                let removal = removal_rev(rev(listed), row).as_u64();
                assert!(row < removal && removal == listed - 1, "{listed} {row}: {removal}");
            }
            // Between the two there is no rev left.
            assert_eq!(removal_rev(rev(listed), listed - 1), rev(listed));
        }
    }
}
