//! What the stream is doing right now, for `/readyz`, stats and the metrics gauges.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::clock::{Clock, Timestamp};

use super::settings::Timing;

/// A snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamStatus {
    pub connected: bool,
    /// Nothing to do: no collection is tracked, or no server is configured. Not a fault.
    pub idle: bool,
    /// Another host follows the stream; this one takes over when that ends.
    pub standby: bool,
    /// When the last event arrived here.
    pub last_event_at: Option<Timestamp>,
    /// The committed cursor: the server's time of the last event that is surely in the index.
    pub cursor: Option<Timestamp>,
    /// Why the stream does not move; `None` while it does (or is idle).
    pub stalled: Option<Stall>,
}

/// What holds the stream up, since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stall {
    /// Commits fail. Events wait in their queues and none is lost.
    Database { since: Timestamp },
    /// No server could be reached.
    Disconnected { since: Timestamp },
    /// A task ended that should not have: our own fault, cured by a restart only.
    Broken { since: Timestamp },
}

/// Written by the stream's tasks, read by anyone. Zero means "none" in every time.
#[derive(Debug)]
pub(super) struct Shared {
    clock: Clock,
    timing: Timing,
    connected: AtomicBool,
    idle: AtomicBool,
    standby: AtomicBool,
    last_event_at: AtomicI64,
    cursor: AtomicI64,
    disconnected_since: AtomicI64,
    failing_since: AtomicI64,
    /// The lease could not be asked for.
    lease_failing_since: AtomicI64,
    broken_since: AtomicI64,
}

impl Shared {
    pub(super) fn new(clock: Clock, timing: Timing) -> Self {
        Self {
            clock,
            timing,
            connected: AtomicBool::new(false),
            idle: AtomicBool::new(true),
            standby: AtomicBool::new(false),
            last_event_at: AtomicI64::new(0),
            cursor: AtomicI64::new(0),
            disconnected_since: AtomicI64::new(0),
            failing_since: AtomicI64::new(0),
            lease_failing_since: AtomicI64::new(0),
            broken_since: AtomicI64::new(0),
        }
    }

    pub(super) fn connected(&self) {
        self.idle.store(false, Relaxed);
        self.connected.store(true, Relaxed);
        self.disconnected_since.store(0, Relaxed);
        metrics::gauge!("belvedere_stream_connected").set(1.0);
    }

    /// No connection, though there should be one.
    pub(super) fn disconnected(&self) {
        self.idle.store(false, Relaxed);
        self.connected.store(false, Relaxed);
        let now = self.clock.now().0;
        // The first failure counts, not the latest.
        let _ = self.disconnected_since.compare_exchange(0, now, Relaxed, Relaxed);
        metrics::gauge!("belvedere_stream_connected").set(0.0);
    }

    /// No connection, and none is wanted.
    pub(super) fn idle(&self) {
        self.idle.store(true, Relaxed);
        self.connected.store(false, Relaxed);
        self.disconnected_since.store(0, Relaxed);
        metrics::gauge!("belvedere_stream_connected").set(0.0);
    }

    /// This host has the lease of the stream.
    pub(super) fn leading(&self) {
        self.lease(false);
    }

    /// Another host has it.
    pub(super) fn standing_by(&self) {
        self.lease(true);
        self.idle();
    }

    fn lease(&self, standby: bool) {
        self.standby.store(standby, Relaxed);
        self.lease_failing_since.store(0, Relaxed);
        metrics::gauge!("belvedere_stream_lease").set(if standby { 0.0 } else { 1.0 });
    }

    pub(super) fn lease_failed(&self) {
        let _ = self.lease_failing_since.compare_exchange(0, self.clock.now().0, Relaxed, Relaxed);
        metrics::gauge!("belvedere_stream_lease").set(0.0);
    }

    pub(super) fn event_arrived(&self, at: Timestamp) {
        self.last_event_at.store(at.0, Relaxed);
    }

    pub(super) fn committed(&self, cursor: Option<i64>) {
        self.failing_since.store(0, Relaxed);
        if let Some(cursor) = cursor {
            self.cursor.store(cursor, Relaxed);
        }
    }

    pub(super) fn commit_failed(&self) {
        let _ = self.failing_since.compare_exchange(0, self.clock.now().0, Relaxed, Relaxed);
    }

    fn broken(&self) {
        let _ = self.broken_since.compare_exchange(0, self.clock.now().0, Relaxed, Relaxed);
    }

    pub(super) fn status(&self) -> StreamStatus {
        let time = |cell: &AtomicI64| Some(Timestamp(cell.load(Relaxed))).filter(|t| t.0 != 0);
        let now = self.clock.now().0;
        let before = |t: &Timestamp, patience: Duration| now - t.0 >= patience.as_micros() as i64;
        let broken = time(&self.broken_since).map(|since| Stall::Broken { since });
        let failing = [&self.failing_since, &self.lease_failing_since].into_iter().filter_map(time).min();
        let database = failing.filter(|t| before(t, self.timing.stalled_after));
        let database = database.map(|since| Stall::Database { since });
        let disconnected =
            time(&self.disconnected_since).filter(|t| before(t, self.timing.unreachable_after));
        let disconnected = disconnected.map(|since| Stall::Disconnected { since });
        StreamStatus {
            connected: self.connected.load(Relaxed),
            idle: self.idle.load(Relaxed),
            standby: self.standby.load(Relaxed),
            last_event_at: time(&self.last_event_at),
            cursor: time(&self.cursor),
            stalled: broken.or(database).or(disconnected),
        }
    }
}

/// Held by a task of the stream: says so if the task ends, by a panic too, before it was told to.
#[derive(Debug)]
pub(super) struct Watch {
    pub name: &'static str,
    pub shared: Arc<Shared>,
    pub told: CancellationToken,
}

impl Drop for Watch {
    fn drop(&mut self) {
        if !self.told.is_cancelled() {
            tracing::error!(task = self.name, "a task of the stream ended; a restart is needed");
            self.shared.broken();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_ends_unasked_breaks_the_stream() {
        let shared = Arc::new(Shared::new(Clock::fixed(Timestamp(7)), Timing::default()));
        let told = CancellationToken::new();
        let watch =
            |told: &CancellationToken| Watch { name: "test", shared: shared.clone(), told: told.clone() };
        let first = watch(&told);
        told.cancel();
        drop(first);
        assert_eq!(shared.status().stalled, None);
        drop(watch(&CancellationToken::new()));
        assert_eq!(shared.status().stalled, Some(Stall::Broken { since: Timestamp(7) }));
    }

    #[test]
    fn a_host_that_waits_is_well_while_the_database_answers() {
        let clock = Clock::fixed(Timestamp(1_000_000));
        let shared = Shared::new(clock.clone(), Timing::default());
        shared.disconnected();
        shared.standing_by();
        clock.set(Timestamp(200_000_000));
        let status = shared.status();
        assert_eq!((status.standby, status.connected, status.stalled), (true, false, None));
        shared.lease_failed();
        clock.set(Timestamp(300_000_000));
        assert_eq!(shared.status().stalled, Some(Stall::Database { since: Timestamp(200_000_000) }));
        shared.leading();
        assert_eq!((shared.status().standby, shared.status().stalled), (false, None));
    }

    #[test]
    fn stalled_only_after_a_while_and_the_database_comes_first() {
        let clock = Clock::fixed(Timestamp(1_000_000));
        let shared = Shared::new(clock.clone(), Timing::default());
        assert!(shared.status().idle && shared.status().stalled.is_none());
        shared.disconnected();
        clock.set(Timestamp(20_000_000));
        shared.disconnected();
        shared.commit_failed();
        assert_eq!(shared.status().stalled, None);
        clock.set(Timestamp(24_000_000));
        assert_eq!(shared.status().stalled, None);
        clock.set(Timestamp(25_000_000));
        assert_eq!(shared.status().stalled, Some(Stall::Database { since: Timestamp(20_000_000) }));
        shared.committed(None);
        clock.set(Timestamp(121_000_000));
        assert_eq!(shared.status().stalled, Some(Stall::Disconnected { since: Timestamp(1_000_000) }));
        shared.commit_failed();
        clock.set(Timestamp(151_000_000));
        assert_eq!(shared.status().stalled, Some(Stall::Database { since: Timestamp(121_000_000) }));
        shared.committed(Some(5));
        shared.connected();
        let status = shared.status();
        assert_eq!((status.connected, status.stalled, status.cursor), (true, None, Some(Timestamp(5))));
    }
}
