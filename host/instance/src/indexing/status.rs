//! The current status of the stream, for `/readyz`, stats and the metrics gauges.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use belvedere_base::clock::{Clock, Timestamp};

use super::settings::Timing;

/// A snapshot of the stream's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamStatus {
    pub connected: bool,
    /// There is nothing to do: no collection is tracked, or no server is configured. Not an error.
    pub idle: bool,
    /// Another host follows the stream; this one takes over when the other's lease ends.
    pub standby: bool,
    /// The time at which the last event was received.
    pub last_event_at: Option<Timestamp>,
    /// The age of the last event at that time; zero once the stream is quiet, when nothing waits to be read.
    pub lag: Option<Duration>,
    /// Events received since the start.
    pub events: u64,
    /// The committed cursor: everything up to this time, by the server's clock, is in the index.
    pub cursor: Option<Timestamp>,
    /// The reason why the stream makes no progress; `None` while it does, or is idle.
    pub stalled: Option<Stall>,
}

/// The reason why the stream makes no progress, and the time since then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stall {
    /// The database fails. Events wait in the queues; none is lost.
    Database { since: Timestamp },
    /// No server could be reached.
    Disconnected { since: Timestamp },
    /// Frames arrive, none of which can be read.
    Unreadable { since: Timestamp },
    /// A task ended unexpectedly, which is a bug. Only a restart helps.
    Broken { since: Timestamp },
}

/// The status as the stream's tasks update it. A time of zero means "none".
#[derive(Debug)]
pub(super) struct LiveStatus {
    clock: Clock,
    timing: Timing,
    connected: AtomicBool,
    idle: AtomicBool,
    standby: AtomicBool,
    last_event_at: AtomicI64,
    /// Microseconds.
    lag: AtomicI64,
    events: AtomicU64,
    cursor: AtomicI64,
    disconnected_since: AtomicI64,
    /// The arrival times of the first and the last unreadable frame since a readable one.
    unreadable_since: AtomicI64,
    unreadable_until: AtomicI64,
    failing_since: AtomicI64,
    /// The time at which taking the lease began to fail.
    lease_failing_since: AtomicI64,
    broken_since: AtomicI64,
}

/// Time without an event after which a connected stream counts as quiet: a server that replays sends events all the time.
const QUIET_AFTER: Duration = Duration::from_secs(5);

impl LiveStatus {
    pub(super) fn new(clock: Clock, timing: Timing) -> Self {
        Self {
            clock,
            timing,
            connected: AtomicBool::new(false),
            idle: AtomicBool::new(true),
            standby: AtomicBool::new(false),
            last_event_at: AtomicI64::new(0),
            lag: AtomicI64::new(0),
            events: AtomicU64::new(0),
            cursor: AtomicI64::new(0),
            disconnected_since: AtomicI64::new(0),
            unreadable_since: AtomicI64::new(0),
            unreadable_until: AtomicI64::new(0),
            failing_since: AtomicI64::new(0),
            lease_failing_since: AtomicI64::new(0),
            broken_since: AtomicI64::new(0),
        }
    }

    pub(super) fn connected(&self) {
        self.idle.store(false, Relaxed);
        self.connected.store(true, Relaxed);
        self.disconnected_since.store(0, Relaxed);
        self.unreadable_since.store(0, Relaxed);
        metrics::gauge!("belvedere_stream_connected").set(1.0);
    }

    /// There is no connection, though there should be one.
    pub(super) fn disconnected(&self) {
        self.idle.store(false, Relaxed);
        self.connected.store(false, Relaxed);
        let now = self.clock.now().0;
        // Keeps the time of the first failure.
        let _ = self.disconnected_since.compare_exchange(0, now, Relaxed, Relaxed);
        metrics::gauge!("belvedere_stream_connected").set(0.0);
    }

    /// There is no connection, and none is needed.
    pub(super) fn idle(&self) {
        self.idle.store(true, Relaxed);
        self.connected.store(false, Relaxed);
        self.disconnected_since.store(0, Relaxed);
        self.unreadable_since.store(0, Relaxed);
        metrics::gauge!("belvedere_stream_connected").set(0.0);
    }

    /// This host holds the lease of the stream.
    pub(super) fn leading(&self) {
        self.lease(false);
    }

    /// Another host holds the lease.
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

    /// Events have arrived, the last of which happened at `time`, in microseconds.
    pub(super) fn events_arrived(&self, at: Timestamp, time: i64, count: u64) {
        self.unreadable_since.store(0, Relaxed);
        self.last_event_at.store(at.0, Relaxed);
        self.lag.store(at.0.saturating_sub(time).max(0), Relaxed);
        self.events.fetch_add(count, Relaxed);
    }

    /// Frames have arrived, none of which can be read.
    pub(super) fn only_unreadable_arrived(&self) {
        let now = self.clock.now().0;
        let _ = self.unreadable_since.compare_exchange(0, now, Relaxed, Relaxed);
        self.unreadable_until.store(now, Relaxed);
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

    pub(super) fn snapshot(&self) -> StreamStatus {
        let time = |cell: &AtomicI64| Some(Timestamp(cell.load(Relaxed))).filter(|t| t.0 != 0);
        let now = self.clock.now().0;
        let is_older = |t: &Timestamp, limit: Duration| now - t.0 >= limit.as_micros() as i64;
        let broken = time(&self.broken_since).map(|since| Stall::Broken { since });
        let failing = [&self.failing_since, &self.lease_failing_since].into_iter().filter_map(time).min();
        let database = failing.filter(|t| is_older(t, self.timing.stalled_after));
        let database = database.map(|since| Stall::Database { since });
        let disconnected =
            time(&self.disconnected_since).filter(|t| is_older(t, self.timing.unreachable_after));
        let disconnected = disconnected.map(|since| Stall::Disconnected { since });
        // One such frame on a quiet stream is a gap, not a stall.
        let unreadable_for = self.unreadable_until.load(Relaxed) - self.unreadable_since.load(Relaxed);
        let is_stalled = unreadable_for >= self.timing.stalled_after.as_micros() as i64;
        let unreadable = time(&self.unreadable_since).filter(|_| is_stalled);
        let unreadable = unreadable.map(|since| Stall::Unreadable { since });
        let connected = self.connected.load(Relaxed);
        // The last event of a quiet stream may be old when it is read, after a restart for example.
        let lag = time(&self.last_event_at).map(|at| {
            let is_quiet = connected && is_older(&at, QUIET_AFTER);
            if is_quiet {
                Duration::ZERO
            } else {
                Duration::from_micros(self.lag.load(Relaxed).max(0) as u64)
            }
        });
        StreamStatus {
            connected,
            idle: self.idle.load(Relaxed),
            standby: self.standby.load(Relaxed),
            last_event_at: time(&self.last_event_at),
            lag,
            events: self.events.load(Relaxed),
            cursor: time(&self.cursor),
            stalled: broken.or(database).or(disconnected).or(unreadable),
        }
    }
}

/// Reports the stream as broken when its task ends, also by a panic, before `stop` was cancelled. The task owns it.
#[derive(Debug)]
pub(super) struct EndGuard {
    pub name: &'static str,
    pub live_status: Arc<LiveStatus>,
    pub stop: CancellationToken,
}

impl Drop for EndGuard {
    fn drop(&mut self) {
        if !self.stop.is_cancelled() {
            tracing::error!(task = self.name, "a stream task ended unexpectedly; a restart is needed");
            self.live_status.broken();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_that_cannot_be_read_stall_the_stream_when_nothing_else_arrives() {
        let clock = Clock::fixed(Timestamp(1_000_000));
        let live_status = LiveStatus::new(clock.clone(), Timing::default());
        let at = |second: i64| clock.set(Timestamp(second * 1_000_000));
        let stalled = || live_status.snapshot().stalled;
        live_status.only_unreadable_arrived();
        at(3_600);
        assert_eq!(stalled(), None, "one frame on a quiet stream");
        live_status.only_unreadable_arrived();
        assert_eq!(stalled(), Some(Stall::Unreadable { since: Timestamp(1_000_000) }));
        live_status.events_arrived(Timestamp(1), 1, 1);
        assert_eq!(stalled(), None);
        live_status.only_unreadable_arrived();
        at(3_601);
        live_status.only_unreadable_arrived();
        assert_eq!(stalled(), None);
    }

    #[test]
    fn an_old_event_is_no_lag_of_a_quiet_stream() {
        let clock = Clock::fixed(Timestamp(400_000_000));
        let live_status = LiveStatus::new(clock.clone(), Timing::default());
        let lag = || live_status.snapshot().lag.map(|lag| lag.as_secs());
        assert_eq!(lag(), None);
        live_status.connected();
        live_status.events_arrived(Timestamp(400_000_000), 40_000_000, 1);
        assert_eq!(lag(), Some(360), "more may follow");
        clock.set(Timestamp(406_000_000));
        assert_eq!(lag(), Some(0));
        live_status.disconnected();
        assert_eq!(lag(), Some(360), "what the server has meanwhile is not known");
    }

    #[test]
    fn a_task_that_ends_before_stop_breaks_the_stream() {
        let live_status = Arc::new(LiveStatus::new(Clock::fixed(Timestamp(7)), Timing::default()));
        let stop = CancellationToken::new();
        let guard = |stop: &CancellationToken| EndGuard {
            name: "test",
            live_status: live_status.clone(),
            stop: stop.clone(),
        };
        let first = guard(&stop);
        stop.cancel();
        drop(first);
        assert_eq!(live_status.snapshot().stalled, None);
        drop(guard(&CancellationToken::new()));
        assert_eq!(live_status.snapshot().stalled, Some(Stall::Broken { since: Timestamp(7) }));
    }

    #[test]
    fn a_host_on_standby_is_not_stalled_while_the_database_responds() {
        let clock = Clock::fixed(Timestamp(1_000_000));
        let live_status = LiveStatus::new(clock.clone(), Timing::default());
        live_status.disconnected();
        live_status.standing_by();
        clock.set(Timestamp(200_000_000));
        let status = live_status.snapshot();
        assert_eq!((status.standby, status.connected, status.stalled), (true, false, None));
        live_status.lease_failed();
        clock.set(Timestamp(300_000_000));
        assert_eq!(live_status.snapshot().stalled, Some(Stall::Database { since: Timestamp(200_000_000) }));
        live_status.leading();
        assert_eq!((live_status.snapshot().standby, live_status.snapshot().stalled), (false, None));
    }

    #[test]
    fn stalled_only_after_a_delay_and_the_database_takes_precedence() {
        let clock = Clock::fixed(Timestamp(1_000_000));
        let live_status = LiveStatus::new(clock.clone(), Timing::default());
        assert!(live_status.snapshot().idle && live_status.snapshot().stalled.is_none());
        live_status.disconnected();
        clock.set(Timestamp(20_000_000));
        live_status.disconnected();
        live_status.commit_failed();
        assert_eq!(live_status.snapshot().stalled, None);
        clock.set(Timestamp(24_000_000));
        assert_eq!(live_status.snapshot().stalled, None);
        clock.set(Timestamp(25_000_000));
        assert_eq!(live_status.snapshot().stalled, Some(Stall::Database { since: Timestamp(20_000_000) }));
        live_status.committed(None);
        clock.set(Timestamp(121_000_000));
        assert_eq!(live_status.snapshot().stalled, Some(Stall::Disconnected { since: Timestamp(1_000_000) }));
        live_status.commit_failed();
        clock.set(Timestamp(151_000_000));
        assert_eq!(live_status.snapshot().stalled, Some(Stall::Database { since: Timestamp(121_000_000) }));
        live_status.committed(Some(5));
        live_status.connected();
        let status = live_status.snapshot();
        assert_eq!((status.connected, status.stalled, status.cursor), (true, None, Some(Timestamp(5))));
    }
}
