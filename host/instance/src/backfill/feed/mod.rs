//! The progress of jobs for those who follow it over HTTP (service.md, Backfill progress stream; admin-api.md §12.4).
//!
//! However many readers a job has, there is one task for it, its feed: it formats messages once and sends them in
//! frames of many. The frames that a slow reader has not taken are dropped, and it continues with a snapshot. A feed
//! also polls the job's row, so that readers on a host where the job does not run follow it too; they see counters and
//! stages, but no repos.

mod messages;
mod pump;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::messages::{Frame, Snapshot};
use super::handle::Backfills;
use belvedere_storage::store::backfill::{self, JobRow};
use belvedere_storage::store::{Db, StoreError};
use belvedere_web::fair_share::{FairPool, Full, Permit, Tenant};

/// Frames that a reader may be behind by: 4 MiB of messages at most, which all readers of a job share.
const FRAMES: usize = 256;

/// Maximum age of the numbers of errors in snapshots: counting them reads an index.
const COUNTS_MAX_AGE: Duration = Duration::from_secs(5);

/// The feeds of this host. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Feeds(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    db: Db,
    backfills: Backfills,
    streams: FairPool,
    tasks: TaskTracker,
    drain: CancellationToken,
    /// The jobs that have readers. A feed removes itself after its last reader has left.
    open: Mutex<HashMap<String, Arc<Feed>>>,
}

/// One job that has readers.
struct Feed {
    job_id: String,
    db: Db,
    frames: broadcast::Sender<Frame>,
    /// The job's state that the feed has read.
    state: watch::Sender<JobRow>,
    counts: tokio::sync::Mutex<Option<(Instant, BTreeMap<String, i64>)>>,
}

impl Feeds {
    /// `streams` bounds the open streams; `drain` ends all of them; `tasks` are waited for after that.
    pub fn new(
        db: Db,
        backfills: Backfills,
        streams: FairPool,
        tasks: TaskTracker,
        drain: CancellationToken,
    ) -> Self {
        Self(Arc::new(Inner { db, backfills, streams, tasks, drain, open: Mutex::default() }))
    }

    /// The messages about a job, in the format of event streams: a snapshot, then what happens, until the job has ended
    /// or the server drains. For a job that has ended, only the last message.
    ///
    /// # Errors
    /// When too many streams are open, of this user or in total.
    pub fn follow(
        &self,
        user: &Tenant,
        job: JobRow,
    ) -> Result<impl Stream<Item = Bytes> + Send + use<>, Full> {
        let permit = self.0.streams.try_enter(user)?;
        let messages = if job.completed_at.is_some() {
            stream::iter([messages::completed(&job)]).left_stream()
        } else {
            let (feed, frames) = self.0.join(job);
            let reader = Reader { feed, frames, next: Next::Snapshot, _permit: permit };
            stream::unfold(reader, Reader::next).right_stream()
        };
        Ok(messages.take_until(self.0.drain.clone().cancelled_owned()))
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Feed>>> {
        // Poisoning is ignored: every step leaves the map consistent.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Subscribes to the feed of a job, and starts it for its first reader.
    fn join(self: &Arc<Self>, job: JobRow) -> (Arc<Feed>, broadcast::Receiver<Frame>) {
        let mut open = self.lock();
        if let Some(feed) = open.get(&job.id) {
            return (Arc::clone(feed), feed.frames.subscribe());
        }
        let (frames, receiver) = broadcast::channel(FRAMES);
        // Before the first snapshot: nothing that happens in between is missed.
        let watcher = self.backfills.subscribe(&job.id);
        let feed = Arc::new(Feed {
            job_id: job.id.clone(),
            db: self.db.clone(),
            frames,
            state: watch::Sender::new(job),
            counts: tokio::sync::Mutex::default(),
        });
        open.insert(feed.job_id.clone(), Arc::clone(&feed));
        drop(open);
        self.tasks.spawn(pump::run(Arc::clone(self), Arc::clone(&feed), watcher));
        (feed, receiver)
    }

    /// Removes a feed without readers. False when there is one again.
    fn retire(&self, feed: &Feed) -> bool {
        let mut open = self.lock();
        let is_unused = feed.frames.receiver_count() == 0;
        if is_unused {
            open.remove(&feed.job_id);
        }
        is_unused
    }

    /// Removes a feed and sends its last frame. A reader that comes later gets a new feed.
    fn close(&self, feed: &Feed, last: Frame) {
        let mut open = self.lock();
        open.remove(&feed.job_id);
        // Fails without readers.
        let _ = feed.frames.send(last);
    }
}

impl Feed {
    /// The message that shows the job's present state.
    async fn snapshot(&self) -> Bytes {
        let counts = self.error_counts().await.unwrap_or_else(|error| {
            tracing::warn!(%error, "the errors of a backfill can't be counted");
            BTreeMap::new()
        });
        let state = self.state.borrow();
        Snapshot { job: &state, error_counts: &counts }.message()
    }

    async fn error_counts(&self) -> Result<BTreeMap<String, i64>, StoreError> {
        let mut counts = self.counts.lock().await;
        if let Some((at, counts)) = &*counts
            && at.elapsed() < COUNTS_MAX_AGE
        {
            return Ok(counts.clone());
        }
        let read = backfill::error_counts(&self.db, &self.job_id).await?;
        *counts = Some((Instant::now(), read.clone()));
        Ok(read)
    }
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").field("job_id", &self.job_id).finish_non_exhaustive()
    }
}

/// A stream that is being read.
struct Reader {
    feed: Arc<Feed>,
    frames: broadcast::Receiver<Frame>,
    next: Next,
    _permit: Permit,
}

enum Next {
    Snapshot,
    Frame,
    End,
}

impl Reader {
    async fn next(mut self) -> Option<(Bytes, Self)> {
        let bytes = match self.next {
            Next::End => return None,
            Next::Snapshot => self.feed.snapshot().await,
            Next::Frame => match self.frames.recv().await {
                Ok(Frame { bytes, is_last: false }) => bytes,
                Ok(Frame { bytes, is_last: true }) => return Some((bytes, Self { next: Next::End, ..self })),
                Err(RecvError::Lagged(_)) => self.feed.snapshot().await,
                Err(RecvError::Closed) => return None,
            },
        };
        Some((bytes, Self { next: Next::Frame, ..self }))
    }
}
