//! The pipeline without a connection: frames in, transactions out.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::indexing::RecordScriptRunner;
use crate::indexing::apply::RecordChecker;
use crate::indexing::commit::{Committer, Sink};
use crate::indexing::gaps::Gaps;
use crate::indexing::intake::Intake;
use crate::indexing::position::Position;
use crate::indexing::repo_queues::Limits;
use crate::indexing::shard::Shards;
use crate::indexing::status::LiveStatus;
use crate::indexing::testing::Recorder;
use crate::indexing::writer::{WRITER_QUEUE, Writer, WriterHandle};
use crate::lexicons::Followed;
use belvedere_base::clock::{Clock, Timestamp};
use belvedere_base::random::Random;
use belvedere_storage::store::lease::Term;

/// The way that events take through the pipeline, which must not matter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub shards: usize,
    /// Records of more bytes are checked in the queue of their repo.
    pub large_bytes: usize,
}

pub(super) async fn cursor(sink: &impl Sink) -> Option<i64> {
    sink.stored_cursor().await.unwrap().map(|stored| stored.cursor)
}

/// Waits until the cursor is there, so that the queues of the repos are empty: what is queued at the end is not written.
pub(super) async fn committed_until(sink: &impl Sink, time_us: Option<i64>) {
    while cursor(sink).await < time_us {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

pub(super) struct Pipeline {
    intake: Intake,
    position: Position,
    writer: JoinHandle<()>,
    /// For changes that are not the stream's.
    pub local: WriterHandle,
    _tracked: watch::Sender<Followed>,
}

impl Pipeline {
    pub(super) fn start(
        sink: impl Sink + Clone,
        collection: &str,
        layout: Layout,
        scripts: Arc<dyn RecordScriptRunner>,
    ) -> Self {
        let (recorder, clock) = (Arc::new(Recorder::default()), Clock::system());
        let timing = super::fast();
        let live_status = Arc::new(LiveStatus::new(clock.clone(), timing));
        let (queue, messages) = mpsc::channel(WRITER_QUEUE);
        let (stop, give_up) = (CancellationToken::new(), CancellationToken::new());
        let random = Random::seeded(1);
        let gaps = Gaps {
            store: Arc::new(sink.clone()),
            observer: recorder.clone(),
            live_status: live_status.clone(),
            clock: clock.clone(),
            timing,
        };
        let committer =
            Committer::new(sink, live_status, recorder.clone(), clock.clone(), random, timing, give_up);
        let superseded = watch::Sender::new(None);
        let time = clock.clone();
        let writer = Writer { queue: messages, committer, clock: time, timing, stop, superseded };
        let writer = tokio::spawn(writer.run());
        let (tracked, watch) = watch::channel(super::nsids(&[collection]));
        let local = WriterHandle::new(queue.clone(), Arc::default());
        let checker = RecordChecker::new(recorder.clone(), Arc::default(), clock.clone());
        let limits = Limits { large_bytes: layout.large_bytes, ..Limits::for_shards(layout.shards) };
        let shards = Shards::start(layout.shards, limits, checker, scripts, queue, Term::ALONE);
        let intake = Intake::new(watch, shards, gaps);
        let position = Position::at(0, Timestamp(0));
        Self { intake, position, writer, local, _tracked: tracked }
    }

    /// Takes in one chunk.
    pub(super) async fn accept(&mut self, frames: &[Bytes]) {
        self.intake.accept(&mut frames.to_vec(), &mut self.position).await.unwrap();
    }

    /// Commits everything and ends.
    pub(super) async fn finish(self) {
        let Self { intake, writer, local, .. } = self;
        drop(local);
        intake.finish().await;
        writer.await.unwrap();
    }

    /// Ends at once, as a killed process does.
    pub(super) async fn kill(self) {
        self.writer.abort();
        assert!(self.writer.await.is_err_and(|error| error.is_cancelled()));
    }
}
