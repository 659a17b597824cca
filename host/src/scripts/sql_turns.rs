//! Whose SQL runs at the same time: a script can ask for seconds of work in one statement, and there are few connections
//! for that. Each API client has its own small part of them, so that one can't keep the others from theirs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::limits;

/// Clients remembered before those without a statement are dropped.
const SWEEP_AT: usize = 256;

/// The turns of all clients; runs without a client (events, jobs) share one part.
#[derive(Debug, Default)]
pub(super) struct SqlTurns(Mutex<HashMap<Option<Arc<str>>, Weak<Semaphore>>>);

impl SqlTurns {
    /// A turn for one statement, held until it is dropped. `None` when the client's statements before it take too long.
    pub(super) async fn take(&self, client: Option<Arc<str>>) -> Option<OwnedSemaphorePermit> {
        let turns = self.of(client);
        tokio::time::timeout(limits::SQL_WAIT, turns.acquire_owned()).await.ok()?.ok()
    }

    fn of(&self, client: Option<Arc<str>>) -> Arc<Semaphore> {
        // A map of counters is whole after every step.
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turns) = all.get(&client).and_then(Weak::upgrade) {
            return turns;
        }
        if all.len() >= SWEEP_AT {
            all.retain(|_, turns| turns.strong_count() > 0);
        }
        let turns = Arc::new(Semaphore::new(limits::SQL_AT_ONCE));
        all.insert(client, Arc::downgrade(&turns));
        turns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_client_can_not_take_anothers_turns() {
        let turns = SqlTurns::default();
        let (greedy, other): (Arc<str>, Arc<str>) = ("greedy".into(), "other".into());
        let mut held = Vec::new();
        for _ in 0..limits::SQL_AT_ONCE {
            held.push(turns.take(Some(Arc::clone(&greedy))).await.unwrap());
        }
        assert!(turns.take(Some(Arc::clone(&greedy))).await.is_none());
        assert!(turns.take(Some(other)).await.is_some());
        assert!(turns.take(None).await.is_some());
        held.pop();
        assert!(turns.take(Some(greedy)).await.is_some());
    }

    #[tokio::test]
    async fn forgets_clients_that_have_nothing_to_wait_for() {
        let turns = SqlTurns::default();
        for n in 0..3 * SWEEP_AT {
            drop(turns.take(Some(n.to_string().into())).await.unwrap());
        }
        assert!(turns.0.lock().unwrap().len() <= SWEEP_AT);
    }
}
