//! The state of a pool: the permits that each tenant uses, the waiting calls, and the round robin of tenants. Nothing
//! here waits or locks.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

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

    /// A tenant may use half of the permits. Calls wait for as long as it takes: for callers whose number is limited elsewhere.
    pub fn without_refusals(permits: usize) -> Self {
        Self::half_per_tenant(permits, usize::MAX, Duration::MAX)
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
    visits: Visits,
}

/// The latest visits of two different tenants.
#[derive(Default)]
struct Visits {
    last: Option<(Tenant, Instant)>,
    other: Option<(Tenant, Instant)>,
}

/// A tenant whose latest visit was longer ago needs nothing.
const VISIT: Duration = Duration::from_secs(1);

impl Visits {
    fn add(&mut self, tenant: &Tenant, now: Instant) {
        match &mut self.last {
            Some((last, at)) if *last == *tenant => *at = now,
            last => self.other = last.replace((tenant.clone(), now)),
        }
    }

    /// The time of the latest visit of another tenant.
    fn of_other(&self, tenant: &Tenant) -> Option<Instant> {
        let mut latest = [&self.last, &self.other].into_iter().flatten();
        latest.find(|(other, _)| other != tenant).map(|(_, at)| *at)
    }

    /// Whether another tenant was here recently.
    fn has_other(&self, tenant: &Tenant) -> bool {
        self.of_other(tenant).is_some_and(|at| at.elapsed() < VISIT)
    }
}

#[derive(Default)]
pub(super) struct Share {
    pub(super) used: usize,
    pub(super) queue: VecDeque<Waiting>,
    /// Permits for which the queue waits.
    pub(super) queued: usize,
    pub(super) in_round_robin: bool,
    /// The calls that can be recalled, the latest last.
    pub(super) recallable: Vec<Recall>,
}

pub(super) struct Waiting {
    id: u64,
    pub(super) permits: usize,
    granted: oneshot::Sender<()>,
    recall: Option<Recall>,
}

/// Cancelled when a call has to give its permits back.
pub(super) type Recall = Arc<CancellationToken>;

/// A call that asks for permits.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) permits: usize,
    /// A call without one never uses more than its tenant's share.
    pub(super) recall: Option<Recall>,
}

impl Wanted {
    pub(super) fn permits(permits: usize) -> Self {
        Self { permits, recall: None }
    }

    /// The permits that the call's tenant may use together with it.
    fn limit(&self, is_alone: bool, bounds: &Bounds) -> usize {
        limit(self.recall.is_some(), is_alone, bounds)
    }
}

/// The permits that a tenant may use. One that is alone may use those that others don't need, if it gives them back.
fn limit(is_recallable: bool, is_alone: bool, bounds: &Bounds) -> usize {
    if is_recallable && is_alone { bounds.permits } else { bounds.per_tenant }
}

impl Share {
    /// Whether the first call in the queue fits the tenant's share, so that it waits only for other tenants.
    pub(super) fn fits_share(&self, is_alone: bool, bounds: &Bounds) -> bool {
        let fits =
            |first: &Waiting| self.used + first.permits <= limit(first.recall.is_some(), is_alone, bounds);
        self.queue.front().is_some_and(fits)
    }

    /// Recalls the latest calls of a tenant that uses more than its share. They have the least to do again.
    fn recall_surplus(&mut self, bounds: &Bounds) {
        let surplus = self.used.saturating_sub(bounds.per_tenant);
        for recall in self.recallable.iter().rev().take(surplus) {
            recall.cancel();
        }
    }
}

impl State {
    /// Whether no other tenant uses a permit, waits for one, or was here recently.
    fn is_alone(&self, tenant: &Tenant) -> bool {
        self.tenants.len() == usize::from(self.tenants.contains_key(tenant)) && !self.visits.has_other(tenant)
    }

    /// Records that a tenant uses what the permits of this pool stand for without one. Others go back to their share.
    pub(super) fn visit(&mut self, tenant: &Tenant, now: Instant, bounds: &Bounds) {
        self.visits.add(tenant, now);
        self.recall_surplus_of_others(tenant, bounds);
        self.others_changed(bounds);
    }

    /// The time at which the latest visit of another tenant is over. One that begins now is over a visit later.
    pub(super) fn visit_ends(&self, tenant: &Tenant) -> Instant {
        let latest = self.visits.of_other(tenant).filter(|at| at.elapsed() < VISIT);
        latest.unwrap_or_else(Instant::now) + VISIT
    }

    /// Considers again whether the first waiting call of a tenant fits, after a visit of another tenant was over.
    pub(super) fn look_again(&mut self, tenant: &Tenant, bounds: &Bounds) {
        self.join_round_robin(tenant, bounds);
        self.grant_waiting(bounds);
    }

    fn recall_surplus_of_others(&mut self, tenant: &Tenant, bounds: &Bounds) {
        for (_, share) in self.tenants.iter_mut().filter(|(other, _)| *other != tenant) {
            share.recall_surplus(bounds);
        }
    }

    /// Whether a call may take these permits at once. Calls in the round robin and waiting calls of the same tenant come
    /// first.
    pub(super) fn has_capacity(&self, tenant: &Tenant, wanted: &Wanted, bounds: &Bounds) -> bool {
        let (share, limit) = (self.tenants.get(tenant), wanted.limit(self.is_alone(tenant), bounds));
        self.round_robin.is_empty()
            && self.used + wanted.permits <= bounds.permits
            && share.is_none_or(|share| share.queue.is_empty() && share.used + wanted.permits <= limit)
            && wanted.permits <= limit
    }

    pub(super) fn take(&mut self, tenant: &Tenant, wanted: &Wanted, bounds: &Bounds) -> bool {
        let taken = self.has_capacity(tenant, wanted, bounds);
        if taken {
            self.used += wanted.permits;
            let is_new = !self.tenants.contains_key(tenant);
            let share = self.tenants.entry(tenant.clone()).or_default();
            share.used += wanted.permits;
            share.recallable.extend(wanted.recall.clone());
            if is_new {
                self.others_changed(bounds);
            }
        }
        taken
    }

    pub(super) fn enqueue(
        &mut self,
        tenant: &Tenant,
        wanted: Wanted,
        bounds: &Bounds,
    ) -> Result<(u64, oneshot::Receiver<()>), Full> {
        let Wanted { permits, recall } = wanted;
        if self.waiting + permits > bounds.waiting {
            return Err(Full::Pool);
        }
        let share = self.tenants.entry(tenant.clone()).or_default();
        if share.queued + permits > bounds.waiting_per_tenant {
            let full = if share.used + permits > bounds.per_tenant { Full::Tenant } else { Full::Pool };
            self.remove_if_idle(tenant, bounds);
            return Err(full);
        }
        let (granted, receiver) = oneshot::channel();
        self.last_id += 1;
        share.queue.push_back(Waiting { id: self.last_id, permits, granted, recall });
        share.queued += permits;
        self.waiting += permits;
        self.join_round_robin(tenant, bounds);
        self.others_changed(bounds);
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
        self.join_round_robin(tenant, bounds);
        self.remove_if_idle(tenant, bounds);
        self.grant_waiting(bounds);
        true
    }

    /// `recall`: that of a call which releases the last of its permits.
    pub(super) fn release(
        &mut self,
        tenant: &Tenant,
        permits: usize,
        recall: Option<&Recall>,
        bounds: &Bounds,
    ) {
        self.used -= permits;
        if let Some(share) = self.tenants.get_mut(tenant) {
            share.used -= permits;
            if let Some(recall) = recall {
                share.recallable.retain(|other| !Arc::ptr_eq(other, recall));
            }
        }
        self.join_round_robin(tenant, bounds);
        self.remove_if_idle(tenant, bounds);
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
            let Some(Waiting { permits, granted, recall, .. }) = share.queue.pop_front() else { continue };
            share.queued -= permits;
            share.used += permits;
            share.recallable.extend(recall);
            self.used += permits;
            self.waiting -= permits;
            // If the waiting call was dropped, its `Waiter` releases the permits.
            let _ = granted.send(());
            self.join_round_robin(&tenant, bounds);
        }
    }

    /// Appends a tenant to the round robin if its first waiting call fits its share, and removes it if it does not.
    fn join_round_robin(&mut self, tenant: &Tenant, bounds: &Bounds) {
        let is_alone = self.is_alone(tenant);
        let Some(share) = self.tenants.get_mut(tenant) else { return };
        let fits = share.fits_share(is_alone, bounds);
        match (std::mem::replace(&mut share.in_round_robin, fits), fits) {
            (false, true) => {
                self.round_robin.push_back(tenant.clone());
                // The call waits for other tenants, of which one may use what it took while it was alone.
                self.recall_surplus_of_others(tenant, bounds);
            }
            (true, false) => self.round_robin.retain(|other| other != tenant),
            _ => {}
        }
    }

    /// Considers again which calls fit, after a tenant has come or gone: one that is alone may use more.
    fn others_changed(&mut self, bounds: &Bounds) {
        if self.waiting > 0 && self.tenants.len() <= 2 {
            let tenants: Vec<_> = self.tenants.keys().cloned().collect();
            for tenant in &tenants {
                self.join_round_robin(tenant, bounds);
            }
        }
    }

    fn remove_if_idle(&mut self, tenant: &Tenant, bounds: &Bounds) {
        if let Some(share) = self.tenants.get(tenant)
            && share.used == 0
            && share.queue.is_empty()
        {
            self.tenants.remove(tenant);
            self.others_changed(bounds);
        }
    }
}
