//! Puts the pipeline together.

use std::sync::{Arc, Mutex};

use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::atproto::Nsid;
use crate::clock::Clock;
use crate::random::Random;
use crate::store::Db;

use super::commit::{Committer, Sink};
use super::handle::{StreamHandle, Tasks};
use super::notice::Observer;
use super::reader::Reader;
use super::scripts::RecordScripts;
use super::settings::StreamConfig;
use super::status::{Shared, Watch};
use super::stream::{Connect, Network};
use super::writer::{WRITER_QUEUE, Writer, WriterHandle};

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
pub(super) fn launch<S: Sink + Clone, C: Connect + Clone + Sync>(
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
    let (superseded, is_superseded) = watch::channel(None);
    let writer =
        Writer { queue: messages, committer, clock: clock.clone(), timing, stop: stop.clone(), superseded };

    let watch = |name, told: &CancellationToken| Watch { name, shared: shared.clone(), told: told.clone() };
    let (reading, writing) = (watch("reader", &shutdown), watch("writer", &stop));
    let reader = Reader {
        sink,
        connect,
        tracked,
        observer,
        scripts,
        clock,
        random,
        config,
        shared: shared.clone(),
        queue: queue.clone(),
        superseded: is_superseded,
        shutdown: shutdown.clone(),
    };
    let reader = async move {
        let _reading = reading;
        reader.run().await
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
