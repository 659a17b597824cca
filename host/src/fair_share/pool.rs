//! A pool of places that tenants share fairly.
//!
//! A tenant holds at most its cap. Whoever finds no place waits in its tenant's own queue, and a place that comes free
//! goes to the tenants in turn, however many of one tenant's calls wait. So a tenant that takes all it may delays
//! another tenant by at most one turn.
//!
//! A call may take several places at once, as an answer takes its bytes. One that needs more than are free keeps its turn
//! until there are enough, so that smaller calls don't overtake it for ever.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metrics::{Counter, Gauge};
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

#[derive(Default)]
struct State {
    used: usize,
    waiting: usize,
    /// Tenants that hold a place or wait for one; no others, so that this stays small.
    tenants: HashMap<Tenant, Share>,
    /// Tenants with a call that waits and a place to spare, in the order of their turns.
    turns: VecDeque<Tenant>,
    last_id: u64,
}

#[derive(Default)]
struct Share {
    held: usize,
    queue: VecDeque<Waiting>,
    /// Places that the queue waits for.
    queued: usize,
    in_turn: bool,
}

struct Waiting {
    id: u64,
    places: usize,
    turn: oneshot::Sender<()>,
}

impl Share {
    /// Whether the first in the queue waits for other tenants alone.
    fn could_go_on(&self, bounds: &Bounds) -> bool {
        self.queue.front().is_some_and(|first| self.held + first.places <= bounds.per_tenant)
    }
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

impl State {
    /// Whether these places are free. Calls that wait for room come first, and those of the same tenant too.
    fn has_room(&self, tenant: &Tenant, places: usize, bounds: &Bounds) -> bool {
        let share = self.tenants.get(tenant);
        self.turns.is_empty()
            && self.used + places <= bounds.places
            && share.is_none_or(|share| share.queue.is_empty() && share.held + places <= bounds.per_tenant)
            && places <= bounds.per_tenant
    }

    fn take(&mut self, tenant: &Tenant, places: usize, bounds: &Bounds) -> bool {
        let taken = self.has_room(tenant, places, bounds);
        if taken {
            self.used += places;
            self.tenants.entry(tenant.clone()).or_default().held += places;
        }
        taken
    }

    fn wait(
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
    fn leave(&mut self, tenant: &Tenant, id: u64, bounds: &Bounds) -> bool {
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

    fn give_back(&mut self, tenant: &Tenant, places: usize, bounds: &Bounds) {
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex as StdMutex;

    use proptest::prelude::*;

    use super::*;

    const BOUNDS: Bounds = Bounds {
        places: 2,
        per_tenant: 2,
        waiting: 8,
        waiting_per_tenant: 6,
        patience: Duration::from_secs(5),
    };

    fn tenant(name: &str) -> Tenant {
        Tenant::client(name)
    }

    #[tokio::test(start_paused = true)]
    async fn a_tenant_waits_one_turn_however_much_another_asks_for() {
        let pool = FairPool::new("test", BOUNDS);
        let order = StdMutex::new(String::new());
        let call = async |name: &str| {
            let place = pool.enter(&tenant(name)).await.unwrap();
            order.lock().unwrap().push_str(name);
            tokio::time::sleep(Duration::from_millis(10)).await;
            drop(place);
        };
        tokio::join!(
            biased;
            call("a"), call("a"), call("a"), call("a"), call("a"), call("a"),
            call("b"), call("b"),
        );
        // Both places are a's at first. Of the next four, two are b's.
        assert_eq!(order.into_inner().unwrap(), "aaabbaaa");
        assert!(pool.0.lock().tenants.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn one_tenant_leaves_places_to_others() {
        let pool = FairPool::new("test", Bounds { per_tenant: 1, ..BOUNDS });
        let held = pool.enter(&tenant("a")).await.unwrap();
        assert_eq!(pool.try_enter(&tenant("a")).unwrap_err(), Full::Tenant);
        let other = pool.try_enter(&tenant("b")).unwrap();
        assert_eq!(pool.try_enter(&tenant("c")).unwrap_err(), Full::Pool);
        drop((held, other));
        assert!(pool.try_enter(&tenant("a")).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_is_bounded_in_number_and_time() {
        let pool = FairPool::new(
            "test",
            Bounds { places: 1, per_tenant: 1, waiting: 2, waiting_per_tenant: 1, ..BOUNDS },
        );
        let held = pool.enter(&tenant("a")).await.unwrap();
        let (a, b) = (tenant("a"), tenant("b"));
        let (first, second, third, c) = tokio::join!(
            biased;
            pool.enter(&a),
            pool.enter(&a),
            pool.enter(&b),
            async { pool.enter(&tenant("c")).await },
        );
        assert_eq!(first.unwrap_err(), Full::Patience);
        assert_eq!(second.unwrap_err(), Full::Tenant);
        assert_eq!(third.unwrap_err(), Full::Patience);
        assert_eq!(c.unwrap_err(), Full::Pool);
        assert_eq!(pool.0.lock().waiting, 0);
        drop(held);
        assert!(pool.0.lock().tenants.is_empty());
    }

    #[tokio::test]
    async fn a_caller_that_goes_away_takes_nothing_along() {
        let pool = FairPool::new("test", Bounds { places: 1, ..BOUNDS });
        let (a, b) = (tenant("a"), tenant("b"));
        let held = pool.enter(&a).await.unwrap();
        let mut waiting = Box::pin(pool.enter(&b));
        assert!(futures_util::poll!(&mut waiting).is_pending());
        // Its turn has come, and it has not noticed.
        drop(held);
        assert_eq!(pool.0.lock().used, 1);
        drop(waiting);
        assert_eq!(pool.0.lock().used, 0);
        assert!(pool.try_enter(&a).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn small_calls_do_not_overtake_a_large_one_for_ever() {
        let bounds = Bounds { places: 4, per_tenant: 4, waiting: 16, waiting_per_tenant: 16, ..BOUNDS };
        let pool = FairPool::new("test", bounds);
        let (a, b) = (tenant("a"), tenant("b"));
        let mut held = pool.enter_many(&a, 3).await.unwrap();
        let mut large = Box::pin(pool.enter_many(&b, 3));
        assert!(futures_util::poll!(&mut large).is_pending());
        // One place is free, and it is kept for the one that waits.
        assert!(pool.is_full_for(&a));
        assert_eq!(pool.try_enter(&a).unwrap_err(), Full::Pool);
        held.shrink_to(1);
        let large = large.await.unwrap();
        assert_eq!(pool.0.lock().used, 4);
        // More than a share is all of it.
        let mut all = Box::pin(pool.enter_many(&a, 100));
        assert!(futures_util::poll!(&mut all).is_pending());
        drop((held, large));
        let all = all.await.unwrap();
        assert_eq!((pool.0.lock().used, all.places), (4, 4));
        drop(all);
        assert!(pool.0.lock().tenants.is_empty());
    }

    #[tokio::test]
    async fn a_large_call_that_goes_away_lets_the_others_go_on() {
        let pool = FairPool::new(
            "test",
            Bounds { places: 4, per_tenant: 4, waiting: 16, waiting_per_tenant: 16, ..BOUNDS },
        );
        let (a, b, c) = (tenant("a"), tenant("b"), tenant("c"));
        let _held = pool.enter_many(&a, 2).await.unwrap();
        let mut large = Box::pin(pool.enter_many(&b, 4));
        assert!(futures_util::poll!(&mut large).is_pending());
        let mut small = Box::pin(pool.enter(&c));
        assert!(futures_util::poll!(&mut small).is_pending());
        drop(large);
        assert!(futures_util::poll!(&mut small).is_ready());
    }

    proptest! {
        /// Whatever comes and goes, no bound is exceeded, no place is lost and nobody waits beside a free place.
        #[test]
        fn random_histories_keep_the_bounds(steps in proptest::collection::vec((0_u8..5, 0_u8..3, 0_usize..8), 1..200)) {
            let bounds = Bounds { places: 5, per_tenant: 3, waiting: 8, waiting_per_tenant: 5, patience: Duration::MAX };
            let pool = FairPool::new("test", bounds);
            let (mut held, mut waiting) = (Vec::new(), Vec::new());
            for (what, who, which) in steps {
                let tenant = tenant(&who.to_string());
                match what {
                    0 | 1 => {
                        let places = which % 3 + 1;
                        match pool.0.take_or_wait(&tenant, places) {
                            Ok(Taken::Now) => held.push(pool.place(&tenant, places)),
                            Ok(Taken::Later(id, turn)) => waiting.push((tenant, places, id, turn)),
                            Err(_) => {}
                        }
                    }
                    2 if !held.is_empty() => drop(held.swap_remove(which % held.len())),
                    3 if !waiting.is_empty() => {
                        let (tenant, places, id, _turn) = waiting.swap_remove(which % waiting.len());
                        drop(Waiter { shared: &pool.0, tenant: &tenant, places, id, done: false });
                    }
                    4 if !held.is_empty() => {
                        let at = which % held.len();
                        held[at].shrink_to(1);
                    }
                    _ => {}
                }
                waiting.retain_mut(|(tenant, places, _, turn)| {
                    let came = turn.try_recv().is_ok();
                    if came {
                        held.push(pool.place(tenant, *places));
                    }
                    !came
                });
                let state = pool.0.lock();
                prop_assert_eq!(state.used, held.iter().map(|place| place.places).sum::<usize>());
                prop_assert_eq!(state.waiting, waiting.iter().map(|(_, places, ..)| places).sum::<usize>());
                prop_assert!(state.used <= bounds.places && state.waiting <= bounds.waiting);
                prop_assert!(state.turns.len() <= state.tenants.len());
                // Whose turn it is waits for more places than are free; the others wait for their own.
                if let Some(first) = state.turns.front() {
                    let first = state.tenants[first].queue.front().map_or(0, |waiting| waiting.places);
                    prop_assert!(first > 0 && state.used + first > bounds.places);
                }
                for share in state.tenants.values() {
                    prop_assert!(share.held <= bounds.per_tenant);
                    prop_assert_eq!(share.in_turn, share.could_go_on(&bounds));
                    let queued: usize = share.queue.iter().map(|waiting| waiting.places).sum();
                    prop_assert_eq!(share.queued, queued);
                    prop_assert!(queued <= bounds.waiting_per_tenant);
                }
            }
            drop(held);
            for (tenant, places, id, _turn) in waiting {
                drop(Waiter { shared: &pool.0, tenant: &tenant, places, id, done: false });
            }
            prop_assert!(pool.0.lock().tenants.is_empty());
        }
    }
}
