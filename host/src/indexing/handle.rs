//! The running stream, as the rest of the server sees it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::store::lease::Lease;

use super::status::{Shared, StreamStatus};
use super::writer::WriterHandle;

/// How long shutdown waits for what is queued. A healthy database needs milliseconds; for one that is away we
/// don't wait longer: the events come again from the committed cursor.
const DRAIN: Duration = Duration::from_secs(5);

/// Status, and the way in for local writes.
#[derive(Debug)]
pub struct StreamHandle {
    pub(super) shared: Arc<Shared>,
    pub(super) writer: WriterHandle,
    pub(super) tasks: Mutex<Option<Tasks>>,
}

#[derive(Debug)]
pub(super) struct Tasks {
    /// Comes back with the lease.
    pub reader: JoinHandle<Lease>,
    pub writer: JoinHandle<()>,
    /// The writer commits what is queued and ends.
    pub stop: CancellationToken,
    /// The writer ends even if it can't commit.
    pub give_up: CancellationToken,
    /// Ends the connection.
    pub shutdown: CancellationToken,
}

impl StreamHandle {
    pub fn status(&self) -> StreamStatus {
        self.shared.status()
    }

    /// The way into the writer for changes that don't come from the stream.
    pub fn writer(&self) -> WriterHandle {
        self.writer.clone()
    }

    /// Ends the connection, commits what is queued, and waits until all tasks have ended (some ten seconds at
    /// most). Local writes are refused from here on. A second call does nothing.
    pub async fn finish(&self) {
        let tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Tasks { reader, writer, stop, give_up, shutdown }) = tasks else { return };
        shutdown.cancel();
        let lease = ended("reader", reader).await;
        stop.cancel();
        let written = ended("writer", writer).await;
        if lease.is_none() || written.is_none() {
            tracing::warn!("the stream did not end in time; it resumes from the last committed cursor");
        }
        // What hangs on the database, if anything does.
        give_up.cancel();
        if let Some(mut lease) = lease {
            lease.give_back().await;
        }
    }
}

async fn ended<T>(name: &'static str, mut task: JoinHandle<T>) -> Option<T> {
    match tokio::time::timeout(DRAIN, &mut task).await {
        Ok(Ok(value)) => Some(value),
        Ok(Err(error)) => {
            tracing::error!(%error, name, "a task of the stream died");
            None
        }
        Err(_) => None,
    }
}
