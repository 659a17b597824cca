//! A pool of places that tenants share fairly.
//!
//! A tenant holds at most its cap. Whoever finds no place waits in its tenant's own queue, and a place that comes free
//! goes to the tenants in turn, however many of one tenant's calls wait. So a tenant that takes all it may delays
//! another tenant by at most one turn.
//!
//! A call may take several places at once, as an answer takes its bytes. One that needs more than are free keeps its turn
//! until there are enough, so that smaller calls don't overtake it for ever.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metrics::{Counter, Gauge};
use tokio::sync::oneshot;

use super::Tenant;
use super::state::{Bounds, Full, State};

/// Cheap to clone.
#[derive(Clone)]
pub struct FairPool(Arc<Shared>);

struct Shared {
    name: &'static str,
    bounds: Bounds,
    state: Mutex<State>,
    used: Gauge,
    waiting: Gauge,
    refused: [Counter; 3],
}

impl FairPool {
    /// `name` is its label in the metrics `belvedere_fair_share_*`.
    pub fn new(name: &'static str, bounds: Bounds) -> Self {
        let refused = ["tenant", "pool", "patience"]
            .map(|why| metrics::counter!("belvedere_fair_share_refused_total", "pool" => name, "why" => why));
        Self(Arc::new(Shared {
            name,
            bounds,
            state: Mutex::default(),
            used: metrics::gauge!("belvedere_fair_share_used", "pool" => name),
            waiting: metrics::gauge!("belvedere_fair_share_waiting", "pool" => name),
            refused,
        }))
    }

    /// The bounds that the pool was made with.
    pub fn bounds(&self) -> Bounds {
        self.0.bounds
    }

    /// A place for `tenant`, held until it is dropped. Waits for one within the pool's bounds.
    ///
    /// # Errors
    /// [`Full`].
    pub async fn enter(&self, tenant: &Tenant) -> Result<Place, Full> {
        self.enter_within(tenant, self.0.bounds.patience).await
    }

    /// As [`Self::enter`], for a caller who has less patience than the pool.
    ///
    /// # Errors
    /// [`Full`].
    pub async fn enter_within(&self, tenant: &Tenant, patience: Duration) -> Result<Place, Full> {
        self.enter_with(tenant, 1, patience).await
    }

    /// As [`Self::enter`], for a call that takes several places at once. One that is larger than a tenant's share takes
    /// all of the share.
    ///
    /// # Errors
    /// [`Full`].
    pub async fn enter_many(&self, tenant: &Tenant, places: usize) -> Result<Place, Full> {
        self.enter_with(tenant, places, self.0.bounds.patience).await
    }

    async fn enter_with(&self, tenant: &Tenant, places: usize, patience: Duration) -> Result<Place, Full> {
        let places = places.clamp(1, self.0.bounds.per_tenant.min(self.0.bounds.places));
        let (id, turn) = match self.0.take_or_wait(tenant, places) {
            Ok(Taken::Now) => return Ok(self.place(tenant, places)),
            Ok(Taken::Later(id, turn)) => (id, turn),
            Err(full) => return Err(self.0.refuse(full)),
        };
        // Gives the place in the queue back, or the place itself, when the caller goes away or the time is over.
        let waiter = Waiter { shared: &self.0, tenant, places, id, done: false };
        if let Ok(Ok(())) = tokio::time::timeout(patience.min(self.0.bounds.patience), turn).await {
            waiter.done();
            return Ok(self.place(tenant, places));
        }
        drop(waiter);
        Err(self.0.refuse(Full::Patience))
    }

    /// A place if there is one at once.
    ///
    /// # Errors
    /// [`Full::Tenant`] when the tenant holds its share, [`Full::Pool`] when all places are held.
    pub fn try_enter(&self, tenant: &Tenant) -> Result<Place, Full> {
        let mut state = self.0.lock();
        if state.take(tenant, 1, &self.0.bounds) {
            self.0.report(&state);
            drop(state);
            return Ok(self.place(tenant, 1));
        }
        let held = state.tenants.get(tenant).map_or(0, |share| share.held);
        let at_its_share = held >= self.0.bounds.per_tenant && state.used < self.0.bounds.places;
        let full = if at_its_share { Full::Tenant } else { Full::Pool };
        drop(state);
        Err(self.0.refuse(full))
    }

    /// Places that are held now.
    pub fn used(&self) -> usize {
        self.0.lock().used
    }

    /// Whether a call of another tenant than this one waits for a place that it may have.
    pub fn others_wait(&self, tenant: &Tenant) -> bool {
        self.0.lock().turns.iter().any(|other| other != tenant)
    }

    /// Whether `tenant` would have to wait for a place: it holds its share, or others wait already.
    pub fn is_full_for(&self, tenant: &Tenant) -> bool {
        !self.0.lock().has_room(tenant, 1, &self.0.bounds)
    }

    fn place(&self, tenant: &Tenant, places: usize) -> Place {
        Place { pool: Arc::clone(&self.0), tenant: tenant.clone(), places }
    }
}

impl fmt::Debug for FairPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FairPool").field("name", &self.0.name).field("bounds", &self.0.bounds).finish()
    }
}

/// A place in a pool, or several; dropping it gives them back.
#[must_use = "the place is given back when this is dropped"]
pub struct Place {
    pool: Arc<Shared>,
    tenant: Tenant,
    places: usize,
}

impl Place {
    /// Gives back all but `places` of its places, and keeps at least one.
    pub fn shrink_to(&mut self, places: usize) {
        let spare = self.places.saturating_sub(places.max(1));
        if spare > 0 {
            self.places -= spare;
            let mut state = self.pool.lock();
            state.give_back(&self.tenant, spare, &self.pool.bounds);
            self.pool.report(&state);
        }
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place")
            .field("pool", &self.pool.name)
            .field("tenant", &self.tenant)
            .field("places", &self.places)
            .finish()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.pool.lock();
        state.give_back(&self.tenant, self.places, &self.pool.bounds);
        self.pool.report(&state);
    }
}

enum Taken {
    Now,
    Later(u64, oneshot::Receiver<()>),
}

struct Waiter<'a> {
    shared: &'a Shared,
    tenant: &'a Tenant,
    places: usize,
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
        if !state.leave(self.tenant, self.id, &self.shared.bounds) {
            // It is no longer in the queue, so it was given a place that it never came to use.
            state.give_back(self.tenant, self.places, &self.shared.bounds);
        }
        self.shared.report(&state);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Counters and queues are whole after every step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_or_wait(&self, tenant: &Tenant, places: usize) -> Result<Taken, Full> {
        let mut state = self.lock();
        let taken = if state.take(tenant, places, &self.bounds) {
            Taken::Now
        } else {
            let (id, turn) = state.wait(tenant, places, &self.bounds)?;
            Taken::Later(id, turn)
        };
        self.report(&state);
        Ok(taken)
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
