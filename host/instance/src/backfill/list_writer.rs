//! Brings the index up to the lists of a repo: stores what they have, and removes what they lack.
//!
//! All changes carry the rev that the repo had before it was listed. A record that the stream changes after that has a
//! newer rev and wins, before and after the page is stored; an older change of the stream is already contained in the page.
//!
//! A list of records can lack some by mistake, and nothing in it shows that. So a record that a list lacks is requested
//! by itself, and is removed only if its PDS denies it. A CAR needs no such requests: its owner has signed what it has.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::time::Instant;

use super::absence::denied;
use super::diff::{Diff, Diffs};
use super::listing::{Listing, MAX_ABSENT};
use super::page::{ListedPage, bytes_of};
use super::repo::ReadError;
use super::repo_reader::RepoReader;
use super::request::Server;
use super::slow_guard;
use crate::indexing::{RecordAction, RecordEvent};
use belvedere_base::hand_over_thread::hand_over_thread;
use belvedere_protocol::atproto::{Did, Nsid, RecordKey, RecordUri, Tid};
use belvedere_storage::store::backfill::{IndexedRecords, IndexedRow};
use belvedere_storage::store::index::Change;

/// Records that are removed in one transaction, between which a stopped job breaks off.
const REMOVED_TOGETHER: usize = 1_000;

/// Absent records that are removed together once the PDS has denied them.
const CONFIRMED_TOGETHER: usize = 100;

/// Writes what the lists of one repo say into the index.
pub(super) struct ListWriter<'a> {
    pub(super) job: &'a RepoReader,
    pub(super) did: &'a Did,
    /// The repo's rev before it was listed.
    pub(super) rev: Tid,
    /// Confirms what the lists lack. `None`: they are a CAR's.
    pub(super) server: Option<&'a Server<'a>>,
}

/// The records of a page that are in the index.
#[derive(Default)]
struct Stored {
    records: usize,
    bytes: usize,
}

impl ListWriter<'_> {
    /// Stores a page, and goes on to the next one.
    pub(super) async fn take_page(&self, listing: &mut Listing, page: ListedPage) -> Result<(), ReadError> {
        let (job, collection) = (self.job, listing.collection.clone());
        if !job.registry.snapshot().is_tracked(collection.as_str()) {
            // The lexicon was deleted meanwhile.
            listing.is_done = true;
            return Ok(());
        }
        let complete = listing.take_page(&page)?;
        let ListedPage { records, strays, next } = page;
        let (listed, last) = (records.len() + strays.count(), records.last().map(|last| last.rkey.clone()));
        listing.left_out.append(strays);
        let index = IndexedRecords::open(&job.db, self.did, &collection, job.clock.now()).await?;
        let mut diffs = Diffs::new(index, self.rev, records, complete);
        let mut stored = Stored::default();
        while let Some(diff) = diffs.next().await? {
            self.apply(listing, diff, &mut stored).await?;
        }
        let count = |result, records: usize| {
            metrics::counter!("belvedere_backfill_records_total", "result" => result)
                .increment(records as u64);
        };
        count("rejected", listed - stored.records);
        count("read", stored.records);
        job.meter.kept(stored.bytes);
        let records = stored.records as i64;
        job.records.fetch_add(records, Ordering::Relaxed);
        Ok(listing.advance(last, next, records)?)
    }

    /// Stores what the index lacks or has in another version, and keeps with the listing what the list lacks.
    async fn apply(&self, listing: &mut Listing, diff: Diff, stored: &mut Stored) -> Result<(), ReadError> {
        let Diff { same, missing, stale, extra } = diff;
        stored.records += same.len();
        stored.bytes += bytes_of(&same);
        let mut changes = Vec::new();
        hand_over_thread(bytes_of(missing.iter().chain(&stale)), || {
            for record in missing.into_iter().chain(stale) {
                let (uri, bytes) = (self.uri(&listing.collection, record.rkey), record.record.text.len());
                let change = Change { uri: uri.clone(), rev: self.rev, record: Some(record.record) };
                match self.job.checker.accept(change) {
                    Ok(change) => {
                        changes.push(change);
                        stored.records += 1;
                        stored.bytes += bytes;
                    }
                    Err(why) => listing.left_out.add(uri, why),
                }
            }
        });
        let decided = self.job.or_stop(self.decide(changes)).await?;
        for uri in self.commit(decided).await?.iter().filter(|uri| uri.did == *self.did) {
            listing.left_out.add(uri, "the database can't store it");
        }
        if listing.is_ordered() {
            let removal = |row: IndexedRow| Some((row.rkey, removal_rev(self.rev, row.rev)?));
            listing.absent.extend(extra.into_iter().filter_map(removal));
        }
        if listing.absent.len() > MAX_ABSENT || self.server.is_none() {
            self.remove_absent(listing).await?;
        }
        Ok(())
    }

    /// Removes the records that a list in order lacks and the server denies. If the server has one of them, the list is
    /// wrong: the others stay too.
    ///
    /// # Errors
    /// After a failure, those that are not removed yet stay with the listing, for the next attempt.
    pub(super) async fn remove_absent(&self, listing: &mut Listing) -> Result<(), ReadError> {
        if !listing.is_ordered() {
            listing.absent.clear();
        }
        let collection = listing.collection.clone();
        let Some(server) = self.server else {
            return self.remove(&collection, std::mem::take(&mut listing.absent)).await;
        };
        let (began, before) = (Instant::now(), listing.denied);
        while !listing.absent.is_empty() {
            let rest = listing.absent.len().saturating_sub(CONFIRMED_TOGETHER);
            let keys = listing.absent[rest..].iter().map(|(rkey, _)| rkey.clone()).collect();
            let asked = denied(server, self.did, &collection, keys);
            let (denied, next) = self.job.or_stop(asked).await?;
            if matches!(next, Ok(true)) {
                let uri = self.uri(&collection, listing.absent[rest + denied].0.clone());
                listing.left_out.add(uri, "the PDS does not list it, although it has it");
                listing.disprove();
                return Ok(());
            }
            // Also before a failure, so that a PDS that allows few requests at a time gets on.
            let gone = listing.absent.drain(rest..rest + denied).collect();
            listing.denied += denied as i64;
            self.remove(&collection, gone).await?;
            next?;
            slow_guard::check(began.elapsed(), listing.denied - before)?;
        }
        Ok(())
    }

    /// Removes records, in parts. A job that stops breaks off between two parts, and inside one that scripts decide on.
    async fn remove(&self, collection: &Nsid, mut gone: Vec<(RecordKey, Tid)>) -> Result<(), ReadError> {
        let job = self.job;
        let delete = |(rkey, rev)| Change { uri: self.uri(collection, rkey), rev, record: None };
        while !gone.is_empty() {
            let rest = gone.split_off(gone.len().min(REMOVED_TOGETHER));
            let gone_now = gone.into_iter().map(delete).collect();
            let decided = if job.scripts.is_idle() {
                gone_now
            } else {
                job.or_stop(self.decide(gone_now)).await.map_err(|_| ReadError::Uncommitted)?
            };
            self.commit(decided).await?;
            gone = rest;
            if job.stop.is_cancelled() && !gone.is_empty() {
                return Err(ReadError::Uncommitted);
            }
        }
        Ok(())
    }

    /// Lets record scripts decide about the changes.
    async fn decide(&self, changes: Vec<Change>) -> Vec<Change> {
        let (scripts, mut decided) = (&self.job.scripts, Vec::with_capacity(changes.len()));
        for change in changes {
            let action = if change.record.is_some() { RecordAction::Create } else { RecordAction::Delete };
            if scripts.is_idle() || !scripts.wants(action, &change) {
                decided.push(change);
            } else {
                decided.extend(scripts.decide(RecordEvent { action, change }).await);
            }
        }
        decided
    }

    /// Returns the records that the database can't store, of this repo and others.
    async fn commit(&self, changes: Vec<Change>) -> Result<Arc<[RecordUri]>, ReadError> {
        self.job.writer.submit_all(changes).await.map_err(|_| ReadError::Uncommitted)
    }

    fn uri(&self, collection: &Nsid, rkey: RecordKey) -> RecordUri {
        RecordUri { did: self.did.clone(), collection: collection.clone(), rkey }
    }
}

/// The rev of a removal that a list proves: one below the rev `listed` before the list. It is newer than the removed
/// `row`, and a later list of a repo without new commits restores the record if this one was incomplete. `None`: the row
/// is of the list's own rev, so it is not removed.
fn removal_rev(listed: Tid, row: u64) -> Option<Tid> {
    let below = listed.as_u64().saturating_sub(1);
    let rev =
        if row < below { Tid::new(below >> 10, (below & 0x3ff) as u16).unwrap_or(listed) } else { listed };
    (row <= below).then_some(rev)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removal_is_newer_than_its_row_and_older_than_the_list() {
        let rev = |at: u64| Tid::new(at >> 10, (at & 0x3ff) as u16).unwrap();
        let listed = 1_700_000_000_000_000 << 10;
        // The clock identifier may be 0: one below is in the microsecond before.
        for listed in [listed, listed + 1, listed + 0x3ff] {
            for row in [0, listed - 1_000_000, listed - 2] {
                let removal = removal_rev(rev(listed), row).unwrap().as_u64();
                assert!(row < removal && removal == listed - 1, "{listed} {row}: {removal}");
            }
            // Between the two there is no rev left.
            assert_eq!(removal_rev(rev(listed), listed - 1), Some(rev(listed)));
            assert_eq!(removal_rev(rev(listed), listed), None);
        }
    }
}
