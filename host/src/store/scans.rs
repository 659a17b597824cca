//! Reads that go through many records: filters, sorts and searches that no index answers, counts, and scripts' own SQL.
//!
//! Each keeps a processor busy for as long as it runs, so there are few places for them, and every tenant has a part of
//! these. They have connections of their own: whatever scans, a read by key or a page of an index finds a connection.

use std::time::Duration;

use super::{Db, StoreError};
use crate::fair_share::{Bounds, FairPool, Place, Tenant};

/// How long a scan may take. It goes through about a million records in this time. What takes longer is stopped, and
/// counts for the index that would spare it.
pub(super) const SCAN_TIME: Duration = Duration::from_secs(2);

/// Places at most: as many as there are connections for scripts' own SQL, and a quarter of the readers of SQLite.
const MAX_PLACES: u32 = 4;

/// Scans that may wait, of all tenants and of one. Each holds a script's instance, and there are 64 of these as a rule, so
/// that the wait is what ends first.
const WAITING: usize = 1_024;
const WAITING_PER_TENANT: usize = 256;

/// How long a scan waits for its tenant's others. Its caller has hardly more patience.
const PATIENCE: Duration = Duration::from_secs(5);

/// Half of the places for one tenant, so that another one finds a place.
pub(super) fn pool(places: u32) -> FairPool {
    FairPool::new(
        "scans",
        Bounds {
            places: places as usize,
            per_tenant: (places as usize / 2).max(1),
            waiting: WAITING,
            waiting_per_tenant: WAITING_PER_TENANT,
            patience: PATIENCE,
        },
    )
}

/// Places on SQLite, which scans on this machine's cores: as many as these, and never all readers.
pub(super) fn places_on_cores(readers: u32) -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    u32::try_from(cores).unwrap_or(MAX_PLACES).clamp(2, MAX_PLACES).min(readers / 4).max(1)
}

/// Places on PostgreSQL, which scans on a machine of its own: an eighth of the connections.
pub(super) fn places_of_connections(connections: u32) -> u32 {
    (connections / 8).clamp(1, MAX_PLACES)
}

impl Db {
    /// Who may scan at the same time.
    pub fn scans(&self) -> &FairPool {
        match self {
            Self::Sqlite(db) => &db.scans,
            Self::Postgres(db) => &db.scans,
        }
    }

    /// A place for one scan, held until it is dropped.
    ///
    /// # Errors
    /// [`StoreError::Busy`] when the tenant has enough of them under way.
    pub async fn scan_place(&self, tenant: &Tenant) -> Result<Place, StoreError> {
        self.scans().enter(tenant).await.map_err(StoreError::Busy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_never_has_all_places_of_a_usual_server() {
        for connections in [16, 32, 1_000] {
            for places in [places_on_cores(connections), places_of_connections(connections)] {
                let bounds = pool(places).bounds();
                assert!(bounds.per_tenant < bounds.places, "{connections}: {bounds:?}");
                assert!(bounds.places <= connections as usize / 4);
            }
        }
        assert_eq!((places_on_cores(1), places_of_connections(1)), (1, 1));
    }
}
