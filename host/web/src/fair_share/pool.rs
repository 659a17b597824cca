//! A pool of permits that tenants share fairly.
//!
//! A tenant uses at most its share. A call that finds no permit waits in its tenant's queue, and free permits go to the
//! tenants in round-robin order, however many calls of one tenant wait. So a tenant that uses its whole share delays
//! another tenant by at most one round.
//!
//! A call may take several permits at once, for example one for each block of a response's bytes. A call that needs more
//! permits than are free stays first in the round robin until there are enough, so that smaller calls can't overtake it
//! forever.
//!
//! A call that can be stopped and begun again may also use what no other tenant needs ([`FairPool::enter_recallable`]).
//! It is recalled when another tenant waits.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metrics::{Counter, Gauge};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Tenant;
use super::state::{Bounds, Full, Recall, State, Wanted};

/// Cheap to clone.
#[derive(Clone)]
pub struct FairPool(Arc<Shared>);

struct Shared {
    name: Cow<'static, str>,
    bounds: Bounds,
    state: Mutex<State>,
    used: Gauge,
    waiting: Gauge,
    refused: [Counter; 3],
}

impl FairPool {
    /// `name` is the label `pool` in the metrics `belvedere_fair_share_*`.
    pub fn new(name: impl Into<Cow<'static, str>>, bounds: Bounds) -> Self {
        let name = name.into();
        let refused = ["tenant", "pool", "timeout"].map(|why| {
            metrics::counter!("belvedere_fair_share_refused_total", "pool" => name.clone(), "why" => why)
        });
        let used = metrics::gauge!("belvedere_fair_share_used", "pool" => name.clone());
        let waiting = metrics::gauge!("belvedere_fair_share_waiting", "pool" => name.clone());
        Self(Arc::new(Shared { name, bounds, state: Mutex::default(), used, waiting, refused }))
    }

    /// The pool's limits.
    pub fn bounds(&self) -> Bounds {
        self.0.bounds
    }

    /// Takes a permit for `tenant`, until the returned value is dropped. Waits for it within the pool's limits.
    ///
    /// # Errors
    /// [`Full`].
    pub async fn enter(&self, tenant: &Tenant) -> Result<Permit, Full> {
        self.enter_within(tenant, self.0.bounds.max_wait).await
    }

    /// Like [`Self::enter`], with a shorter limit for the wait than the pool's.
    ///
    /// # Errors
    /// [`Full`].
    pub async fn enter_within(&self, tenant: &Tenant, max_wait: Duration) -> Result<Permit, Full> {
        self.enter_with(tenant, 1, max_wait).await
    }

    /// Like [`Self::enter`], for a call that takes several permits at once. A call larger than a tenant's share takes
    /// the whole share.
    ///
    /// # Errors
    /// [`Full`].
    pub async fn enter_many(&self, tenant: &Tenant, permits: usize) -> Result<Permit, Full> {
        self.enter_with(tenant, permits, self.0.bounds.max_wait).await
    }

    /// Takes a permit for a call that can be stopped and begun again: while no other tenant uses the pool or waits for it,
    /// also beyond the tenant's share. The caller watches [`Permit::recalled`].
    ///
    /// # Errors
    /// [`Full`].
    pub async fn enter_recallable(&self, tenant: &Tenant) -> Result<Permit, Full> {
        let wanted = Wanted { permits: 1, recall: Some(Recall::default()) };
        self.enter_wanted(tenant, wanted, self.0.bounds.max_wait).await
    }

    /// Records that a tenant uses what this pool shares, such as the processors, without a permit of it. For a second, no other
    /// tenant counts as alone.
    pub fn visit(&self, tenant: &Tenant) {
        self.0.lock().visit(tenant, Instant::now(), &self.0.bounds);
    }

    async fn enter_with(&self, tenant: &Tenant, permits: usize, max_wait: Duration) -> Result<Permit, Full> {
        let permits = permits.clamp(1, self.0.bounds.per_tenant.min(self.0.bounds.permits));
        self.enter_wanted(tenant, Wanted::permits(permits), max_wait).await
    }

    async fn enter_wanted(
        &self,
        tenant: &Tenant,
        wanted: Wanted,
        max_wait: Duration,
    ) -> Result<Permit, Full> {
        let (id, granted) = match self.0.take_or_enqueue(tenant, &wanted) {
            Ok(Admission::Granted) => return Ok(self.permit(tenant, wanted)),
            Ok(Admission::Queued(id, granted)) => (id, granted),
            Err(full) => return Err(self.0.refuse(full)),
        };
        // On a timeout, or when this future is dropped: leaves the queue, or releases the permits if they were granted.
        let waiter = Waiter { shared: &self.0, tenant, wanted: &wanted, id, done: false };
        let granted = self.0.granted(tenant, &wanted, granted);
        if let Ok(true) = tokio::time::timeout(max_wait.min(self.0.bounds.max_wait), granted).await {
            waiter.done();
            return Ok(self.permit(tenant, wanted));
        }
        drop(waiter);
        Err(self.0.refuse(Full::Timeout))
    }

    /// Takes a permit without waiting.
    ///
    /// # Errors
    /// [`Full::Tenant`] when the tenant uses its whole share and the pool is not full, else [`Full::Pool`].
    pub fn try_enter(&self, tenant: &Tenant) -> Result<Permit, Full> {
        self.try_enter_many(tenant, 1)
    }

    /// Like [`Self::try_enter`], for a call that takes several permits at once. One larger than a tenant's share gets
    /// none.
    ///
    /// # Errors
    /// As [`Self::try_enter`].
    pub fn try_enter_many(&self, tenant: &Tenant, permits: usize) -> Result<Permit, Full> {
        if let Some(permit) = self.take(tenant, permits) {
            return Ok(permit);
        }
        let state = self.0.lock();
        let used = state.tenants.get(tenant).map_or(0, |share| share.used);
        let at_its_share =
            used + permits > self.0.bounds.per_tenant && state.used + permits <= self.0.bounds.permits;
        let full = if at_its_share { Full::Tenant } else { Full::Pool };
        drop(state);
        Err(self.0.refuse(full))
    }

    /// Takes permits without waiting; `None` when the call would have to wait. It is not counted as refused, for calls that
    /// then wait or do without.
    pub fn take(&self, tenant: &Tenant, permits: usize) -> Option<Permit> {
        let mut state = self.0.lock();
        let wanted = Wanted::permits(permits);
        let taken = state.take(tenant, &wanted, &self.0.bounds);
        if taken {
            self.0.report(&state);
        }
        drop(state);
        taken.then(|| self.permit(tenant, wanted))
    }

    /// The number of permits in use.
    pub fn used(&self) -> usize {
        self.0.lock().used
    }

    /// Whether a call of another tenant waits for permits that its share allows.
    pub fn others_wait(&self, tenant: &Tenant) -> bool {
        self.0.lock().round_robin.iter().any(|other| other != tenant)
    }

    /// Whether a call of `tenant` would have to wait: its share or the pool is used up, or other calls already wait.
    pub fn is_full_for(&self, tenant: &Tenant) -> bool {
        !self.0.lock().has_capacity(tenant, &Wanted::permits(1), &self.0.bounds)
    }

    fn permit(&self, tenant: &Tenant, Wanted { permits, recall }: Wanted) -> Permit {
        Permit { pool: Arc::clone(&self.0), tenant: tenant.clone(), permits, recall }
    }
}

impl fmt::Debug for FairPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FairPool").field("name", &self.0.name).field("bounds", &self.0.bounds).finish()
    }
}

/// One or more permits of a pool. Dropping it releases them.
#[must_use = "dropping this releases the permit"]
pub struct Permit {
    pool: Arc<Shared>,
    tenant: Tenant,
    permits: usize,
    recall: Option<Recall>,
}

impl Permit {
    /// Waits until another tenant needs this permit. Never ends for one of the tenant's own share.
    pub async fn recalled(&self) {
        match &self.recall {
            Some(recall) => recall.cancelled().await,
            None => std::future::pending().await,
        }
    }

    /// Adds the permits of `other`, which must be the same tenant's in the same pool, so that both are released together.
    pub fn absorb(&mut self, mut other: Self) {
        debug_assert!(Arc::ptr_eq(&self.pool, &other.pool) && self.tenant == other.tenant);
        self.permits += std::mem::take(&mut other.permits);
    }

    /// Releases all but `permits` of its permits. Keeps at least one.
    pub fn shrink_to(&mut self, permits: usize) {
        self.shrink_by(self.permits.saturating_sub(permits));
    }

    /// Releases `permits` of its permits. Keeps at least one.
    pub fn shrink_by(&mut self, permits: usize) {
        let spare = permits.min(self.permits.saturating_sub(1));
        if spare > 0 {
            self.permits -= spare;
            let mut state = self.pool.lock();
            state.release(&self.tenant, spare, None, &self.pool.bounds);
            self.pool.report(&state);
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("pool", &self.pool.name)
            .field("tenant", &self.tenant)
            .field("permits", &self.permits)
            .field("recall", &self.recall)
            .finish()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.permits == 0 {
            return;
        }
        let mut state = self.pool.lock();
        state.release(&self.tenant, self.permits, self.recall.as_ref(), &self.pool.bounds);
        self.pool.report(&state);
    }
}

enum Admission {
    Granted,
    Queued(u64, oneshot::Receiver<()>),
}

struct Waiter<'a> {
    shared: &'a Shared,
    tenant: &'a Tenant,
    wanted: &'a Wanted,
    id: u64,
    done: bool,
}

impl Waiter<'_> {
    fn done(mut self) {
        self.done = true;
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        let mut state = self.shared.lock();
        if !state.cancel_wait(self.tenant, self.id, &self.shared.bounds) {
            // It was not in the queue, so its permits had been granted but were never used.
            let Wanted { permits, recall } = self.wanted;
            state.release(self.tenant, *permits, recall.as_ref(), &self.shared.bounds);
        }
        self.shared.report(&state);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Poisoning is ignored: counters and queues are consistent after every step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_or_enqueue(&self, tenant: &Tenant, wanted: &Wanted) -> Result<Admission, Full> {
        let mut state = self.lock();
        let admission = if state.take(tenant, wanted, &self.bounds) {
            Admission::Granted
        } else {
            let (id, granted) = state.enqueue(tenant, wanted.clone(), &self.bounds)?;
            Admission::Queued(id, granted)
        };
        self.report(&state);
        Ok(admission)
    }

    /// Waits for the permits of a call in the queue. Nothing tells the end of another tenant's visit, so a call that may then have
    /// more than its tenant's share is looked at again.
    async fn granted(&self, tenant: &Tenant, wanted: &Wanted, mut granted: oneshot::Receiver<()>) -> bool {
        while wanted.recall.is_some() {
            let visit_ends = self.lock().visit_ends(tenant);
            if let Ok(granted) = tokio::time::timeout_at(visit_ends, &mut granted).await {
                return granted.is_ok();
            }
            let mut state = self.lock();
            state.look_again(tenant, &self.bounds);
            self.report(&state);
        }
        granted.await.is_ok()
    }

    fn report(&self, state: &State) {
        self.used.set(state.used as f64);
        self.waiting.set(state.waiting as f64);
    }

    fn refuse(&self, full: Full) -> Full {
        self.refused[full as usize].increment(1);
        full
    }
}

#[cfg(test)]
mod tests;
