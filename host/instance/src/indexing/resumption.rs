//! Compares a subscription with the position at which the one before ended, and recognises gaps in between.
//!
//! Jetstream servers do not say that they lack the events after a cursor: they begin with their oldest event, or with
//! the present. Others begin much earlier than the cursor. So the events are compared with what was requested, until
//! they have reached the position.

use std::time::Duration;

use tokio::time::Instant;

use belvedere_base::clock::Timestamp;
use belvedere_storage::store::gaps::{Gap, GapReason};

use super::settings::Timing;

/// When the first event is this much later than the cursor, the server no longer had the events in between. A server
/// sends the event at the cursor again if it has it, and on the public network there are several a second.
const MIN_GAP_US: i64 = 60 * 1_000_000;

/// The expected beginning of a subscription.
#[derive(Clone, Debug)]
pub(super) struct Expected {
    /// The server's address, for the operator.
    pub url: String,
    /// Every event up to this time is in the pipeline or in the index, but for commits after `from`.
    pub position: i64,
    /// Everything up to this time is in the pipeline or in the index: the position, or earlier.
    pub from: i64,
    /// The time at which the event at the position was received, by our clock.
    pub seen_at: Timestamp,
    /// The time at which the subscription began. Later events are delivered live.
    pub connected_at: Timestamp,
    /// The position is our clock's time and not an event's.
    pub is_own_time: bool,
    /// Another server sent the event at the position, so this one can confirm that no commit was withheld.
    pub is_other_server: bool,
}

/// A subscription that has not reached the position yet.
#[derive(Debug)]
pub(super) struct Resumption {
    expected: Expected,
    rewind_us: i64,
    window: Duration,
    /// `None` before the first event: the newest time, and the window in which the replay's speed is measured.
    replay: Option<Replay>,
}

#[derive(Clone, Copy, Debug)]
struct Replay {
    newest: i64,
    window_began: Instant,
    newest_then: i64,
    window_ends: Instant,
    /// No event has arrived since the window began. A stalled replay is no live server.
    is_silent: bool,
}

/// The state of a subscription after some events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Resumed {
    /// The server replays events from before the position.
    NotYet,
    /// The position is reached: nothing is missing.
    Reached,
    /// The position is reached or passed, and events are missing.
    WithGap(Gap),
}

impl Resumption {
    pub(super) fn new(expected: Expected, timing: &Timing) -> Self {
        let rewind_us = timing.rewind.as_micros() as i64;
        Self { expected, rewind_us, window: timing.replay_window, replay: None }
    }

    /// Whether the server has to send the commits that another one may have withheld.
    pub(super) fn is_other_server(&self) -> bool {
        self.expected.is_other_server
    }

    /// Takes the times of the first and the newest event of a chunk.
    pub(super) fn take(&mut self, first: i64, newest: i64) -> Resumed {
        let Expected { position, from, connected_at, is_own_time, .. } = self.expected;
        if self.replay.is_none() {
            // After the connection began, silence means that nothing happened.
            if first.min(connected_at.0).saturating_sub(from) > MIN_GAP_US {
                let (from, to) = (Timestamp(from), Timestamp(first));
                return Resumed::WithGap(Gap { reason: GapReason::CursorTooOld, from, to });
            }
        }
        // The order of events within the rewind differs from server to server.
        if is_own_time || newest >= position.saturating_sub(self.rewind_us) {
            return Resumed::Reached;
        }
        let now = Instant::now();
        let Some(replay) = &mut self.replay else {
            let window_ends = now + self.window;
            self.replay =
                Some(Replay { newest, window_began: now, newest_then: newest, window_ends, is_silent: true });
            return Resumed::NotYet;
        };
        replay.newest = replay.newest.max(newest);
        if std::mem::take(&mut replay.is_silent) {
            // After a pause it gets a whole window to show its speed.
            replay.window_ends = now + self.window;
        }
        Resumed::NotYet
    }

    /// The time at which the replay's speed has to be looked at; `None` before its first event.
    pub(super) fn window_ends(&self) -> Option<Instant> {
        self.replay.map(|replay| replay.window_ends)
    }

    /// Leaves out time in which the server was not read.
    pub(super) fn paused(&mut self, time: Duration) {
        if let Some(replay) = &mut self.replay {
            replay.window_began += time;
            replay.window_ends += time;
        }
    }

    /// The gap of a server that does not replay but is live: its events are as fast as time itself, and have not reached the
    /// position. Its times have gone back. Comes with the time of its newest event. Otherwise the window is extended
    /// (without an event nothing is known) or a new one begins.
    pub(super) fn end_window(&mut self) -> Option<(Gap, i64)> {
        let (replay, now) = (self.replay.as_mut()?, Instant::now());
        if replay.is_silent {
            replay.window_ends = now + self.window;
            return None;
        }
        let progress = replay.newest.saturating_sub(replay.newest_then);
        // A quarter and a second more: events do not arrive evenly.
        let time = now.saturating_duration_since(replay.window_began).as_micros() as i64;
        if progress > time.saturating_mul(5) / 4 + 1_000_000 {
            let Replay { newest, .. } = *replay;
            let window_ends = now + self.window;
            *replay = Replay { newest, window_began: now, newest_then: newest, window_ends, is_silent: true };
            return None;
        }
        let Expected { position, from, seen_at, .. } = self.expected;
        // The times of the events that were received are worth nothing: only our own clock says since when.
        let from = replay.newest.min(from).min(seen_at.0);
        let gap = Gap { reason: GapReason::ServerRewound, from: Timestamp(from), to: Timestamp(position) };
        Some((gap, replay.newest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000_000_000;
    const HOUR: i64 = 3_600 * SECOND;
    const SECOND: i64 = 1_000_000;

    fn expected(position: i64) -> Expected {
        Expected {
            url: "ws://a".to_owned(),
            position,
            from: position,
            seen_at: Timestamp(position),
            connected_at: Timestamp(NOW),
            is_own_time: false,
            is_other_server: false,
        }
    }

    fn begin(expected: Expected, first: i64) -> (Resumption, Resumed) {
        let mut resumption = Resumption::new(expected, &Timing::default());
        let resumed = resumption.take(first, first);
        (resumption, resumed)
    }

    #[test]
    fn a_server_that_begins_later_than_the_cursor_lacks_events() {
        let position = NOW - 80 * HOUR;
        let gap =
            |first| Gap { reason: GapReason::CursorTooOld, from: Timestamp(position), to: Timestamp(first) };
        for (first, is_gap) in [
            (position, false),
            (position + 60 * SECOND, false),
            (position + 61 * SECOND, true),
            (NOW + SECOND, true),
        ] {
            let is = if is_gap { Resumed::WithGap(gap(first)) } else { Resumed::Reached };
            assert_eq!(begin(expected(position), first).1, is, "{first}");
        }
        // A position of another server, which has to send the commits since then too.
        let other = Expected { position: NOW, ..expected(position) };
        assert_eq!(begin(other, NOW - HOUR).1, Resumed::WithGap(gap(NOW - HOUR)));
    }

    #[test]
    fn silence_after_the_connection_began_is_no_gap() {
        for position in [NOW - SECOND, NOW] {
            assert_eq!(begin(expected(position), NOW + 5 * HOUR).1, Resumed::Reached);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_replay_that_reaches_the_position_is_no_gap() {
        let (mut resumption, resumed) = begin(expected(NOW - SECOND), NOW - HOUR);
        assert_eq!(resumed, Resumed::NotYet);
        // An hour in forty windows is a replay, if a slow one.
        for n in 1..40 {
            tokio::time::advance(Duration::from_secs(10)).await;
            let time = NOW - HOUR + n * HOUR / 40;
            assert_eq!(resumption.take(time, time), Resumed::NotYet);
            assert_eq!(resumption.end_window(), None, "{n}");
        }
        assert_eq!(resumption.take(NOW - 7 * SECOND, NOW - 6 * SECOND), Resumed::Reached);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_is_live_before_the_position_is_a_gap_since_the_last_event() {
        for (seconds, is_gap) in [(0, true), (10, true), (13, true), (14, false)] {
            let server = Expected { seen_at: Timestamp(NOW - 2 * HOUR), ..expected(NOW) };
            let (mut resumption, _) = begin(server, NOW - HOUR);
            let newest = NOW - HOUR + seconds * SECOND;
            assert_eq!(resumption.take(newest, newest), Resumed::NotYet);
            tokio::time::advance(Duration::from_secs(10)).await;
            let (from, to) = (Timestamp(NOW - 2 * HOUR), Timestamp(NOW));
            let gap = Gap { reason: GapReason::ServerRewound, from, to };
            assert_eq!(resumption.end_window(), is_gap.then_some((gap, newest)), "{seconds}");
        }
    }

    /// A replay goes on much faster than time, a live server with few events does not.
    #[tokio::test(start_paused = true)]
    async fn a_pause_is_no_gap_and_ends_with_a_whole_window() {
        for (seconds, is_gap) in [(60, true), (85, true), (90, false)] {
            let (mut resumption, _) = begin(expected(NOW), NOW - HOUR);
            for _ in 0..5 {
                tokio::time::advance(Duration::from_secs(10)).await;
                assert_eq!(resumption.end_window(), None, "no event is no evidence");
            }
            tokio::time::advance(Duration::from_secs(9)).await;
            let newest = NOW - HOUR + seconds * SECOND;
            assert_eq!(resumption.take(newest, newest), Resumed::NotYet);
            let ends = resumption.window_ends().unwrap();
            assert_eq!(ends, Instant::now() + Duration::from_secs(10));
            tokio::time::advance(Duration::from_secs(10)).await;
            assert_eq!(resumption.end_window().is_some(), is_gap, "{seconds}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn time_in_which_the_server_was_not_read_does_not_count() {
        let (mut resumption, _) = begin(expected(NOW), NOW - HOUR);
        let ends = resumption.window_ends().unwrap();
        resumption.paused(Duration::from_secs(3));
        assert_eq!(resumption.window_ends(), Some(ends + Duration::from_secs(3)));
    }

    #[test]
    fn the_order_of_events_within_the_rewind_and_our_own_time_prove_nothing() {
        assert_eq!(begin(expected(NOW), NOW - 5 * SECOND).1, Resumed::Reached);
        assert_eq!(begin(expected(NOW), NOW - 6 * SECOND).1, Resumed::NotYet);
        // A first start with a clock that is ahead.
        let own = Expected { is_own_time: true, ..expected(NOW) };
        assert_eq!(begin(own, NOW - HOUR).1, Resumed::Reached);
    }
}
