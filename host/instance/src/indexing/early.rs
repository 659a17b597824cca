//! Early events: writes of this server whose record script ran before the stream delivered them.

use std::sync::Arc;
use std::time::Duration;

use moka::future::Cache;
use tokio::sync::{Mutex, OwnedMutexGuard};

use belvedere_storage::store::index::Change;

/// Time for which an early event is remembered. The stream usually delivers within a second; a relay that is down for
/// longer than this makes scripts run twice for its events.
const MEMORY: Duration = Duration::from_hours(1);

/// Early events that are remembered: about ten megabytes.
const MAX_EVENTS: u64 = 50_000;

/// The recent early events of this host. Another host that follows the stream does not know them and runs the script
/// again. Cheap to clone.
#[derive(Clone, Debug)]
pub struct EarlyEvents(Cache<String, Arc<Mutex<bool>>>);

impl Default for EarlyEvents {
    fn default() -> Self {
        Self(Cache::builder().max_capacity(MAX_EVENTS).time_to_live(MEMORY).build())
    }
}

/// An early event whose decision is not indexed yet. Until it is dropped, the stream waits with the same event.
#[derive(Debug)]
pub struct EarlyEvent(OwnedMutexGuard<bool>);

/// A script's decision on an early event.
#[derive(Debug)]
pub struct EarlyDecision {
    /// The change to index; `None`: nothing.
    pub change: Option<Change>,
    pub event: EarlyEvent,
}

impl EarlyEvents {
    /// Begins an early event.
    pub async fn begin(&self, change: &Change) -> EarlyEvent {
        let state = Arc::new(Mutex::new(false));
        let guard = Arc::clone(&state).lock_owned().await;
        self.0.insert(key(change), state).await;
        EarlyEvent(guard)
    }

    /// Whether the decision on this change is indexed already. Waits for a decision in progress.
    pub async fn is_indexed(&self, change: &Change) -> bool {
        match self.0.get(&key(change)).await {
            Some(state) => *state.lock().await,
            None => false,
        }
    }
}

impl EarlyEvent {
    /// The decision is indexed: the stream's event is ignored.
    pub fn finish(mut self) {
        *self.0 = true;
    }
}

fn key(change: &Change) -> String {
    format!("{} {}", change.uri, change.rev)
}

#[cfg(test)]
mod tests {
    use super::super::testing::delete;
    use super::*;

    #[tokio::test]
    async fn the_stream_waits_for_a_decision_and_ignores_a_finished_one() {
        let (events, change) = (EarlyEvents::default(), delete("alice", "k", 1));
        assert!(!events.is_indexed(&change).await);
        let early = events.begin(&change).await;
        let (waiting, other) = (events.clone(), change.clone());
        let waiting = tokio::spawn(async move { waiting.is_indexed(&other).await });
        early.finish();
        assert!(waiting.await.unwrap());
        assert!(!events.is_indexed(&delete("alice", "k", 2)).await, "another rev is another event");
        // A decision that was given up is left to the stream.
        drop(events.begin(&change).await);
        assert!(!events.is_indexed(&change).await);
    }
}
