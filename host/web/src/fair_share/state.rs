//! The state of a pool: the permits that each tenant uses, the waiting calls, and the round robin of tenants. Nothing
//! here waits or locks.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::sync::oneshot;

use super::Tenant;

/// The limits of a pool. Each value needs a reason where it is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// All permits of the pool.
    pub permits: usize,
    /// Permits that one tenant may use at the same time.
    pub per_tenant: usize,
    /// Permits for which the calls of all tenants together may wait. If each call takes one permit, this is the number of
    /// waiting calls.
    pub waiting: usize,
    /// Permits for which the calls of one tenant may wait.
    pub waiting_per_tenant: usize,
    /// The longest wait.
    pub max_wait: Duration,
}

impl Bounds {
    /// A tenant may use half of the permits and of the queue, so that one tenant never uses all.
    pub fn half_per_tenant(permits: usize, waiting: usize, max_wait: Duration) -> Self {
        let (per_tenant, waiting_per_tenant) = (permits.div_ceil(2), waiting.div_ceil(2));
        Self { permits, per_tenant, waiting, waiting_per_tenant, max_wait }
    }
}

/// The reason why a call got no permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    /// The tenant uses its whole share, and its queue is full.
    #[error("this caller has too many concurrent calls")]
    Tenant,
    /// All permits are in use, and no more calls may wait.
    #[error("the server is busy")]
    Pool,
    /// No permit became free in time.
    #[error("the server is busy: nothing became free in time")]
    Timeout,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) used: usize,
    pub(super) waiting: usize,
    /// Only tenants that use a permit or wait for one, so that the map stays small.
    pub(super) tenants: HashMap<Tenant, Share>,
    /// Tenants whose first waiting call fits their share, in the order in which they get free permits.
    pub(super) round_robin: VecDeque<Tenant>,
    last_id: u64,
}

#[derive(Default)]
pub(super) struct Share {
    pub(super) used: usize,
    pub(super) queue: VecDeque<Waiting>,
    /// Permits for which the queue waits.
    pub(super) queued: usize,
    pub(super) in_round_robin: bool,
}

pub(super) struct Waiting {
    id: u64,
    pub(super) permits: usize,
    granted: oneshot::Sender<()>,
}

impl Share {
    /// Whether the first call in the queue fits the tenant's share, so that it waits only for other tenants.
    pub(super) fn fits_share(&self, bounds: &Bounds) -> bool {
        self.queue.front().is_some_and(|first| self.used + first.permits <= bounds.per_tenant)
    }
}

impl State {
    /// Whether a call may take these permits at once. Calls in the round robin and waiting calls of the same tenant come
    /// first.
    pub(super) fn has_capacity(&self, tenant: &Tenant, permits: usize, bounds: &Bounds) -> bool {
        let share = self.tenants.get(tenant);
        self.round_robin.is_empty()
            && self.used + permits <= bounds.permits
            && share.is_none_or(|share| share.queue.is_empty() && share.used + permits <= bounds.per_tenant)
            && permits <= bounds.per_tenant
    }

    pub(super) fn take(&mut self, tenant: &Tenant, permits: usize, bounds: &Bounds) -> bool {
        let taken = self.has_capacity(tenant, permits, bounds);
        if taken {
            self.used += permits;
            self.tenants.entry(tenant.clone()).or_default().used += permits;
        }
        taken
    }

    pub(super) fn enqueue(
        &mut self,
        tenant: &Tenant,
        permits: usize,
        bounds: &Bounds,
    ) -> Result<(u64, oneshot::Receiver<()>), Full> {
        if self.waiting + permits > bounds.waiting {
            return Err(Full::Pool);
        }
        let share = self.tenants.entry(tenant.clone()).or_default();
        if share.queued + permits > bounds.waiting_per_tenant {
            let full = if share.used + permits > bounds.per_tenant { Full::Tenant } else { Full::Pool };
            self.remove_if_idle(tenant);
            return Err(full);
        }
        let (granted, receiver) = oneshot::channel();
        self.last_id += 1;
        share.queue.push_back(Waiting { id: self.last_id, permits, granted });
        share.queued += permits;
        self.waiting += permits;
        self.join_round_robin(tenant, bounds);
        Ok((self.last_id, receiver))
    }

    /// Removes a waiting call. Returns whether it was still in the queue.
    pub(super) fn cancel_wait(&mut self, tenant: &Tenant, id: u64, bounds: &Bounds) -> bool {
        let Some(share) = self.tenants.get_mut(tenant) else { return false };
        let Some(at) = share.queue.iter().position(|waiting| waiting.id == id) else { return false };
        let permits = share.queue.remove(at).map_or(0, |waiting| waiting.permits);
        share.queued -= permits;
        self.waiting -= permits;
        // The next call in the queue may need more than the rest of the tenant's share.
        if share.in_round_robin && !share.fits_share(bounds) {
            share.in_round_robin = false;
            self.round_robin.retain(|other| other != tenant);
        }
        self.join_round_robin(tenant, bounds);
        self.remove_if_idle(tenant);
        self.grant_waiting(bounds);
        true
    }

    pub(super) fn release(&mut self, tenant: &Tenant, permits: usize, bounds: &Bounds) {
        self.used -= permits;
        if let Some(share) = self.tenants.get_mut(tenant) {
            share.used -= permits;
        }
        self.join_round_robin(tenant, bounds);
        self.remove_if_idle(tenant);
        self.grant_waiting(bounds);
    }

    /// Grants free permits to the waiting tenants in round-robin order.
    fn grant_waiting(&mut self, bounds: &Bounds) {
        while let Some(tenant) = self.round_robin.front().cloned() {
            let Some(share) = self.tenants.get_mut(&tenant) else {
                self.round_robin.pop_front();
                continue;
            };
            if share.queue.front().is_some_and(|first| self.used + first.permits > bounds.permits) {
                return;
            }
            self.round_robin.pop_front();
            share.in_round_robin = false;
            let Some(Waiting { permits, granted, .. }) = share.queue.pop_front() else { continue };
            share.queued -= permits;
            share.used += permits;
            self.used += permits;
            self.waiting -= permits;
            // If the waiting call was dropped, its `Waiter` releases the permits.
            let _ = granted.send(());
            self.join_round_robin(&tenant, bounds);
        }
    }

    /// Appends a tenant to the round robin if its first waiting call fits its share.
    fn join_round_robin(&mut self, tenant: &Tenant, bounds: &Bounds) {
        let Some(share) = self.tenants.get_mut(tenant) else { return };
        if !share.in_round_robin && share.fits_share(bounds) {
            share.in_round_robin = true;
            self.round_robin.push_back(tenant.clone());
        }
    }

    fn remove_if_idle(&mut self, tenant: &Tenant) {
        if let Some(share) = self.tenants.get(tenant)
            && share.used == 0
            && share.queue.is_empty()
        {
            self.tenants.remove(tenant);
        }
    }
}
