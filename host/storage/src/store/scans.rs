//! Limits how many scans run at the same time. A scan is a read that passes over many records: a filter, sort or search
//! without an index, a count, or a script's own SQL.
//!
//! A scan keeps a processor busy while it runs, so there are few permits for scans, and one tenant can take only some of
//! them. Scans have their own connections, so that reads by key and index pages always find a connection.

use std::borrow::Cow;
use std::time::Duration;

use super::{Db, StoreError};
use belvedere_web::fair_share::{Bounds, FairPool, Permit, Tenant};

/// Time limit of a scan, in which it passes over about a million records. A scan that takes longer is stopped; it
/// counts as a reason to build the index that would avoid it.
pub(super) const SCAN_TIME_LIMIT: Duration = Duration::from_secs(2);

/// Largest number of scans at the same time: as many as there are connections for scripts' own SQL, and a quarter of
/// the usual number of SQLite readers.
const MAX_SCANS: u32 = 4;

/// Scans that may wait, of all tenants and of one. Each waiting scan occupies a script's instance, of which there are
/// 64 by default, so [`MAX_WAIT`] is usually reached first.
const MAX_WAITING: usize = 1_024;
const MAX_WAITING_PER_TENANT: usize = 256;

/// Time that a scan waits for a permit; callers hardly wait longer.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// The fair-share pool of scans. One tenant can take half of the permits, so that another tenant finds one. `name`
/// is its label in metrics.
pub(super) fn pool(name: impl Into<Cow<'static, str>>, max_scans: u32) -> FairPool {
    FairPool::new(
        name,
        Bounds {
            permits: max_scans as usize,
            per_tenant: (max_scans as usize / 2).max(1),
            waiting: MAX_WAITING,
            waiting_per_tenant: MAX_WAITING_PER_TENANT,
            max_wait: MAX_WAIT,
        },
    )
}

/// Number of concurrent scans on SQLite, which uses this machine's cores: one per core, and never all readers.
pub(super) fn max_on_sqlite(readers: u32) -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    u32::try_from(cores).unwrap_or(MAX_SCANS).clamp(2, MAX_SCANS).min(readers / 4).max(1)
}

/// Number of concurrent scans on PostgreSQL, which has its own machine: an eighth of the connections.
pub(super) fn max_on_postgres(connections: u32) -> u32 {
    (connections / 8).clamp(1, MAX_SCANS)
}

impl Db {
    /// The pool of permits for concurrent scans.
    pub fn scans(&self) -> &FairPool {
        match self {
            Self::Sqlite(db) => &db.scans,
            Self::Postgres(db) => &db.scans,
        }
    }

    /// Waits for a permit for one scan. Dropping the permit releases it.
    ///
    /// # Errors
    /// [`StoreError::Busy`] when too many scans are waiting, or no permit became free in time.
    pub async fn scan_permit(&self, tenant: &Tenant) -> Result<Permit, StoreError> {
        self.scans().enter(tenant).await.map_err(StoreError::Busy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_tenant_cannot_take_all_permits() {
        for connections in [16, 32, 1_000] {
            for max_scans in [max_on_sqlite(connections), max_on_postgres(connections)] {
                let bounds = pool("scans", max_scans).bounds();
                assert!(bounds.per_tenant < bounds.permits, "{connections}: {bounds:?}");
                assert!(bounds.permits <= connections as usize / 4);
            }
        }
        assert_eq!((max_on_sqlite(1), max_on_postgres(1)), (1, 1));
    }
}
