//! The books of a pool: who holds how many places, who waits, and whose turn it is. Nothing here waits or locks.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::sync::oneshot;

use super::Tenant;

/// The bounds of a pool. Each value needs a sentence of why where it is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Places in all.
    pub places: usize,
    /// Places that one tenant may hold.
    pub per_tenant: usize,
    /// Places that may be waited for, by all tenants together: calls, where each takes one place.
    pub waiting: usize,
    /// Places that one tenant may wait for.
    pub waiting_per_tenant: usize,
    /// The longest wait.
    pub patience: Duration,
}

/// Why a call got no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    /// The tenant holds its share, and as many of its calls wait as may.
    #[error("this caller has too many calls under way")]
    Tenant,
    /// As many calls wait as may, of all tenants together.
    #[error("the server is busy")]
    Pool,
    /// No place came free in time.
    #[error("no place came free in time")]
    Patience,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) used: usize,
    pub(super) waiting: usize,
    /// Tenants that hold a place or wait for one; no others, so that this stays small.
    pub(super) tenants: HashMap<Tenant, Share>,
    /// Tenants with a call that waits and a place to spare, in the order of their turns.
    pub(super) turns: VecDeque<Tenant>,
    last_id: u64,
}

#[derive(Default)]
pub(super) struct Share {
    pub(super) held: usize,
    pub(super) queue: VecDeque<Waiting>,
    /// Places that the queue waits for.
    pub(super) queued: usize,
    pub(super) in_turn: bool,
}

pub(super) struct Waiting {
    id: u64,
    pub(super) places: usize,
    turn: oneshot::Sender<()>,
}

impl Share {
    /// Whether the first in the queue waits for other tenants alone.
    pub(super) fn could_go_on(&self, bounds: &Bounds) -> bool {
        self.queue.front().is_some_and(|first| self.held + first.places <= bounds.per_tenant)
    }
}

impl State {
    /// Whether these places are free. Calls that wait for room come first, and those of the same tenant too.
    pub(super) fn has_room(&self, tenant: &Tenant, places: usize, bounds: &Bounds) -> bool {
        let share = self.tenants.get(tenant);
        self.turns.is_empty()
            && self.used + places <= bounds.places
            && share.is_none_or(|share| share.queue.is_empty() && share.held + places <= bounds.per_tenant)
            && places <= bounds.per_tenant
    }

    pub(super) fn take(&mut self, tenant: &Tenant, places: usize, bounds: &Bounds) -> bool {
        let taken = self.has_room(tenant, places, bounds);
        if taken {
            self.used += places;
            self.tenants.entry(tenant.clone()).or_default().held += places;
        }
        taken
    }

    pub(super) fn wait(
        &mut self,
        tenant: &Tenant,
        places: usize,
        bounds: &Bounds,
    ) -> Result<(u64, oneshot::Receiver<()>), Full> {
        if self.waiting + places > bounds.waiting {
            return Err(Full::Pool);
        }
        let share = self.tenants.entry(tenant.clone()).or_default();
        if share.queued + places > bounds.waiting_per_tenant {
            let full = if share.held + places > bounds.per_tenant { Full::Tenant } else { Full::Pool };
            self.forget_if_idle(tenant);
            return Err(full);
        }
        let (turn, receiver) = oneshot::channel();
        self.last_id += 1;
        share.queue.push_back(Waiting { id: self.last_id, places, turn });
        share.queued += places;
        self.waiting += places;
        self.line_up(tenant, bounds);
        Ok((self.last_id, receiver))
    }

    /// Whether the waiter was still in the queue.
    pub(super) fn leave(&mut self, tenant: &Tenant, id: u64, bounds: &Bounds) -> bool {
        let Some(share) = self.tenants.get_mut(tenant) else { return false };
        let Some(at) = share.queue.iter().position(|waiting| waiting.id == id) else { return false };
        let places = share.queue.remove(at).map_or(0, |waiting| waiting.places);
        share.queued -= places;
        self.waiting -= places;
        // The next in the queue may need more than the tenant's share has left.
        if share.in_turn && !share.could_go_on(bounds) {
            share.in_turn = false;
            self.turns.retain(|other| other != tenant);
        }
        self.line_up(tenant, bounds);
        self.forget_if_idle(tenant);
        self.hand_out(bounds);
        true
    }

    pub(super) fn give_back(&mut self, tenant: &Tenant, places: usize, bounds: &Bounds) {
        self.used -= places;
        if let Some(share) = self.tenants.get_mut(tenant) {
            share.held -= places;
        }
        self.line_up(tenant, bounds);
        self.forget_if_idle(tenant);
        self.hand_out(bounds);
    }

    /// Gives free places to the tenants in turn.
    fn hand_out(&mut self, bounds: &Bounds) {
        while let Some(tenant) = self.turns.front().cloned() {
            let Some(share) = self.tenants.get_mut(&tenant) else {
                self.turns.pop_front();
                continue;
            };
            if share.queue.front().is_some_and(|first| self.used + first.places > bounds.places) {
                return;
            }
            self.turns.pop_front();
            share.in_turn = false;
            let Some(Waiting { places, turn, .. }) = share.queue.pop_front() else { continue };
            share.queued -= places;
            share.held += places;
            self.used += places;
            self.waiting -= places;
            // A waiter that is gone gives the place back as soon as it has the lock.
            let _ = turn.send(());
            self.line_up(&tenant, bounds);
        }
    }

    /// Puts a tenant behind the others that wait, if it waits for nothing but them.
    fn line_up(&mut self, tenant: &Tenant, bounds: &Bounds) {
        let Some(share) = self.tenants.get_mut(tenant) else { return };
        if !share.in_turn && share.could_go_on(bounds) {
            share.in_turn = true;
            self.turns.push_back(tenant.clone());
        }
    }

    fn forget_if_idle(&mut self, tenant: &Tenant) {
        if let Some(share) = self.tenants.get(tenant)
            && share.held == 0
            && share.queue.is_empty()
        {
            self.tenants.remove(tenant);
        }
    }
}
