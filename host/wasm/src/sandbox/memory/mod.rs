//! Bounds the memory that all runs of scripts and all calls of plugins use together
//! (`docs/adr/0094-runs-share-memory.md`).
//!
//! A run takes memory from the common part when it begins and whenever its instance grows. A run that finds none there waits
//! for it, and at the same time for one of a few reserves. A reserve is as much as an instance may ever have, so a run that
//! has one needs to wait for no more. However full the common part is, the runs with a reserve end, and pass it on.
//!
//! A reserve belongs to a group: a run, and the runs and plugins that it calls. They never wait for memory while they have
//! one: what neither the reserve nor the common part has is refused at once. So runs that wait for memory wait only for runs
//! that do not. Two kinds of groups have no reserve: see [`WhenFull`].

mod group;
mod instance;
mod reserve;
mod results;
mod run_memory;

pub use group::{MemoryGroup, WhenFull};
pub use instance::{GrowthLimits, InstanceMemory};
pub use results::ResultMemory;
pub use run_memory::{NoMemory, RunMemory};

use std::time::Duration;

use self::reserve::RESERVE;
use belvedere_web::fair_share::{Bounds, FairPool, Full, Permit, Tenant};

/// Bytes of a page of WebAssembly, by which memories grow: a permit of the pools.
const PAGE: usize = 64 << 10;

/// Bytes of a reserve: no instance may have more.
pub const RESERVE_BYTES: usize = 64 << 20;

/// The longest wait for memory. Runs take less time than that, mostly.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// The memory of all runs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct MemoryPool {
    /// Its permits are pages.
    common: FairPool,
    /// Pages of the common part that jobs use.
    of_jobs: FairPool,
    /// Its permits are reserves.
    reserves: FairPool,
}

impl MemoryPool {
    /// Half of `bytes` is for reserves, of which there is at least one.
    pub fn new(bytes: usize) -> Self {
        let pages = bytes / PAGE;
        let reserves = (pages / 2 / RESERVE).max(1);
        let common = pages.saturating_sub(reserves * RESERVE);
        Self {
            common: FairPool::new("script_memory", bounds(common)),
            of_jobs: FairPool::new("script_memory_jobs", bounds(common / 2)),
            reserves: FairPool::new("script_memory_reserves", bounds(reserves)),
        }
    }

    /// Waits for pages of the common part or for a reserve, and takes what comes first.
    async fn wait(&self, tenant: &Tenant, pages: usize) -> Result<Grant, Full> {
        let common = async {
            if pages > self.common.bounds().per_tenant {
                return std::future::pending().await;
            }
            self.common.enter_many(tenant, pages).await.map(Grant::Common)
        };
        tokio::select! {
            biased;
            granted = common => granted,
            granted = self.reserves.enter(tenant) => granted.map(Grant::Reserve),
        }
    }

    /// Bytes that are used, of the common part and of reserves.
    #[cfg(any(test, feature = "testing"))]
    pub fn used(&self) -> usize {
        (self.common.used() + self.reserves.used() * RESERVE) * PAGE
    }

    /// Waits until so many bytes are used.
    #[cfg(any(test, feature = "testing"))]
    pub async fn until_used(&self, bytes: usize) {
        let used = async {
            while self.used() < bytes {
                tokio::task::yield_now().await;
            }
        };
        let ended = tokio::time::timeout(Duration::from_secs(30), used).await;
        assert!(ended.is_ok(), "{} instead of {bytes} bytes are used", self.used());
    }
}

/// The queues need no bounds, since each run in them holds an instance.
fn bounds(permits: usize) -> Bounds {
    Bounds::half_per_tenant(permits, usize::MAX, MAX_WAIT)
}

/// The grant that a run waited for.
enum Grant {
    Common(Permit),
    Reserve(Permit),
}

#[cfg(test)]
mod tests;
