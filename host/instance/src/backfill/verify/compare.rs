//! Compares one repo with the index.

use std::collections::HashMap;
use std::sync::Arc;

use super::super::failure::Failure;
use super::super::listing::{Listing, PageEnd, Proof};
use super::super::lookup::moved;
use super::super::meter::Meter;
use super::super::request::{OwnRecords, PageRecord, RecordPage, Server};
use super::report::{Difference, Kind, Seen};
use crate::identity::Resolver;
use crate::indexing::{CURSOR_SOURCE, Candidate, Claim, RecordAction, RecordChecker};
use belvedere_base::clock::{Clock, Timestamp};
use belvedere_base::hand_over_thread::hand_over_thread;
use belvedere_protocol::atproto::{Did, Nsid, RecordKey, Tid};
use belvedere_storage::store::backfill::{self, IndexedRow, KeyRange, RangeReader};
use belvedere_storage::store::index::{AccountStatus, RevLimit};
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

/// Why a repo was not compared.
pub(super) enum Break {
    Failed(Failure),
    /// The account is at another PDS.
    Moved(String),
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

impl Comparer {
    /// Compares a repo at its PDS.
    pub(super) async fn compare(&self, endpoint: &str, did: &Did) -> Result<Seen, Break> {
        let server = Server { net: &self.net, clock: &self.clock, origin: endpoint, meter: &self.meter };
        let known = backfill::account_status(&self.db, did).await?;
        let rev = match server.latest_rev(did).await {
            Ok(rev) => rev,
            Err(failure) if failure.status.is_some() => {
                return match moved(&self.resolver, endpoint, did, failure).await {
                    Ok(pds) => Err(Break::Moved(pds)),
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
                let page = server.next_page(did, &mut listing).await?;
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
    pub(super) async fn unavailable(&self, did: &Did, failure: Failure) -> Result<Seen, Break> {
        if failure.status.is_none() {
            return Err(failure.into());
        }
        let mut differences = Vec::new();
        if backfill::account_status(&self.db, did).await? == Some(AccountStatus::Active) {
            for collection in self.collections.iter() {
                if !backfill::in_range(&self.db, did, collection, KeyRange::default(), 1).await?.is_empty() {
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
        page: RecordPage,
        differences: &mut Vec<Difference>,
    ) -> Result<u64, Break> {
        let collection = listing.collection.clone();
        let OwnRecords { cursor, keys, records, is_clean, .. } = page.of(did, &collection);
        let range = match listing.take_page(&keys, is_clean, cursor.as_deref())? {
            Proof::Complete(range) => range,
            Proof::Open => {
                listing.advance(PageEnd { last: None, next: cursor, records: 0 })?;
                return Ok(0);
            }
            Proof::Nothing => {
                return Err(
                    Failure::other("its PDS lists records without an order, so nothing is certain").into()
                );
            }
        };
        let mut on_page: HashMap<&str, PageRecord> =
            keys.iter().map(RecordKey::as_str).zip(records).collect();
        let uri = |rkey: &str| format!("{}/{collection}/{rkey}", repo_uri(did));
        let (mut unlisted, limit) = (Vec::new(), RevLimit::read(&self.db, self.clock.now()).await?);
        let mut parts = RangeReader::new(range);
        while let Some(rows) = parts.next(&self.db, did, &collection).await? {
            let bytes = on_page.values().map(|record| record.value.len()).sum();
            hand_over_thread(bytes, || {
                for row in rows {
                    match on_page.remove(row.rkey.as_str()) {
                        None => unlisted.push(row),
                        // The stream has brought a newer version since the PDS was asked for its rev.
                        Some(_) if row.rev_by(limit) > rev.as_u64() => {}
                        Some(record) => {
                            if row.cid.is_none_or(|cid| Claim::parse(&record.cid) != Claim::Cid(cid))
                                && self.is_indexable(did, &collection, &row.rkey, rev, record)
                            {
                                differences.push((Kind::Stale, uri(row.rkey.as_str())));
                            }
                        }
                    }
                }
            });
        }
        unlisted.retain(|row: &IndexedRow| row.rev_by(limit) <= rev.as_u64());
        let absent = unlisted.iter().map(|row| row.rkey.clone()).collect();
        if server.denied(did, &collection, absent).await.1? {
            let wrong = "its PDS does not list a record that it has, so nothing is certain";
            return Err(Failure::other(wrong).into());
        }
        differences.extend(unlisted.iter().map(|row| (Kind::Extra, uri(row.rkey.as_str()))));
        let bytes = on_page.values().map(|record| record.value.len()).sum();
        hand_over_thread(bytes, || {
            for key in &keys {
                if let Some(record) = on_page.remove(key.as_str())
                    && self.is_indexable(did, &collection, key, rev, record)
                {
                    differences.push((Kind::Missing, uri(key.as_str())));
                }
            }
        });
        let records = keys.len() as i64;
        listing.advance(PageEnd { last: keys.last(), next: cursor, records })?;
        Ok(keys.len() as u64)
    }

    /// Whether the index takes a record: one that is none, or does not match its CID, is never in the index.
    fn is_indexable(
        &self,
        did: &Did,
        collection: &Nsid,
        rkey: &RecordKey,
        rev: Tid,
        record: PageRecord,
    ) -> bool {
        let candidate = Candidate {
            did: did.clone(),
            collection: collection.clone(),
            rkey: rkey.clone(),
            rev,
            claim: Claim::parse(&record.cid),
            record: record.value,
            action: RecordAction::Create,
        };
        self.checker.accept(candidate).is_ok()
    }
}

pub(super) fn repo_uri(did: &Did) -> String {
    format!("at://{did}")
}
