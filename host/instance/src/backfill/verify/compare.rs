//! Compares one repo with the index.

use std::sync::Arc;

use super::super::absence::denied;
use super::super::diff::{Diff, Diffs};
use super::super::failure::Failure;
use super::super::listing::Listing;
use super::super::lookup::moved;
use super::super::meter::Meter;
use super::super::next_page::next_page;
use super::super::page::{ListedPage, ListedRecord, bytes_of};
use super::super::request::Server;
use super::report::{Difference, Kind, Seen};
use crate::identity::Resolver;
use crate::indexing::{CURSOR_SOURCE, RecordChecker};
use belvedere_base::clock::{Clock, Timestamp};
use belvedere_base::hand_over_thread::hand_over_thread;
use belvedere_protocol::atproto::{Did, Nsid, RecordKey, RecordUri, Tid};
use belvedere_storage::store::backfill::{self, IndexedRecords, KeyRange};
use belvedere_storage::store::index::{AccountStatus, Change};
use belvedere_storage::store::{Db, StoreError, cursors};
use belvedere_web::net::Client;

pub(super) struct Comparer {
    pub(super) db: Db,
    pub(super) net: Client,
    pub(super) clock: Clock,
    pub(super) resolver: Resolver,
    pub(super) collections: Arc<[Nsid]>,
    pub(super) checker: RecordChecker,
    pub(super) meter: Meter,
}

/// The reason why a repo was not compared.
pub(super) enum CompareError {
    Failed(Failure),
    /// The account is at another PDS.
    Moved(String),
    Store(StoreError),
}

impl From<Failure> for CompareError {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<StoreError> for CompareError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Comparer {
    /// Compares a repo at its PDS.
    pub(super) async fn compare(&self, endpoint: &str, did: &Did) -> Result<Seen, CompareError> {
        let server = Server { net: &self.net, clock: &self.clock, origin: endpoint, meter: &self.meter };
        let known = backfill::account_status(&self.db, did).await?;
        let rev = match server.latest_rev(did).await {
            Ok(rev) => rev,
            Err(failure) if failure.status.is_some() => {
                return match moved(&self.resolver, endpoint, did, failure).await {
                    Ok(pds) => Err(CompareError::Moved(pds)),
                    Err(failure) => self.unavailable(did, failure).await,
                };
            }
            Err(failure) => return Err(failure.into()),
        };
        if let Some(position) = cursors::get(&self.db, CURSOR_SOURCE).await?
            && rev.timestamp_micros() > position.unsigned_abs()
        {
            let position = Timestamp(position);
            return Ok(Seen::Behind(format!("it changed after {position}, the position of the stream")));
        }
        // Being taken down or suspended may be the relay's decision, of which the PDS knows nothing.
        if matches!(known, Some(AccountStatus::TakenDown | AccountStatus::Suspended)) {
            return Ok(Seen::Compared { records: 0, differences: Vec::new() });
        }
        let (mut records, mut differences) = (0, Vec::new());
        for collection in self.collections.iter() {
            let mut listing = Listing::new(collection.clone());
            while !listing.is_done {
                let page = next_page(&server, did, &mut listing).await?.of(did, collection);
                records +=
                    self.compare_page(&server, (did, rev), &mut listing, page, &mut differences).await?;
            }
        }
        if known.is_some_and(|known| known != AccountStatus::Active) {
            // None of its records can be read.
            differences.clear();
            if records > 0 {
                differences.push((Kind::Missing, repo_uri(did)));
            }
        }
        Ok(Seen::Compared { records, differences })
    }

    /// An account whose repo is not available must not be visible in the index.
    pub(super) async fn unavailable(&self, did: &Did, failure: Failure) -> Result<Seen, CompareError> {
        if failure.status.is_none() {
            return Err(failure.into());
        }
        let mut differences = Vec::new();
        if backfill::account_status(&self.db, did).await? == Some(AccountStatus::Active) {
            for collection in self.collections.iter() {
                let index = IndexedRecords::open(&self.db, did, collection, self.clock.now()).await?;
                if !index.in_range(&KeyRange::default(), 1).await?.is_empty() {
                    differences = vec![(Kind::Extra, repo_uri(did))];
                }
            }
        }
        Ok(Seen::Compared { records: 0, differences })
    }

    /// Compares a page, and adds to `differences`. Returns its number of records.
    async fn compare_page(
        &self,
        server: &Server<'_>,
        (did, rev): (&Did, Tid),
        listing: &mut Listing,
        page: ListedPage,
        differences: &mut Vec<Difference>,
    ) -> Result<u64, CompareError> {
        let collection = listing.collection.clone();
        let complete = listing.take_page(&page)?;
        if !listing.is_ordered() {
            let wrong = "its PDS lists records without an order, so nothing is certain";
            return Err(Failure::other(wrong).into());
        }
        let ListedPage { records, next, .. } = page;
        let (listed, last) = (records.len(), records.last().map(|last| last.rkey.clone()));
        let uri = |rkey: &RecordKey| format!("{}/{collection}/{rkey}", repo_uri(did));
        let index = IndexedRecords::open(&self.db, did, &collection, self.clock.now()).await?;
        let mut diffs = Diffs::new(index, rev, records, complete);
        while let Some(Diff { missing, stale, extra, same: _ }) = diffs.next().await? {
            let keys = extra.iter().map(|row| row.rkey.clone()).collect();
            if denied(server, did, &collection, keys).await.1? {
                let wrong = "its PDS does not list a record that it has, so nothing is certain";
                return Err(Failure::other(wrong).into());
            }
            differences.extend(extra.iter().map(|row| (Kind::Extra, uri(&row.rkey))));
            hand_over_thread(bytes_of(missing.iter().chain(&stale)), || {
                let missing = missing.into_iter().map(|record| (Kind::Missing, record));
                for (kind, record) in missing.chain(stale.into_iter().map(|record| (Kind::Stale, record))) {
                    let ListedRecord { rkey, record } = record;
                    let uri = RecordUri { did: did.clone(), collection: collection.clone(), rkey };
                    let difference = (kind, uri.to_string());
                    // One that is no record, or does not match its CID, is never in the index.
                    if self.checker.accept(Change { uri, rev, record: Some(record) }).is_ok() {
                        differences.push(difference);
                    }
                }
            });
        }
        listing.advance(last, next, listed as i64)?;
        Ok(listed as u64)
    }
}

pub(super) fn repo_uri(did: &Did) -> String {
    format!("at://{did}")
}
