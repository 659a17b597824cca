//! Shares the reads that use an index among tenants.
//!
//! Such a read takes a tenth of a millisecond, but a script may send a hundred of them, in many runs at the same time.
//! More reads in progress than there are processors only wait for each other, and another tenant's read behind them. So
//! one tenant has a few in progress, and the others' find a connection at once.

use std::borrow::Cow;
use std::time::Duration;

use super::{Db, StoreError};
use belvedere_web::fair_share::{Bounds, FairPool, Permit, Tenant};

/// The purpose of a connection for reads, which have a time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reads {
    /// Reads by an index that take a fraction of a millisecond.
    Hot,
    /// Reads that hold a permit in the pool of [`scans`](super::scans).
    Scans,
    /// The same, by an index of texts.
    Searches,
}

impl Reads {
    pub(super) fn of_scan(scans: bool) -> Self {
        if scans { Self::Scans } else { Self::Hot }
    }
}

/// Reads that may wait, of all tenants and of one: more than there are requests and scripts at the same time.
const MAX_WAITING: usize = 16_384;
const MAX_WAITING_PER_TENANT: usize = 4_096;

/// Time that a read waits for a permit; callers hardly wait longer.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// The fair-share pool of reads on `connections`, of which a tenant has `per_tenant`. `name` is its label in metrics.
pub(super) fn pool(name: impl Into<Cow<'static, str>>, connections: u32, per_tenant: u32) -> FairPool {
    FairPool::new(
        name,
        Bounds {
            permits: connections as usize,
            per_tenant: per_tenant as usize,
            waiting: MAX_WAITING,
            waiting_per_tenant: MAX_WAITING_PER_TENANT,
            max_wait: MAX_WAIT,
        },
    )
}

/// Reads of one tenant on SQLite, which uses this machine's processors: one per core, and at most half of the connections.
pub(super) fn per_tenant_on_sqlite(cores: usize, connections: u32) -> u32 {
    u32::try_from(cores).unwrap_or(u32::MAX).max(2).min(connections / 2).max(1)
}

/// Reads of one tenant on PostgreSQL, which has its own machine: half of the connections.
pub(super) fn per_tenant_on_postgres(connections: u32) -> u32 {
    (connections / 2).max(1)
}

impl Db {
    /// The pool of permits for concurrent reads by an index.
    pub fn reads(&self) -> &FairPool {
        match self {
            Self::Sqlite(db) => &db.reads,
            Self::Postgres(db) => &db.reads,
        }
    }

    /// Waits for a permit for one read by an index. Dropping the permit releases it.
    ///
    /// # Errors
    /// [`StoreError::Busy`] when too many reads are waiting, or no permit became free in time.
    pub async fn read_permit(&self, tenant: &Tenant) -> Result<Permit, StoreError> {
        // Scans of other tenants take the processors that this read needs. The instance's own reads are few.
        if *tenant != Tenant::Instance {
            self.scans().visit(tenant);
        }
        self.reads().enter(tenant).await.map_err(StoreError::Busy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_tenant_cannot_take_all_connections() {
        for (cores, connections, expected) in
            [(1, 14, 2), (2, 14, 2), (6, 14, 6), (64, 14, 7), (8, 2, 1), (8, 1, 1)]
        {
            assert_eq!(per_tenant_on_sqlite(cores, connections), expected, "{cores} cores, {connections}");
        }
        assert_eq!([1, 2, 12].map(per_tenant_on_postgres), [1, 1, 6]);
    }
}
