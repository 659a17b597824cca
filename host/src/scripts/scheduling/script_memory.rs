//! Bounds the memory that all runs use together (`docs/adr/0094-runs-share-memory.md`).
//!
//! A run takes memory from the common part when it begins and whenever its instance grows. A run that finds none there waits
//! for it, and at the same time for one of a few reserves. A reserve is as much as an instance may ever have, so a run that
//! has one needs to wait for no more. However full the common part is, the runs with a reserve end, and pass it on.
//!
//! A reserve belongs to a run and the runs that it calls. They never wait for memory while they have one: what neither the
//! reserve nor the common part has is refused at once. So runs that wait for memory wait only for runs that do not.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Lineage;
use super::reserve::RESERVE;
use crate::fair_share::{Bounds, FairPool, Full, Place, Tenant};
use crate::sandbox::PAGE;
use crate::scripts::limits;

/// The memory of all runs. Cheap to clone.
#[derive(Clone, Debug)]
pub(in crate::scripts) struct ScriptMemory {
    /// Its places are pages.
    common: FairPool,
    /// Its places are reserves.
    reserves: FairPool,
}

impl ScriptMemory {
    /// Half of `bytes` is for reserves, of which there is at least one.
    pub(in crate::scripts) fn new(bytes: usize) -> Self {
        let pages = bytes / PAGE;
        let reserves = (pages / 2 / RESERVE).max(1);
        let common = pages.saturating_sub(reserves * RESERVE);
        Self {
            common: FairPool::new("script_memory", bounds(common)),
            reserves: FairPool::new("script_memory_reserves", bounds(reserves)),
        }
    }

    /// The common part, of which calls of plugins take too. They do not wait for it.
    pub(in crate::scripts) fn common(&self) -> FairPool {
        self.common.clone()
    }

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
}

/// A tenant may have half, so that one tenant never takes all. The queues need no bounds, since each run in them holds an
/// instance.
fn bounds(places: usize) -> Bounds {
    Bounds {
        places,
        per_tenant: places.div_ceil(2),
        waiting: usize::MAX,
        waiting_per_tenant: usize::MAX,
        patience: limits::QUEUE_WAIT,
    }
}

/// What a run waited for.
enum Grant {
    Common(Place),
    Reserve(Place),
}

/// The memory of one run. Cheap to clone; the memory is released when the last clone is dropped.
#[derive(Clone, Debug)]
pub(in crate::scripts) struct RunMemory(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    memory: ScriptMemory,
    tenant: Tenant,
    lineage: Lineage,
    held: Mutex<Held>,
}

/// What a run has taken.
#[derive(Debug, Default)]
struct Held {
    common: Option<Place>,
    /// Pages of the reserve.
    of_reserve: usize,
}

impl Held {
    fn add(&mut self, place: Place) {
        match &mut self.common {
            Some(common) => common.absorb(place),
            none => *none = Some(place),
        }
    }
}

impl RunMemory {
    pub(in crate::scripts) fn new(memory: &ScriptMemory, tenant: Tenant, lineage: Lineage) -> Self {
        let (memory, held) = (memory.clone(), Mutex::default());
        Self(Arc::new(Inner { memory, tenant, lineage, held }))
    }

    /// Takes `bytes` more if that needs no wait. An ordinary run takes only the lock of the common part.
    pub(in crate::scripts) fn try_grow(&self, bytes: usize) -> bool {
        let Inner { memory, tenant, lineage, .. } = &*self.0;
        let pages = bytes.div_ceil(PAGE);
        if pages == 0 {
            return true;
        }
        // Other runs may wait for the common part. Then this gives nothing, and the run takes of its reserve.
        if let Some(place) = memory.common.take(tenant, pages) {
            self.0.held().add(place);
            return true;
        }
        let taken = lineage.reserve().take(pages);
        if taken {
            self.0.held().of_reserve += pages;
        }
        taken
    }

    /// Takes `bytes` more, and waits for them if it has to.
    ///
    /// # Errors
    /// [`Full`] when no memory became free in time.
    pub(in crate::scripts) async fn grow(&self, bytes: usize) -> Result<(), Full> {
        if self.try_grow(bytes) {
            return Ok(());
        }
        let Inner { memory, tenant, lineage, .. } = &*self.0;
        let pages = bytes.div_ceil(PAGE);
        let granted = if lineage.reserve().is_open() {
            Grant::Common(memory.common.try_enter_many(tenant, pages)?)
        } else {
            memory.wait(tenant, pages).await?
        };
        match granted {
            Grant::Common(place) => self.0.held().add(place),
            Grant::Reserve(place) => {
                lineage.reserve().open(place, pages);
                self.0.held().of_reserve += pages;
            }
        }
        Ok(())
    }

    /// Releases `bytes`, or fewer: pages that are used in part are kept, and one page of the common part.
    pub(in crate::scripts) fn shrink(&self, bytes: usize) {
        let pages = bytes / PAGE;
        let mut held = self.0.held();
        let of_reserve = pages.min(held.of_reserve);
        held.of_reserve -= of_reserve;
        if let Some(common) = &mut held.common {
            common.shrink_by(pages - of_reserve);
        }
        drop(held);
        self.0.lineage.reserve().give_back(of_reserve);
    }

    /// Releases everything that the run has taken so far.
    pub(in crate::scripts) fn release(&self) {
        self.0.release();
    }
}

impl Inner {
    fn held(&self) -> MutexGuard<'_, Held> {
        // Poisoning is ignored: every update leaves the state consistent.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn release(&self) {
        let Held { common, of_reserve } = std::mem::take(&mut *self.held());
        drop(common);
        self.lineage.reserve().give_back(of_reserve);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests;
