//! A pool of places that tenants share fairly.
//!
//! A tenant holds at most its cap. Whoever finds no place waits in its tenant's own queue, and a place that comes free
//! goes to the tenants in turn, however many of one tenant's calls wait. So a tenant that takes all it may delays
//! another tenant by at most one turn.

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
    /// Calls that may wait, of all tenants together.
    pub waiting: usize,
    /// Calls of one tenant that may wait.
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
    queue: VecDeque<(u64, oneshot::Sender<()>)>,
    in_turn: bool,
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
        let (id, turn) = match self.0.take_or_wait(tenant) {
            Ok(Taken::Now) => return Ok(self.place(tenant)),
            Ok(Taken::Later(id, turn)) => (id, turn),
            Err(full) => return Err(self.0.refuse(full)),
        };
        // Gives the place in the queue back, or the place itself, when the caller goes away or the time is over.
        let waiter = Waiter { shared: &self.0, tenant, id, done: false };
        match tokio::time::timeout(patience.min(self.0.bounds.patience), turn).await {
            Ok(Ok(())) => {
                waiter.done();
                Ok(self.place(tenant))
            }
            _ => {
                drop(waiter);
                Err(self.0.refuse(Full::Patience))
            }
        }
    }

    /// A place if there is one at once.
    ///
    /// # Errors
    /// [`Full::Tenant`] when the tenant holds its share, [`Full::Pool`] when all places are held.
    pub fn try_enter(&self, tenant: &Tenant) -> Result<Place, Full> {
        let mut state = self.0.lock();
        if state.take(tenant, &self.0.bounds) {
            self.0.report(&state);
            drop(state);
            return Ok(self.place(tenant));
        }
        let full = if state.used < self.0.bounds.places { Full::Tenant } else { Full::Pool };
        drop(state);
        Err(self.0.refuse(full))
    }

    fn place(&self, tenant: &Tenant) -> Place {
        Place { pool: Arc::clone(&self.0), tenant: tenant.clone() }
    }
}

impl fmt::Debug for FairPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FairPool").field("name", &self.0.name).field("bounds", &self.0.bounds).finish()
    }
}

/// A place in a pool; dropping it gives it back.
#[must_use = "the place is given back when this is dropped"]
pub struct Place {
    pool: Arc<Shared>,
    tenant: Tenant,
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("pool", &self.pool.name).field("tenant", &self.tenant).finish()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.pool.lock();
        state.give_back(&self.tenant, &self.pool.bounds);
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
        if !state.leave(self.tenant, self.id) {
            // It is no longer in the queue, so it was given a place that it never came to use.
            state.give_back(self.tenant, &self.shared.bounds);
        }
        self.shared.report(&state);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Counters and queues are whole after every step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_or_wait(&self, tenant: &Tenant) -> Result<Taken, Full> {
        let mut state = self.lock();
        let taken = if state.take(tenant, &self.bounds) {
            Taken::Now
        } else {
            let (id, turn) = state.wait(tenant, &self.bounds)?;
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
    /// Takes a place if there is one. Tenants that wait come first: they would have one already if one were free for
    /// them.
    fn take(&mut self, tenant: &Tenant, bounds: &Bounds) -> bool {
        if self.used >= bounds.places {
            return false;
        }
        let held = self.tenants.get(tenant).map_or(0, |share| share.held);
        if held >= bounds.per_tenant {
            return false;
        }
        self.used += 1;
        self.tenants.entry(tenant.clone()).or_default().held += 1;
        true
    }

    fn wait(&mut self, tenant: &Tenant, bounds: &Bounds) -> Result<(u64, oneshot::Receiver<()>), Full> {
        if self.waiting >= bounds.waiting {
            return Err(Full::Pool);
        }
        let share = self.tenants.entry(tenant.clone()).or_default();
        if share.queue.len() >= bounds.waiting_per_tenant {
            let full = if share.held >= bounds.per_tenant { Full::Tenant } else { Full::Pool };
            self.forget_if_idle(tenant);
            return Err(full);
        }
        let (sender, receiver) = oneshot::channel();
        self.last_id += 1;
        share.queue.push_back((self.last_id, sender));
        self.waiting += 1;
        self.line_up(tenant, bounds);
        Ok((self.last_id, receiver))
    }

    /// Whether the waiter was still in the queue.
    fn leave(&mut self, tenant: &Tenant, id: u64) -> bool {
        let Some(share) = self.tenants.get_mut(tenant) else { return false };
        let Some(at) = share.queue.iter().position(|(waiter, _)| *waiter == id) else { return false };
        share.queue.remove(at);
        if share.queue.is_empty() && std::mem::take(&mut share.in_turn) {
            self.turns.retain(|other| other != tenant);
        }
        self.waiting -= 1;
        self.forget_if_idle(tenant);
        true
    }

    fn give_back(&mut self, tenant: &Tenant, bounds: &Bounds) {
        self.used -= 1;
        if let Some(share) = self.tenants.get_mut(tenant) {
            share.held -= 1;
        }
        self.line_up(tenant, bounds);
        self.forget_if_idle(tenant);
        self.hand_out(bounds);
    }

    /// Gives free places to the tenants in turn.
    fn hand_out(&mut self, bounds: &Bounds) {
        while self.used < bounds.places {
            let Some(tenant) = self.turns.pop_front() else { return };
            let Some(share) = self.tenants.get_mut(&tenant) else { continue };
            share.in_turn = false;
            let Some((_, turn)) = share.queue.pop_front() else { continue };
            share.held += 1;
            self.used += 1;
            self.waiting -= 1;
            // A waiter that is gone gives the place back as soon as it has the lock.
            let _ = turn.send(());
            self.line_up(&tenant, bounds);
        }
    }

    /// Puts a tenant behind the others that wait, if it has something to wait for.
    fn line_up(&mut self, tenant: &Tenant, bounds: &Bounds) {
        let Some(share) = self.tenants.get_mut(tenant) else { return };
        if !share.in_turn && !share.queue.is_empty() && share.held < bounds.per_tenant {
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

    proptest! {
        /// Whatever comes and goes, no bound is exceeded, no place is lost and nobody waits beside a free place.
        #[test]
        fn random_histories_keep_the_bounds(steps in proptest::collection::vec((0_u8..4, 0_u8..3, 0_usize..8), 1..200)) {
            let bounds = Bounds { places: 3, per_tenant: 2, waiting: 5, waiting_per_tenant: 3, patience: Duration::MAX };
            let pool = FairPool::new("test", bounds);
            let (mut held, mut waiting) = (Vec::new(), Vec::new());
            for (what, who, which) in steps {
                let tenant = tenant(&who.to_string());
                match what {
                    0 | 1 => match pool.0.take_or_wait(&tenant) {
                        Ok(Taken::Now) => held.push(pool.place(&tenant)),
                        Ok(Taken::Later(id, turn)) => waiting.push((tenant, id, turn)),
                        Err(_) => {}
                    },
                    2 if !held.is_empty() => drop(held.swap_remove(which % held.len())),
                    3 if !waiting.is_empty() => {
                        let (tenant, id, _turn) = waiting.swap_remove(which % waiting.len());
                        drop(Waiter { shared: &pool.0, tenant: &tenant, id, done: false });
                    }
                    _ => {}
                }
                waiting.retain_mut(|(tenant, _, turn)| {
                    let came = turn.try_recv().is_ok();
                    if came {
                        held.push(pool.place(tenant));
                    }
                    !came
                });
                let state = pool.0.lock();
                prop_assert_eq!(state.used, held.len());
                prop_assert_eq!(state.waiting, waiting.len());
                prop_assert!(state.used <= bounds.places && state.waiting <= bounds.waiting);
                prop_assert!(state.turns.len() <= state.tenants.len());
                for share in state.tenants.values() {
                    prop_assert!(share.held <= bounds.per_tenant);
                    let could_go_on = state.used < bounds.places && share.held < bounds.per_tenant;
                    prop_assert!(share.queue.is_empty() || !could_go_on);
                    prop_assert!(!share.in_turn || !share.queue.is_empty());
                }
            }
            drop(held);
            for (tenant, id, _turn) in waiting {
                drop(Waiter { shared: &pool.0, tenant: &tenant, id, done: false });
            }
            prop_assert!(pool.0.lock().tenants.is_empty());
        }
    }
}
