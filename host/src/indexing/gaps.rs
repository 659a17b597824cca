//! Recognises gaps of the stream, and stores each before the cursor can pass it.
//!
//! Jetstream servers do not say that they lack the events after a cursor: they begin with their oldest event, or with
//! the present. So the first event of a subscription is compared with what was requested.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::clock::{Clock, Timestamp};
use crate::store::StoreError;
use crate::store::gaps::{Gap, GapReason};

use super::notice::{Notice, Observer};
use super::settings::Timing;
use super::status::LiveStatus;

/// When the first event is this much later than the cursor, the server no longer had the events in between. A server
/// sends the event at the cursor again if it has it, and on the public network there are several a second.
const MIN_GAP_US: i64 = 60 * 1_000_000;

/// A cursor this far ahead of our clock was not set by an event: such events do not move it (`intake`).
const MAX_AHEAD_US: i64 = 15 * 60 * 1_000_000;

/// What a subscription should begin with.
#[derive(Clone, Debug)]
pub(super) struct Expected {
    /// The server's address, for the operator.
    pub url: String,
    /// Everything up to this time is in the pipeline or in the index.
    pub position: i64,
    /// The cursor that was requested: the position, or earlier.
    pub requested: i64,
    /// When the event at the position was received, by our clock.
    pub seen_at: Timestamp,
    /// When the subscription began. Later events are delivered live.
    pub connected_at: Timestamp,
    /// The position is our clock's time and not an event's.
    pub is_own_time: bool,
}

/// Where gaps are stored.
pub(super) trait GapStore: Send + Sync + 'static {
    fn store<'a>(&'a self, gap: &'a Gap, now: Timestamp) -> BoxFuture<'a, Result<(), StoreError>>;
}

/// Stores gaps and reports them.
#[derive(Clone)]
pub(super) struct Gaps {
    pub store: Arc<dyn GapStore>,
    pub observer: Arc<dyn Observer>,
    pub live_status: Arc<LiveStatus>,
    pub clock: Clock,
    pub timing: Timing,
}

impl Expected {
    /// The gap before the first event, if there is one.
    pub(super) fn gap_before(&self, first_event: i64, rewind: Duration) -> Option<Gap> {
        let Self { position, requested, seen_at, connected_at, .. } = *self;
        // After that, silence means that nothing happened.
        let begins = first_event.min(connected_at.0);
        if begins.saturating_sub(position) > MIN_GAP_US {
            return Some(Gap {
                reason: GapReason::CursorTooOld,
                from: Timestamp(position),
                to: Timestamp(first_event),
            });
        }
        let earliest = requested.saturating_sub(rewind.as_micros() as i64);
        if first_event < earliest && !self.is_own_time {
            // The times of the events that were received are worth nothing: only our own clock says since when.
            let from = first_event.min(position).min(seen_at.0);
            return Some(Gap {
                reason: GapReason::ServerRewound,
                from: Timestamp(from),
                to: Timestamp(position),
            });
        }
        None
    }
}

/// The gap of a cursor that is later than the present, with the time from which to continue. `seen_at` is when the
/// cursor was committed, by the clock of that time.
pub(super) fn of_future_cursor(cursor: i64, seen_at: Timestamp, now: Timestamp) -> Option<Gap> {
    if cursor <= now.0.saturating_add(MAX_AHEAD_US) {
        return None;
    }
    // If that time has not come either, the clock was wrong, and nothing says since when.
    let from = if seen_at <= now { seen_at } else { Timestamp(0) };
    Some(Gap { reason: GapReason::CursorInFuture, from, to: now })
}

impl Gaps {
    /// Stores a gap, with retries, and reports it. Until this returns, nothing after the gap may be committed.
    pub(super) async fn found(&self, url: &str, gap: Gap) {
        let mut wait = self.timing.commit_retry;
        while let Err(error) = self.store.store(&gap, self.clock.now()).await {
            self.live_status.commit_failed();
            tracing::warn!(%error, "can't store a gap of the stream");
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(self.timing.commit_retry_cap);
        }
        self.live_status.committed(None);
        let (reason, from, to) = (gap.reason.as_str(), gap.from, gap.to);
        tracing::warn!(url, reason, %from, %to, "events of the stream may be missing in the index");
        metrics::counter!("belvedere_stream_gaps_total", "reason" => reason).increment(1);
        self.observer.notice(Notice::Gap { url: url.to_owned(), gap });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000_000_000;
    const HOUR: i64 = 3_600_000_000;
    const SECOND: i64 = 1_000_000;
    const REWIND: Duration = Duration::from_secs(5);

    fn expected(position: i64) -> Expected {
        Expected {
            url: "ws://a".to_owned(),
            position,
            requested: position,
            seen_at: Timestamp(position),
            connected_at: Timestamp(NOW),
            is_own_time: false,
        }
    }

    fn reason(expected: &Expected, first: i64) -> Option<GapReason> {
        expected.gap_before(first, REWIND).map(|gap| gap.reason)
    }

    #[test]
    fn a_server_that_begins_later_than_the_cursor_lacks_events() {
        let position = NOW - 80 * HOUR;
        let gap = expected(position).gap_before(NOW - 72 * HOUR, REWIND).unwrap();
        let (from, to) = (Timestamp(position), Timestamp(NOW - 72 * HOUR));
        assert_eq!(gap, Gap { reason: GapReason::CursorTooOld, from, to });
        for (first, is_gap) in [
            (position, false),
            (position + 60 * SECOND, false),
            (position + 61 * SECOND, true),
            (NOW + SECOND, true),
        ] {
            assert_eq!(reason(&expected(position), first).is_some(), is_gap, "{first}");
        }
    }

    #[test]
    fn silence_after_the_connection_began_is_no_gap() {
        assert_eq!(reason(&expected(NOW - SECOND), NOW + 5 * HOUR), None);
        assert_eq!(reason(&expected(NOW), NOW + 5 * HOUR), None);
    }

    #[test]
    fn a_server_whose_times_went_back_is_a_gap_since_the_last_event() {
        let server = Expected { seen_at: Timestamp(NOW - 2 * HOUR), ..expected(NOW) };
        let gap = server.gap_before(NOW - HOUR, REWIND).unwrap();
        let from = Timestamp(NOW - 2 * HOUR);
        assert_eq!(gap, Gap { reason: GapReason::ServerRewound, from, to: Timestamp(NOW) });
        // The order of events within the rewind differs from server to server.
        assert_eq!(reason(&expected(NOW), NOW - 5 * SECOND), None);
        assert_eq!(reason(&expected(NOW), NOW - 6 * SECOND), Some(GapReason::ServerRewound));
        let after_host_change = Expected { requested: NOW - 5 * SECOND, ..expected(NOW) };
        assert_eq!(reason(&after_host_change, NOW - 9 * SECOND), None);
        // A first start with a clock that is ahead.
        let own = Expected { is_own_time: true, ..expected(NOW) };
        assert_eq!(reason(&own, NOW - HOUR), None);
    }

    #[test]
    fn a_cursor_in_the_future_is_a_gap_since_it_was_stored() {
        let now = Timestamp(NOW);
        assert_eq!(of_future_cursor(NOW + MAX_AHEAD_US, now, now), None);
        let gap = of_future_cursor(NOW + HOUR, Timestamp(NOW - HOUR), now).unwrap();
        assert_eq!(gap, Gap { reason: GapReason::CursorInFuture, from: Timestamp(NOW - HOUR), to: now });
        let unknown = of_future_cursor(NOW + HOUR, Timestamp(NOW + HOUR), now).unwrap();
        assert_eq!(unknown.from, Timestamp(0));
    }
}
