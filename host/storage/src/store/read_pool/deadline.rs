//! The time limit of a statement on SQLite.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The time at which the running statement must end.
#[derive(Debug)]
pub(in crate::store) struct Deadline {
    epoch: Instant,
    /// Microseconds after `epoch`.
    until: AtomicU64,
    /// The number of times that the connection was checked out.
    pub(super) checkouts: AtomicU64,
}

impl Deadline {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            epoch: Instant::now(),
            until: AtomicU64::new(u64::MAX),
            checkouts: AtomicU64::new(0),
        })
    }

    pub(super) fn start(&self, time_limit: Duration) {
        self.checkouts.fetch_add(1, Ordering::Relaxed);
        self.until.store((self.epoch.elapsed() + time_limit).as_micros() as u64, Ordering::Relaxed);
    }

    /// Makes the running statement end at the next check.
    pub(super) fn expire(&self) {
        self.until.store(0, Ordering::Relaxed);
    }

    pub(super) fn is_ahead(&self) -> bool {
        self.epoch.elapsed().as_micros() as u64 <= self.until.load(Ordering::Relaxed)
    }
}
