//! Counts what waits in the queues.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// A number of events and the bytes of their records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::indexing) struct Amount {
    pub events: usize,
    pub bytes: usize,
}

impl Amount {
    pub(super) fn exceeds(self, limit: Self) -> bool {
        self.events > limit.events || self.bytes > limit.bytes
    }

    pub(super) fn times(self, factor: usize) -> Self {
        Self { events: self.events * factor, bytes: self.bytes * factor }
    }
}

/// Counts waiting and running events. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Load(Arc<Counters>);

#[derive(Debug, Default)]
struct Counters {
    events: AtomicUsize,
    bytes: AtomicUsize,
    /// Notified when the load has become less.
    relieved: Notify,
}

/// One event of a load; it counts until it is dropped.
#[derive(Debug)]
pub(super) struct Counted {
    load: Load,
    bytes: usize,
}

impl Load {
    pub(super) fn count(&self, bytes: usize) -> Counted {
        self.0.events.fetch_add(1, Ordering::Relaxed);
        self.0.bytes.fetch_add(bytes, Ordering::Relaxed);
        Counted { load: self.clone(), bytes }
    }

    pub(super) fn amount(&self) -> Amount {
        let Counters { events, bytes, .. } = &*self.0;
        Amount { events: events.load(Ordering::Relaxed), bytes: bytes.load(Ordering::Relaxed) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.events.load(Ordering::Acquire) == 0
    }

    /// Waits until the load is not above the limit.
    pub(super) async fn falls_to(&self, limit: Amount) {
        loop {
            let relieved = self.0.relieved.notified();
            if !self.amount().exceeds(limit) {
                return;
            }
            relieved.await;
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let Counters { events, bytes, relieved } = &*self.load.0;
        bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        // A reader that sees the event gone also sees the earlier effects of its task: it counted it in another load,
        // or sent its part.
        events.fetch_sub(1, Ordering::Release);
        relieved.notify_waiters();
    }
}
