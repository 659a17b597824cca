//! Parses and filters the frames of each chunk, numbers the chunks and hands their events to the shards.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::lexicons::Followed;
use belvedere_base::clock::{Clock, Timestamp};
use belvedere_base::hand_over_thread::hand_over_thread;
use belvedere_protocol::atproto::Did;
use belvedere_storage::store::gaps::{Gap, GapReason};

use super::change::{ClaimedRecord, IndexChange};
use super::filter::filter;
use super::frame::{self, EventKind, Frame, Remark};
use super::gaps::Gaps;
use super::observer::Observer;
use super::position::{ChunkTimes, Position};
use super::published::PublishedLexicon;
use super::resumption::{Expected, Resumed, Resumption};
use super::shard::{PipelineClosed, Shards};
use super::status::LiveStatus;
use super::submitted::Submitted;
use super::tally::{DropReason, Tally};
use super::throttle::Throttle;
use super::watermark::Reach;

/// Most frames in a chunk: enough to make the queue's cost per frame negligible, few enough to keep all shards busy.
pub(super) const CHUNK_FRAMES: usize = 256;

/// Bytes after which a chunk is closed. The queues hold a few dozen chunks, so this bounds the pipeline's memory. A
/// single frame may be larger, up to the socket's limit.
pub(super) const CHUNK_BYTES: usize = 1 << 20;

/// Bytes of frames that are parsed in the time in which one byte of a record is inspected. An ordinary chunk is not worth
/// another thread.
const PARSED_PER_INSPECTED: usize = 4;

/// An event's time may be this far ahead of our clock and still move the cursor. Beyond that it must not: after a
/// restart the stream would start at that time, for example in the year 3000.
const CLOCK_SKEW_US: i64 = 10 * 60 * 1_000_000;

/// Malformed frames, and remarks of the server, that are logged in a burst, and the interval between log lines after that.
const LOGGED_BURST: u32 = 5;
const LOGGED_EVERY_US: i64 = 60_000_000;

/// Characters of a remark that are logged.
const MAX_REMARK_CHARS: usize = 200;

pub(super) struct Intake {
    tracked: watch::Receiver<Followed>,
    shards: Shards,
    live_status: Arc<LiveStatus>,
    observer: Arc<dyn Observer>,
    clock: Clock,
    malformed: Throttle,
    remarks: Throttle,
    tally: Tally,
    changes: Vec<IndexChange<ClaimedRecord>>,
    /// The accounts of the chunk whose identity has changed. They are announced when a gap before the chunk is stored.
    identities: Vec<Did>,
    submitted: Submitted,
    next_chunk: u64,
    gaps: Gaps,
    /// The server of the subscription, for the operator.
    url: String,
    /// `None` after the subscription has reached the position of the one before.
    resumption: Option<Resumption>,
    /// The server's times have gone back, and no chunk has entered the pipeline since.
    is_rewound: bool,
}

impl Intake {
    pub(super) fn new(tracked: watch::Receiver<Followed>, shards: Shards, gaps: Gaps) -> Self {
        let (live_status, clock) = (Arc::clone(&gaps.live_status), gaps.clock.clone());
        let observer = Arc::clone(&gaps.observer);
        let throttle = || Throttle::new(clock.clone(), LOGGED_BURST, LOGGED_EVERY_US);
        let (malformed, remarks) = (throttle(), throttle());
        Self {
            tracked,
            shards,
            live_status,
            observer,
            clock,
            malformed,
            remarks,
            tally: Tally::default(),
            changes: Vec::with_capacity(CHUNK_FRAMES),
            identities: Vec::new(),
            submitted: Submitted::default(),
            next_chunk: 0,
            gaps,
            url: String::new(),
            resumption: None,
            is_rewound: false,
        }
    }

    /// Begins a subscription. Its events are compared with what it should begin with.
    pub(super) fn begin(&mut self, expected: Expected) {
        self.url.clone_from(&expected.url);
        self.resumption = Some(Resumption::new(expected, &self.gaps.timing));
    }

    /// When [`Intake::end_window`] is to be called, if the server has begun before the position.
    pub(super) fn window_ends(&self) -> Option<Instant> {
        self.resumption.as_ref().and_then(Resumption::window_ends)
    }

    /// Looks whether a server that has begun before the position replays events, or is live. The latter is a gap, after
    /// which the position is the server's.
    pub(super) async fn end_window(&mut self, position: &mut Position) {
        let Some((gap, newest)) = self.resumption.as_mut().and_then(Resumption::end_window) else { return };
        self.resumption = None;
        self.gaps.found(&self.url, gap).await;
        *position = Position::at(newest, self.clock.now());
        self.is_rewound = true;
    }

    /// Stores and reports a gap. Nothing after it has been accepted yet.
    pub(super) async fn found_gap(&self, url: &str, gap: Gap) {
        self.gaps.found(url, gap).await;
    }

    /// Parses and filters one chunk, hands its events to the shards, and moves the position; `frames` is left empty.
    /// Returns whether the server has reached the position. Waits while the pipeline is full.
    ///
    /// Not cancel-safe: dropping the future loses the chunk, so the caller must then end the stream.
    pub(super) async fn accept(
        &mut self,
        frames: &mut Vec<Bytes>,
        position: &mut Position,
    ) -> Result<bool, PipelineClosed> {
        let (began, now) = (Instant::now(), self.clock.now());
        let before = position.events_until;
        let mut unreadable = Unreadable::default();
        let followed = self.tracked.borrow().clone();
        self.submitted.track(&followed.collections);
        let mut times: Option<ChunkTimes> = None;
        let bytes: usize = frames.iter().map(Bytes::len).sum();
        hand_over_thread(bytes / PARSED_PER_INSPECTED, || {
            for bytes in frames.drain(..) {
                self.read(&bytes, &followed, now, (&mut times, &mut unreadable));
            }
        });
        if let Some(ChunkTimes { newest, .. }) = times {
            self.live_status.events_arrived(now, newest, self.tally.events);
            metrics::gauge!("belvedere_stream_lag_seconds").set((now.0 - newest).max(0) as f64 / 1e6);
        } else if unreadable.frames > 0 {
            self.live_status.only_unreadable_arrived();
        }
        let reach = self.resume(position, times, now).await;
        if unreadable.frames > 0 {
            // The events of such a frame happened between the events around it. A replay's are from before the
            // position.
            let (first, newest) = times.map_or((before, now.0), |times| (times.first, times.newest));
            let (from, to) = (Timestamp(first.min(before)), Timestamp(newest.max(before)));
            let gap = Gap { reason: GapReason::FrameUnreadable, from, to };
            self.gaps.store(&gap).await;
            if unreadable.is_reported {
                self.gaps.report(&self.url, gap);
            }
        }
        for did in self.identities.drain(..) {
            self.observer.identity_changed(&did);
        }
        let chunk = self.next_chunk;
        self.next_chunk += 1;
        let sent = self.shards.submit(chunk, reach, &mut self.changes, &mut self.tally).await;
        self.tally.flush();
        if let Some(resumption) = &mut self.resumption {
            resumption.paused(began.elapsed());
        }
        sent.map(|()| reach.events_until.is_some())
    }

    /// Parses and filters one frame.
    fn read(
        &mut self,
        bytes: &Bytes,
        followed: &Followed,
        now: Timestamp,
        (times, unreadable): (&mut Option<ChunkTimes>, &mut Unreadable),
    ) {
        self.tally.bytes += bytes.len() as u64;
        match frame::parse(bytes) {
            Ok(Frame::Remark(remark)) => self.log(&remark),
            Ok(Frame::Event(event)) => {
                note(times, event.time_us, matches!(event.kind, EventKind::Commit(_)), now);
                if followed.published_lexicons
                    && let Some(published) = PublishedLexicon::of(&event)
                {
                    self.observer.lexicon_published(published);
                }
                self.tally.events += 1;
                if matches!(event.kind, EventKind::Identity) {
                    return self.identity_changed(&event.did);
                }
                match filter(&event, &followed.collections, now) {
                    Ok(change) if self.submitted.is_new(&change) => self.changes.push(change),
                    Ok(_) => self.tally.drop(DropReason::Replayed),
                    Err(why) => self.tally.drop(why),
                }
            }
            Err(error) => {
                self.tally.drop(DropReason::Malformed);
                unreadable.frames += 1;
                if let Some(held_back) = self.malformed.pass() {
                    tracing::warn!(%error, size_bytes = bytes.len(), held_back, "a stream frame is malformed");
                    unreadable.is_reported = true;
                }
            }
        }
    }

    fn identity_changed(&mut self, did: &str) {
        let Ok(did) = Did::try_from(did) else { return self.tally.drop(DropReason::BadDid) };
        self.tally.identities += 1;
        self.identities.push(did);
    }

    /// Moves the position over a chunk, unless the server has not reached it yet. A gap before the chunk is stored first.
    async fn resume(&mut self, position: &mut Position, times: Option<ChunkTimes>, now: Timestamp) -> Reach {
        let Some(times) = times else { return Reach::default() };
        if let Some(resumption) = &mut self.resumption {
            let resumed = resumption.take(times.first, times.newest);
            let is_gap = matches!(resumed, Resumed::WithGap(_));
            match resumed {
                Resumed::NotYet => return Reach::default(),
                Resumed::Reached => {}
                Resumed::WithGap(gap) => self.gaps.found(&self.url, gap).await,
            }
            // A second server has sent what it has up to here, or a catch-up reads what is missing.
            if is_gap || resumption.is_other_server() {
                position.commits_until = position.commits_until.max(position.events_until);
            }
            self.resumption = None;
        }
        position.advance(times, now);
        Reach {
            events_until: Some(position.events_until),
            commits_until: Some(position.commits_until),
            is_rewound: std::mem::take(&mut self.is_rewound),
        }
    }

    fn log(&mut self, remark: &Remark) {
        self.tally.drop(DropReason::Unknown);
        if let Some(held_back) = self.remarks.pass() {
            let short = |text: &str| text.chars().take(MAX_REMARK_CHARS).collect::<String>();
            let (name, message) = (short(&remark.name), short(&remark.message));
            let (url, is_error) = (&self.url, remark.is_error);
            tracing::info!(
                url,
                is_error,
                ?name,
                ?message,
                held_back,
                "the server says something of the stream"
            );
        }
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

/// The frames of a chunk that can't be read.
#[derive(Default)]
struct Unreadable {
    frames: u32,
    /// One of them was logged, and not held back.
    is_reported: bool,
}

/// Adds the time of an event, unless it is implausible.
fn note(times: &mut Option<ChunkTimes>, time_us: i64, is_commit: bool, now: Timestamp) {
    if time_us <= 0 || time_us > now.0.saturating_add(CLOCK_SKEW_US) {
        return;
    }
    let first = ChunkTimes { first: time_us, newest: time_us, newest_commit: None };
    let times = times.get_or_insert(first);
    times.newest = times.newest.max(time_us);
    if is_commit {
        times.newest_commit = times.newest_commit.max(Some(time_us));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn implausible_times_do_not_move_the_cursor() {
        let now = Timestamp(1_700_000_000_000_000);
        let mut times: Option<ChunkTimes> = None;
        for time in [0, -5, i64::MAX, now.0 + CLOCK_SKEW_US + 1] {
            note(&mut times, time, true, now);
        }
        assert_eq!(times, None);
        for (time, is_commit) in [(now.0 - 5, true), (now.0, false), (now.0 - 3, true)] {
            note(&mut times, time, is_commit, now);
        }
        let (first, newest, newest_commit) = (now.0 - 5, now.0, Some(now.0 - 3));
        assert_eq!(times, Some(ChunkTimes { first, newest, newest_commit }));
    }
}
