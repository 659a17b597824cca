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
use super::reserve::{PAGE, RESERVE};
use crate::fair_share::{Bounds, FairPool, Full, Place, Tenant};
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
pub(in crate::scripts) struct RunMemory {
    memory: ScriptMemory,
    tenant: Tenant,
    held: Arc<Held>,
}

#[derive(Debug)]
struct Held {
    lineage: Lineage,
    pages: Mutex<HeldPages>,
}

#[derive(Debug, Default)]
struct HeldPages {
    common: Option<Place>,
    of_reserve: usize,
}

impl RunMemory {
    pub(in crate::scripts) fn new(memory: &ScriptMemory, tenant: Tenant, lineage: Lineage) -> Self {
        let held = Held { lineage, pages: Mutex::default() };
        Self { memory: memory.clone(), tenant, held: Arc::new(held) }
    }

    /// Takes `bytes` more, and waits for them if it has to.
    ///
    /// # Errors
    /// [`Full`] when no memory became free in time.
    pub(in crate::scripts) async fn grow(&self, bytes: usize) -> Result<(), Full> {
        let pages = bytes.div_ceil(PAGE);
        if pages == 0 {
            return Ok(());
        }
        let reserve = self.held.lineage.reserve();
        let granted = match reserve.take(pages) {
            Some(true) => {
                self.held.lock().of_reserve += pages;
                return Ok(());
            }
            Some(false) => Grant::Common(self.memory.common.try_enter_many(&self.tenant, pages)?),
            None => self.memory.wait(&self.tenant, pages).await?,
        };
        let mut held = self.held.lock();
        match granted {
            Grant::Common(place) => match &mut held.common {
                Some(common) => common.absorb(place),
                none => *none = Some(place),
            },
            Grant::Reserve(place) => {
                reserve.open(place, pages);
                held.of_reserve += pages;
            }
        }
        Ok(())
    }

    /// Releases `bytes`, or fewer: pages that are used in part are kept, and one page of the common part.
    pub(in crate::scripts) fn shrink(&self, bytes: usize) {
        let pages = bytes / PAGE;
        let mut held = self.held.lock();
        let of_reserve = pages.min(held.of_reserve);
        held.of_reserve -= of_reserve;
        if let Some(common) = &mut held.common {
            common.shrink_by(pages - of_reserve);
        }
        drop(held);
        if of_reserve > 0 {
            self.held.lineage.reserve().give_back(of_reserve);
        }
    }

    /// Releases everything that the run has taken so far.
    pub(in crate::scripts) fn release(&self) {
        self.held.release();
    }
}

impl Held {
    fn lock(&self) -> MutexGuard<'_, HeldPages> {
        // Poisoning is ignored: every update leaves the state consistent.
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn release(&self) {
        let HeldPages { common, of_reserve } = std::mem::take(&mut *self.lock());
        drop(common);
        if of_reserve > 0 {
            self.lineage.reserve().give_back(of_reserve);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests;
