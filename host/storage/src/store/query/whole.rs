//! Reads all records that a query finds, for a result that is made of all of them, such as their number.

use std::time::Instant;

use crate::query::Query;
use crate::store::intern::Collection;
use crate::store::scans::SCAN_TIME_LIMIT;
use crate::store::select::{Bounds, By, Select};
use crate::store::{Db, StoreError};
use belvedere_web::fair_share::{Permit, Tenant};

use super::access::IndexCandidates;

/// A scan of the records of a query, through the index that has the fewest of them.
pub(super) struct Scan<'a> {
    db: &'a Db,
    query: &'a Query,
    collection: Collection,
    candidates: IndexCandidates<'a>,
    bounds: Option<Bounds<'a>>,
    started: Instant,
    _permit: Permit,
}

impl<'a> Scan<'a> {
    /// # Errors
    /// [`StoreError::Busy`].
    pub(super) async fn begin(
        db: &'a Db,
        query: &'a Query,
        collection: Collection,
        tenant: &Tenant,
    ) -> Result<Self, StoreError> {
        let candidates = IndexCandidates::of(collection, query);
        let bounds = candidates.narrowest(db, tenant).await?;
        let permit = db.scan_permit(tenant).await?;
        Ok(Self { db, query, collection, candidates, bounds, started: Instant::now(), _permit: permit })
    }

    /// The records to read.
    pub(super) fn select(&self) -> Select<'_> {
        Select::of(self.query, self.collection, self.bounds.as_ref().map_or(By::Time, By::Field))
    }

    /// Whether a failed statement has to run again, without the index: another process may have dropped it in the
    /// meantime.
    pub(super) fn has_lost_its_index<T>(&mut self, found: &Result<T, StoreError>) -> bool {
        let Err(StoreError::Database(error)) = found else { return false };
        let had_index = self.bounds.take().is_some();
        if had_index {
            tracing::debug!(%error, "a scan by an index failed; scanning the collection instead");
            self.candidates.forget(self.db);
        }
        had_index
    }

    /// Records what the scan cost.
    pub(super) fn end<T>(self, found: &Result<T, StoreError>) {
        let took = match found {
            Ok(_) => self.started.elapsed(),
            // A scan that was stopped needs an index most.
            Err(StoreError::TooSlow) => SCAN_TIME_LIMIT,
            Err(_) => return,
        };
        self.candidates.note(self.db, self.bounds.map(|bounds| bounds.index), took);
    }
}
