//! Parses and filters the frames of each chunk, numbers the chunks and hands their events to the shards.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::watch;

use crate::clock::{Clock, Timestamp};
use crate::lexicons::Followed;
use crate::store::gaps::Gap;

use super::envelope::{self, Envelope};
use super::frame;
use super::gaps::{Expected, Gaps};
use super::notice::Observer;
use super::published::PublishedLexicon;
use super::shard::{PipelineClosed, Shards};
use super::status::LiveStatus;
use super::tally::{DropReason, Tally};
use super::throttle::Throttle;

/// Most frames in a chunk: enough to make the queue's cost per frame negligible, few enough to keep all shards busy.
pub(super) const CHUNK_FRAMES: usize = 256;

/// Bytes after which a chunk is closed. The queues hold a few dozen chunks, so this bounds the pipeline's memory. A
/// single frame may be larger, up to the socket's limit.
pub(super) const CHUNK_BYTES: usize = 1 << 20;

/// An event's time may be this far ahead of our clock and still move the cursor. Beyond that it must not: after a
/// restart the stream would start at that time, for example in the year 3000.
const CLOCK_SKEW_US: i64 = 10 * 60 * 1_000_000;

/// Malformed frames that are logged in a burst, and the interval between log lines after that.
const MALFORMED_BURST: u32 = 5;
const MALFORMED_EVERY_US: i64 = 60_000_000;

pub(super) struct Intake {
    tracked: watch::Receiver<Followed>,
    shards: Shards,
    live_status: Arc<LiveStatus>,
    observer: Arc<dyn Observer>,
    clock: Clock,
    malformed: Throttle,
    tally: Tally,
    envelopes: Vec<Envelope>,
    next_chunk: u64,
    gaps: Gaps,
    /// What the subscription should begin with, until its first event.
    expected: Option<Expected>,
}

/// Times of the events in a chunk, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Times {
    pub first: Option<i64>,
    /// The highest time that may become the cursor.
    pub last: Option<i64>,
}

impl Intake {
    pub(super) fn new(tracked: watch::Receiver<Followed>, shards: Shards, gaps: Gaps) -> Self {
        let (live_status, clock) = (Arc::clone(&gaps.live_status), gaps.clock.clone());
        let observer = Arc::clone(&gaps.observer);
        let malformed = Throttle::new(clock.clone(), MALFORMED_BURST, MALFORMED_EVERY_US);
        Self {
            tracked,
            shards,
            live_status,
            observer,
            clock,
            malformed,
            tally: Tally::default(),
            envelopes: Vec::with_capacity(CHUNK_FRAMES),
            next_chunk: 0,
            gaps,
            expected: None,
        }
    }

    /// Begins a subscription. Its first event is compared with what it should begin with.
    pub(super) fn begin(&mut self, expected: Option<Expected>) {
        self.expected = expected;
    }

    /// Stores and reports a gap. Nothing after it has been accepted yet.
    pub(super) async fn found_gap(&self, url: &str, gap: Gap) {
        self.gaps.found(url, gap).await;
    }

    /// Parses and filters one chunk and hands its events to the shards; `frames` is left empty. Waits while the
    /// pipeline is full.
    ///
    /// Not cancel-safe: dropping the future loses the chunk, so the caller must then end the stream.
    pub(super) async fn accept(&mut self, frames: &mut Vec<Bytes>) -> Result<Times, PipelineClosed> {
        let now = self.clock.now();
        let Followed { collections, published_lexicons } = self.tracked.borrow().clone();
        let mut times = Times::default();
        for bytes in frames.drain(..) {
            self.tally.bytes += bytes.len() as u64;
            match frame::parse(&bytes) {
                Ok(event) => {
                    times.note(event.time_us, now);
                    if published_lexicons && let Some(published) = PublishedLexicon::of(&event) {
                        self.observer.lexicon_published(published);
                    }
                    match envelope::filter(&event, &collections, now) {
                        Ok(envelope) => self.envelopes.push(envelope),
                        Err(why) => self.tally.drop(why),
                    }
                    self.tally.events += 1;
                }
                Err(error) => {
                    self.tally.drop(DropReason::Malformed);
                    if let Some(held_back) = self.malformed.pass() {
                        tracing::warn!(%error, size_bytes = bytes.len(), held_back, "a stream frame is malformed");
                    }
                }
            }
        }
        if let Some(last) = times.last {
            self.live_status.events_arrived(now, last, self.tally.events);
            metrics::gauge!("belvedere_stream_lag_seconds").set((now.0 - last).max(0) as f64 / 1e6);
        }
        if let Some(first) = times.first
            && let Some(expected) = self.expected.take()
            && let Some(gap) = expected.gap_before(first, self.gaps.timing.rewind)
        {
            self.gaps.found(&expected.url, gap).await;
        }
        let chunk = self.next_chunk;
        self.next_chunk += 1;
        let sent = self.shards.submit(chunk, times.last, &mut self.envelopes, &mut self.tally).await;
        self.tally.flush();
        sent.map(|()| times)
    }

    /// Stores the current time as the cursor of a stream that has none. Returns the cursor once it is committed.
    pub(super) async fn store_initial_cursor(&self) -> Result<i64, PipelineClosed> {
        let now = self.clock.now().0;
        self.shards.store_initial_cursor(now).await.map(|()| now)
    }

    pub(super) async fn finish(self) {
        self.shards.finish().await;
    }
}

impl Times {
    fn note(&mut self, time_us: i64, now: Timestamp) {
        if time_us > 0 && time_us <= now.0.saturating_add(CLOCK_SKEW_US) {
            self.first = self.first.or(Some(time_us));
            self.last = self.last.max(Some(time_us));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn implausible_times_do_not_move_the_cursor() {
        let now = Timestamp(1_700_000_000_000_000);
        let mut times = Times::default();
        for time in [0, -5, i64::MAX, now.0 + CLOCK_SKEW_US + 1] {
            times.note(time, now);
        }
        assert_eq!(times, Times::default());
        for time in [now.0 - 5, now.0, now.0 - 3] {
            times.note(time, now);
        }
        assert_eq!(times, Times { first: Some(now.0 - 5), last: Some(now.0) });
    }
}
