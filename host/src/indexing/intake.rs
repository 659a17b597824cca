//! Frames to envelopes: parses, filters, counts, numbers the chunks.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::watch;

use crate::atproto::Nsid;
use crate::clock::{Clock, Timestamp};

use super::envelope::{self, Envelope};
use super::frame;
use super::shard::{Closed, Shards};
use super::status::Shared;
use super::tally::{Dropped, Tally};
use super::throttle::Throttle;

/// Most frames in a chunk: enough that a queue operation costs nothing per event, few enough that the shards are
/// all busy.
pub(super) const CHUNK_FRAMES: usize = 256;

/// Bytes after which a chunk is closed. The queues hold a few dozen chunks, so this is what bounds the memory of
/// frames on their way; one frame may be larger, up to the socket's cap.
pub(super) const CHUNK_BYTES: usize = 1 << 20;

/// An event may be this much ahead of our clock and still move the cursor. One from the year 3000 must not: the
/// stream would start there after a restart.
const CLOCK_SKEW_US: i64 = 10 * 60 * 1_000_000;

/// Malformed frames logged at once, and how often after that.
const MALFORMED_BURST: u32 = 5;
const MALFORMED_EVERY_US: i64 = 60_000_000;

pub(super) struct Intake {
    tracked: watch::Receiver<Arc<[Nsid]>>,
    shards: Shards,
    shared: Arc<Shared>,
    clock: Clock,
    malformed: Throttle,
    tally: Tally,
    envelopes: Vec<Envelope>,
    next_chunk: u64,
}

/// Times of the events in a chunk, microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Times {
    pub first: Option<i64>,
    /// The highest that may be taken for a cursor.
    pub last: Option<i64>,
}

impl Intake {
    pub(super) fn new(
        tracked: watch::Receiver<Arc<[Nsid]>>,
        shards: Shards,
        shared: Arc<Shared>,
        clock: Clock,
    ) -> Self {
        let malformed = Throttle::new(clock.clone(), MALFORMED_BURST, MALFORMED_EVERY_US);
        Self {
            tracked,
            shards,
            shared,
            clock,
            malformed,
            tally: Tally::default(),
            envelopes: Vec::with_capacity(CHUNK_FRAMES),
            next_chunk: 0,
        }
    }

    /// Takes a chunk of frames in; `frames` is left empty. Waits while the pipeline is full.
    ///
    /// Not cancel-safe: a caller that drops the future has lost the chunk and must end the stream.
    pub(super) async fn accept(&mut self, frames: &mut Vec<Bytes>) -> Result<Times, Closed> {
        let now = self.clock.now();
        let tracked = self.tracked.borrow().clone();
        let mut times = Times::default();
        for bytes in frames.drain(..) {
            self.tally.bytes += bytes.len() as u64;
            match frame::parse(&bytes) {
                Ok(frame) => {
                    times.note(frame.time_us, now);
                    match envelope::open(&frame, &tracked) {
                        Ok(envelope) => self.envelopes.push(envelope),
                        Err(why) => self.tally.drop(why),
                    }
                    self.tally.events += 1;
                }
                Err(error) => {
                    self.tally.drop(Dropped::Malformed);
                    if let Some(held_back) = self.malformed.pass() {
                        tracing::warn!(%error, size_bytes = bytes.len(), held_back, "a stream frame is malformed");
                    }
                }
            }
        }
        if let Some(last) = times.last {
            self.shared.event_arrived(now);
            metrics::gauge!("belvedere_stream_lag_seconds").set((now.0 - last).max(0) as f64 / 1e6);
        }
        let chunk = self.next_chunk;
        self.next_chunk += 1;
        let sent = self.shards.submit(chunk, times.last, &mut self.envelopes, &mut self.tally).await;
        self.tally.flush();
        sent.map(|()| times)
    }

    /// Fixes where a stream without a cursor begins: now. Returns the cursor once it is stored.
    pub(super) async fn begin(&self) -> Result<i64, Closed> {
        let now = self.clock.now().0;
        self.shards.begin(now).await.map(|()| now)
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
    fn times_of_another_age_move_nothing() {
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
