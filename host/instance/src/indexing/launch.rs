//! Builds the pipeline and starts its tasks.

use std::sync::{Arc, Mutex};

use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::core::Core;
use crate::lexicons::{Followed, Registry};
use belvedere_base::clock::Clock;
use belvedere_base::random::Random;
use belvedere_web::websocket::{Connect, Direct};

use super::commit::{Committer, Sink};
use super::handle::{StreamHandle, Tasks};
use super::observer::Observer;
use super::reader::Reader;
use super::scripts::RecordScriptRunner;
use super::settings::StreamConfig;
use super::status::{EndGuard, LiveStatus};
use super::stream::MAX_MESSAGE_BYTES;
use super::writer::{WRITER_QUEUE, Writer, WriterHandle};

/// Starts the stream and the writer on the current runtime. Returns at once: the tasks retry while the database is
/// unreachable.
///
/// `tracked` is what the stream has to deliver (`Registry::subscribe`). `scripts` decide on changes before they are indexed.
/// When the server drains, the connection ends; events that were received are still committed, and
/// [`StreamHandle::finish`] waits for that.
pub fn start(
    core: &Core,
    tracked: watch::Receiver<Followed>,
    scripts: Arc<dyn RecordScriptRunner>,
    observer: Arc<dyn Observer>,
    config: StreamConfig,
) -> StreamHandle {
    let Core { db, registry, clock, random, drain, .. } = core.clone();
    let direct = Direct { max_message_bytes: MAX_MESSAGE_BYTES, protocol: None };
    let shutdown = drain.child_token();
    launch(db, direct, tracked, observer, registry, scripts, clock, random, config, shutdown)
}

#[expect(clippy::too_many_arguments, reason = "called here and by the tests only, with named values")]
pub(super) fn launch<S: Sink + Clone, C: Connect + Clone + Sync>(
    sink: S,
    connect: C,
    tracked: watch::Receiver<Followed>,
    observer: Arc<dyn Observer>,
    registry: Arc<Registry>,
    scripts: Arc<dyn RecordScriptRunner>,
    clock: Clock,
    random: Random,
    config: StreamConfig,
    shutdown: CancellationToken,
) -> StreamHandle {
    let timing = config.timing;
    let live_status = Arc::new(LiveStatus::new(clock.clone(), timing));
    let (queue, messages) = mpsc::channel(WRITER_QUEUE);
    let (stop, give_up) = (CancellationToken::new(), CancellationToken::new());

    let committer = Committer::new(
        sink.clone(),
        live_status.clone(),
        observer.clone(),
        clock.clone(),
        random.clone(),
        timing,
        give_up.clone(),
    );
    let (superseded, is_superseded) = watch::channel(None);
    let writer =
        Writer { queue: messages, committer, clock: clock.clone(), timing, stop: stop.clone(), superseded };

    let guard = |name, stop: &CancellationToken| EndGuard {
        name,
        live_status: live_status.clone(),
        stop: stop.clone(),
    };
    let (reader_guard, writer_guard) = (guard("reader", &shutdown), guard("writer", &stop));
    let reader = Reader {
        sink,
        connect,
        tracked,
        observer,
        registry: Arc::clone(&registry),
        scripts,
        clock,
        random,
        config,
        live_status: live_status.clone(),
        queue: queue.clone(),
        superseded: is_superseded,
        shutdown: shutdown.clone(),
    };
    let reader = async move {
        let _guard = reader_guard;
        reader.run().await
    };
    let writer = async move {
        let _guard = writer_guard;
        writer.run().await;
    };
    StreamHandle {
        live_status,
        writer: WriterHandle::new(queue, registry),
        tasks: Mutex::new(Some(Tasks {
            reader: tokio::spawn(reader),
            writer: tokio::spawn(writer),
            stop,
            give_up,
            shutdown,
        })),
    }
}
