//! The memory of one run or call.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Grant, MemoryGroup, MemoryPool, PAGE, RESERVE_BYTES, WhenFull};
use belvedere_web::fair_share::{Full, Permit, Tenant};

/// The memory of one run. Cheap to clone; the memory is released when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct RunMemory(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    pool: MemoryPool,
    tenant: Tenant,
    group: MemoryGroup,
    held: Mutex<Held>,
}

/// Ends a run for which no memory became free. It is no error of the program's, so it can't catch it.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("no memory for the run: {0}")]
pub struct NoMemory(pub Full);

#[derive(Debug, Default)]
struct Held {
    common: Option<Permit>,
    /// The same pages, counted among those of jobs.
    of_jobs: Option<Permit>,
    /// Pages of the reserve.
    of_reserve: usize,
}

impl Held {
    fn add(&mut self, common: Permit, of_jobs: Option<Permit>) {
        add(&mut self.common, common);
        if let Some(of_jobs) = of_jobs {
            add(&mut self.of_jobs, of_jobs);
        }
    }
}

fn add(held: &mut Option<Permit>, more: Permit) {
    match held {
        Some(held) => held.absorb(more),
        none => *none = Some(more),
    }
}

impl RunMemory {
    pub fn new(pool: &MemoryPool, tenant: Tenant, group: MemoryGroup) -> Self {
        let (pool, held) = (pool.clone(), Mutex::default());
        Self(Arc::new(Inner { pool, tenant, group, held }))
    }

    /// The group of the run.
    #[cfg(any(test, feature = "testing"))]
    pub fn group(&self) -> &MemoryGroup {
        &self.0.group
    }

    /// The most that the run can have, in bytes, however little others use.
    pub fn most(&self) -> usize {
        let Inner { pool, group, .. } = &*self.0;
        match group.when_full {
            WhenFull::WaitAsJob => RESERVE_BYTES.min(pool.of_jobs.bounds().per_tenant * PAGE),
            WhenFull::Wait | WhenFull::Refuse => RESERVE_BYTES,
        }
    }

    /// Takes `bytes` more if that needs no wait. An ordinary run takes only the lock of the common part.
    pub fn try_grow(&self, bytes: usize) -> bool {
        let Inner { pool, tenant, group, .. } = &*self.0;
        let pages = bytes.div_ceil(PAGE);
        if pages == 0 {
            return true;
        }
        let of_jobs = match group.when_full {
            WhenFull::WaitAsJob => match pool.of_jobs.take(tenant, pages) {
                None => return false,
                taken => taken,
            },
            WhenFull::Wait | WhenFull::Refuse => None,
        };
        // Other runs may wait for the common part. Then this gives nothing, and the run takes of its reserve.
        if let Some(common) = pool.common.take(tenant, pages) {
            self.0.held().add(common, of_jobs);
            return true;
        }
        let taken = group.reserve.take(pages);
        if taken {
            self.0.held().of_reserve += pages;
        }
        taken
    }

    /// Takes `bytes` more, and waits for them if it has to. A run waits for one thing at a time.
    ///
    /// # Errors
    /// [`Full`] when no memory became free in time, or the group may not wait for it.
    pub async fn grow(&self, bytes: usize) -> Result<(), Full> {
        if self.try_grow(bytes) {
            return Ok(());
        }
        let Inner { pool, tenant, group, .. } = &*self.0;
        let pages = bytes.div_ceil(PAGE);
        match group.when_full {
            WhenFull::WaitAsJob => {
                if pages > pool.of_jobs.bounds().per_tenant {
                    return Err(Full::Tenant);
                }
                let of_jobs = pool.of_jobs.enter_many(tenant, pages).await?;
                let common = pool.common.enter_many(tenant, pages).await?;
                self.0.held().add(common, Some(of_jobs));
            }
            WhenFull::Wait if !group.reserve.is_open() => match pool.wait(tenant, pages).await? {
                Grant::Common(permit) => self.0.held().add(permit, None),
                Grant::Reserve(permit) => {
                    group.reserve.open(permit, pages);
                    self.0.held().of_reserve += pages;
                }
            },
            WhenFull::Wait | WhenFull::Refuse => {
                let common = pool.common.try_enter_many(tenant, pages)?;
                self.0.held().add(common, None);
            }
        }
        Ok(())
    }

    /// Releases `bytes`, or fewer: pages that are used in part are kept, and one page of the common part.
    pub fn shrink(&self, bytes: usize) {
        let pages = bytes / PAGE;
        let mut held = self.0.held();
        let of_reserve = pages.min(held.of_reserve);
        held.of_reserve -= of_reserve;
        let Held { common, of_jobs, .. } = &mut *held;
        for permit in [common, of_jobs].into_iter().flatten() {
            permit.shrink_by(pages - of_reserve);
        }
        drop(held);
        self.0.group.reserve.give_back(of_reserve);
    }

    /// Releases everything that the run has taken so far.
    pub fn release(&self) {
        self.0.release();
    }
}

impl Inner {
    fn held(&self) -> MutexGuard<'_, Held> {
        // Poisoning is ignored: every update leaves the state consistent.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn release(&self) {
        let Held { common, of_jobs, of_reserve } = std::mem::take(&mut *self.held());
        drop((common, of_jobs));
        self.group.reserve.give_back(of_reserve);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.release();
    }
}
