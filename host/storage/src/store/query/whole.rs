//! Reads all records that a query finds, for a result that is made of all of them, such as their number.

use std::time::Instant;

use crate::query::Query;
use crate::store::intern::Collection;
use crate::store::scans::SCAN_TIME_LIMIT;
use crate::store::select::{By, Select};
use crate::store::{Db, StoreError};
use belvedere_web::fair_share::Tenant;

use super::access::IndexCandidates;

/// Runs a scan of the records of a query, through the index that has the fewest of them. `run` runs the statement.
///
/// # Errors
/// [`StoreError::Busy`], and [`StoreError::TooSlow`].
pub(super) async fn scan<T>(
    db: &Db,
    query: &Query,
    collection: Collection,
    tenant: &Tenant,
    run: impl AsyncFn(&Select<'_>) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let candidates = IndexCandidates::of(collection, query);
    let bounds = candidates.narrowest(db, tenant).await?;
    let by = bounds.as_ref().map_or(By::Time, By::Field);
    let _permit = db.scan_permit(tenant).await?;
    let started = Instant::now();
    let found = match run(&Select::of(query, collection, by)).await {
        // Another process may have dropped the index in the meantime.
        Err(StoreError::Database(error)) if bounds.is_some() => {
            tracing::debug!(%error, "a scan by an index failed; scanning the collection instead");
            candidates.forget(db);
            run(&Select::of(query, collection, By::Time)).await
        }
        found => found,
    };
    let took = match &found {
        Ok(_) => started.elapsed(),
        // A scan that was stopped needs an index most.
        Err(StoreError::TooSlow) => SCAN_TIME_LIMIT,
        Err(_) => return found,
    };
    candidates.note(db, bounds.map(|bounds| bounds.index), took);
    found
}
