//! The handle of the running stream: status, local writes and shutdown.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use belvedere_storage::store::lease::Lease;

use super::status::{LiveStatus, StreamStatus};
use super::writer::WriterHandle;

/// Time that shutdown waits for each task to finish its queue. A healthy database needs milliseconds. When the database
/// is unreachable, a longer wait gains nothing: the stream replays the events from the committed cursor.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Reports the stream's status, accepts local writes and shuts the stream down.
#[derive(Debug)]
pub struct StreamHandle {
    pub(super) live_status: Arc<LiveStatus>,
    pub(super) writer: WriterHandle,
    pub(super) tasks: Mutex<Option<Tasks>>,
}

#[derive(Debug)]
pub(super) struct Tasks {
    /// Returns the lease when it ends.
    pub reader: JoinHandle<Lease>,
    pub writer: JoinHandle<()>,
    /// Makes the writer commit what is queued and end.
    pub stop: CancellationToken,
    /// Makes the writer end even if it can't commit.
    pub give_up: CancellationToken,
    /// Ends the connection.
    pub shutdown: CancellationToken,
}

impl StreamHandle {
    pub fn status(&self) -> StreamStatus {
        self.live_status.snapshot()
    }

    /// A handle to the writer for local writes.
    pub fn writer(&self) -> WriterHandle {
        self.writer.clone()
    }

    /// Ends the connection, commits what is queued, and waits until all tasks have ended (about ten seconds at most).
    /// Local writes fail from here on. A second call does nothing.
    pub async fn finish(&self) {
        let tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Tasks { reader, writer, stop, give_up, shutdown }) = tasks else { return };
        shutdown.cancel();
        let lease = join("reader", reader).await;
        stop.cancel();
        let written = join("writer", writer).await;
        if lease.is_none() || written.is_none() {
            tracing::warn!("the stream did not end in time; it resumes from the last committed cursor");
        }
        // Ends a writer that still waits for the database.
        give_up.cancel();
        if let Some(mut lease) = lease {
            lease.release().await;
        }
    }
}

async fn join<T>(name: &'static str, mut task: JoinHandle<T>) -> Option<T> {
    match tokio::time::timeout(DRAIN_TIMEOUT, &mut task).await {
        Ok(Ok(value)) => Some(value),
        Ok(Err(error)) => {
            tracing::error!(%error, name, "a stream task failed");
            None
        }
        Err(_) => None,
    }
}
