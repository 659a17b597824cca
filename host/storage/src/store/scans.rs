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

/// Time that a scan beyond its tenant's share may go on once another tenant waits: most scans end within it, and the other
/// tenant hardly notices.
const TIME_SLICE: Duration = Duration::from_millis(50);

/// The fair-share pool of scans. One tenant can take half of the permits, so that another tenant finds one; while it is alone,
/// [`Db::scan`] takes all of them. `name`
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

/// `again` is the same read as `first`.
async fn run_recallable<T, E: From<StoreError>>(
    scans: &FairPool,
    tenant: &Tenant,
    first: impl Future<Output = Result<T, E>>,
    again: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let permit = scans.enter_recallable(tenant).await.map_err(StoreError::Busy)?;
    let is_over = async {
        permit.recalled().await;
        tokio::time::sleep(TIME_SLICE).await;
    };
    tokio::select! {
        biased;
        done = first => return done,
        () = is_over => {}
    }
    drop(permit);
    let _permit = scans.enter(tenant).await.map_err(StoreError::Busy)?;
    again.await
}

impl Db {
    /// The pool of permits for concurrent scans.
    pub fn scans(&self) -> &FairPool {
        match self {
            Self::Sqlite(db) => &db.scans,
            Self::Postgres(db) => &db.scans,
        }
    }

    /// Runs a read as a scan. It may use what other tenants don't need; when one does, the read has [`TIME_SLICE`] to end, and is
    /// then dropped; the same read `again` runs within the tenant's own share.
    ///
    /// # Errors
    /// [`StoreError::Busy`] as [`Self::scan_permit`], and those of the read.
    pub(in crate::store) async fn scan<T, E: From<StoreError>>(
        &self,
        tenant: &Tenant,
        first: impl Future<Output = Result<T, E>>,
        again: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        run_recallable(self.scans(), tenant, first, again).await
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
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::time::Instant;

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

    /// A tenant alone runs two scans at once. Half of its places go to another tenant within a time slice, and the scan that
    /// was stopped is begun again.
    #[tokio::test(start_paused = true)]
    async fn a_second_tenant_gets_its_place_within_a_time_slice() {
        const SECOND: Duration = Duration::from_secs(1);
        let scans = pool("scans", 2);
        let (first, second) = (Tenant::client("a"), Tenant::client("b"));
        let (begun, start) = (AtomicU32::new(0), Instant::now());
        let read = async || {
            begun.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(SECOND).await;
            Ok::<_, StoreError>(start.elapsed())
        };
        let scan = async || run_recallable(&scans, &first, read(), read()).await.unwrap();
        let other = async {
            tokio::time::sleep(SECOND / 2).await;
            let _permit = scans.enter(&second).await.unwrap();
            let began = start.elapsed();
            tokio::time::sleep(SECOND).await;
            began
        };
        let (one, again, began) = tokio::join!(scan(), scan(), other);
        assert_eq!((one, began), (SECOND, SECOND / 2 + TIME_SLICE));
        // It waits for the first one, which has the tenant's only place.
        assert_eq!((again, begun.into_inner()), (SECOND * 2, 3));
    }
}
