//! From stream to index.
//!
//! ```text
//! server ─▶ stream/ (connection) ─▶ intake (parse, filter) ─▶ shard × N (CID, references) ─▶ writer ─▶ store
//! ```
//!
//! Frames move in chunks over bounded queues, so a slow database is felt at the socket. Each repo belongs to one
//! shard, which keeps its order. One writer commits changes and the cursor in one transaction. What comes from
//! the stream is user input: dropped, counted, reported within bounds, never fatal.

pub mod frame;
mod notice;
mod settings;
mod status;
mod throttle;
mod watermark;

pub use notice::{Notice, Observer};
pub use settings::{StreamConfig, Timing};
pub use status::{Stall, StreamStatus};

use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::atproto::Nsid;
use crate::clock::Clock;
use crate::random::Random;
use crate::store::Db;
use crate::store::index::Change;

/// What the stream needs from the rest of the server.
#[expect(missing_debug_implementations, reason = "the observer is a trait object")]
pub struct Deps {
    pub db: Db,
    /// The tracked record collections, as `lexicons::Registry::subscribe` hands them out.
    pub tracked: watch::Receiver<Arc<[Nsid]>>,
    pub observer: Arc<dyn Observer>,
    pub clock: Clock,
    pub random: Random,
    pub config: StreamConfig,
    /// Ends the connection; what was received is still committed.
    pub shutdown: CancellationToken,
}

/// The running stream.
#[derive(Debug)]
pub struct StreamHandle {}

impl StreamHandle {
    pub fn status(&self) -> StreamStatus {
        todo!()
    }

    /// The way into the writer for changes that don't come from the stream.
    pub fn writer(&self) -> WriterHandle {
        todo!()
    }

    /// Commits what is queued and waits until all tasks have ended. Cancel `shutdown` first.
    pub async fn finish(&self) {
        todo!()
    }
}

/// Puts changes into the index through the same writer as the stream. Cheap to clone.
#[derive(Clone, Debug)]
pub struct WriterHandle {}

/// The writer has been shut down; the change was not stored.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("the index writer has stopped")]
pub struct WriterClosed;

impl WriterHandle {
    /// Returns when the change is committed (or lost to a newer `rev`).
    pub async fn submit(&self, _change: Change) -> Result<(), WriterClosed> {
        todo!()
    }
}

/// Starts the stream and the writer on the current runtime.
pub async fn start(_deps: Deps) -> StreamHandle {
    todo!()
}
