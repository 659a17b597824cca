//! Stores gaps of the stream, each before the cursor can pass it.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use belvedere_base::clock::{Clock, Timestamp};
use belvedere_storage::store::StoreError;
use belvedere_storage::store::gaps::{Gap, GapReason};

use super::observer::{Observer, StreamReport};
use super::settings::Timing;
use super::status::LiveStatus;

/// A cursor this far ahead of our clock was not set by an event: such events do not move it (`intake`).
const MAX_AHEAD_US: i64 = 15 * 60 * 1_000_000;

/// A store for gaps.
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
    /// Stores and reports a gap. Until this returns, nothing after the gap may be committed.
    pub(super) async fn found(&self, url: &str, gap: Gap) {
        self.store(&gap).await;
        self.report(url, gap);
    }

    /// Stores a gap, with retries.
    pub(super) async fn store(&self, gap: &Gap) {
        let mut wait = self.timing.commit_retry;
        while let Err(error) = self.store.store(gap, self.clock.now()).await {
            self.live_status.commit_failed();
            tracing::warn!(%error, "can't store a gap of the stream");
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(self.timing.commit_retry_cap);
        }
        self.live_status.committed(None);
    }

    pub(super) fn report(&self, url: &str, gap: Gap) {
        let (reason, from, to) = (gap.reason.as_str(), gap.from, gap.to);
        tracing::warn!(url, reason, %from, %to, "events of the stream may be missing in the index");
        metrics::counter!("belvedere_stream_gaps_total", "reason" => reason).increment(1);
        self.observer.report(StreamReport::Gap { url: url.to_owned(), gap });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000_000_000;
    const HOUR: i64 = 3_600_000_000;

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
