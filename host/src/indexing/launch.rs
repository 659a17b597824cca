//! Puts the pipeline together.

use std::num::NonZero;
use std::sync::{Arc, Mutex};

use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::atproto::Nsid;
use crate::clock::Clock;
use crate::random::Random;
use crate::store::Db;

use super::apply::Applier;
use super::commit::{Committer, Sink};
use super::handle::{StreamHandle, Tasks};
use super::intake::Intake;
use super::notice::Observer;
use super::scripts::RecordScripts;
use super::settings::{StreamConfig, Timing};
use super::shard::Shards;
use super::status::{Shared, Watch};
use super::stream::{Backoff, Connect, Context, Network, Stream};
use super::writer::{WRITER_QUEUE, Writer, WriterHandle};

/// More shards than this only wait for the one writer.
const MAX_SHARDS: usize = 8;

/// What the stream needs from the rest of the server.
pub struct Deps {
    pub db: Db,
    /// The tracked record collections, sorted, as `lexicons::Registry::subscribe` hands them out.
    pub tracked: watch::Receiver<Arc<[Nsid]>>,
    pub observer: Arc<dyn Observer>,
    /// Decides about events before they are indexed.
    pub scripts: Arc<dyn RecordScripts>,
    pub clock: Clock,
    pub random: Random,
    pub config: StreamConfig,
    /// Ends the connection; what was received is still committed ([`StreamHandle::finish`] waits for it).
    pub shutdown: CancellationToken,
}

impl std::fmt::Debug for Deps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Deps").field("config", &self.config).finish_non_exhaustive()
    }
}

/// Starts the stream and the writer on the current runtime. Returns at once; a database that is away is waited
/// for in the background.
pub fn start(deps: Deps) -> StreamHandle {
    let Deps { db, tracked, observer, scripts, clock, random, config, shutdown } = deps;
    launch(db, Network, tracked, observer, scripts, clock, random, config, shutdown)
}

#[expect(
    clippy::too_many_arguments,
    reason = "one caller here, one in the tests, each naming what it passes"
)]
pub(super) fn launch<S: Sink + Clone, C: Connect>(
    sink: S,
    connect: C,
    tracked: watch::Receiver<Arc<[Nsid]>>,
    observer: Arc<dyn Observer>,
    scripts: Arc<dyn RecordScripts>,
    clock: Clock,
    random: Random,
    config: StreamConfig,
    shutdown: CancellationToken,
) -> StreamHandle {
    let timing = config.timing;
    let shared = Arc::new(Shared::new(clock.clone(), timing));
    let (queue, messages) = mpsc::channel(WRITER_QUEUE);
    let (stop, give_up) = (CancellationToken::new(), CancellationToken::new());

    let committer = Committer::new(
        sink.clone(),
        shared.clone(),
        observer.clone(),
        clock.clone(),
        random.clone(),
        timing,
        give_up.clone(),
    );
    let writer = Writer { queue: messages, committer, clock: clock.clone(), timing, stop: stop.clone() };

    let shards = config.shards.unwrap_or_else(default_shards).clamp(1, MAX_SHARDS);
    let applier = Applier::new(observer.clone(), clock.clone());
    let shards = Shards::start(shards, applier, scripts, queue.clone());
    let intake = Intake::new(tracked.clone(), shards, shared.clone(), clock);
    let context = Context { tracked, shared: shared.clone(), observer, random, shutdown: shutdown.clone() };
    let watch = |name, told: &CancellationToken| Watch { name, shared: shared.clone(), told: told.clone() };
    let (reading, writing) = (watch("reader", &shutdown), watch("writer", &stop));
    let reader = async move {
        let _reading = reading;
        let Some(cursor) = stored_cursor(&sink, &context, timing).await else { return };
        context.shared.committed(cursor);
        let told = context.shutdown.clone();
        if let Some(stream) = Stream::new(connect, &config, context, intake, cursor) {
            stream.run().await;
        } else {
            tracing::warn!("no stream is configured: only local writes reach the index");
            told.cancelled().await;
        }
    };
    let writer = async move {
        let _writing = writing;
        writer.run().await;
    };
    StreamHandle {
        shared,
        writer: WriterHandle::new(queue),
        tasks: Mutex::new(Some(Tasks {
            reader: tokio::spawn(reader),
            writer: tokio::spawn(writer),
            stop,
            give_up,
            shutdown,
        })),
    }
}

/// Where the stream was left. Without it we can't begin: a live start would leave a gap. `None` at shutdown.
async fn stored_cursor<S: Sink>(sink: &S, context: &Context, timing: Timing) -> Option<Option<i64>> {
    let mut backoff = Backoff::new(timing.commit_retry, timing.commit_retry_cap);
    loop {
        match sink.stored_cursor().await {
            Ok(cursor) => return Some(cursor),
            Err(error) => {
                context.shared.commit_failed();
                tracing::warn!(%error, "the stream's cursor can't be read");
            }
        }
        tokio::select! {
            () = tokio::time::sleep(backoff.next(&context.random)) => {}
            () = context.shutdown.cancelled() => return None,
        }
    }
}

/// All cores but the writer's.
fn default_shards() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get).saturating_sub(1)
}
