//! The interface of a running job: it reports progress, waits, and asks whether to stop.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use belvedere_storage::store::jobs;
use belvedere_storage::store::status::JobStatus;
use belvedere_storage::store::{Db, StoreError};

/// The longest wait of `job.wait`, in seconds (`lua-runtime.md` §12).
const MAX_WAIT: f64 = 3600.0;

/// Time between two checks of the job's status while it waits.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// A job that a worker of this host runs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RunningJob(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    db: Db,
    id: String,
    worker: String,
    /// Whether the server is shutting down.
    ending: watch::Receiver<bool>,
}

impl RunningJob {
    /// The job `id`, which `worker` has claimed.
    pub fn new(db: Db, id: String, worker: String, ending: watch::Receiver<bool>) -> Self {
        Self(Arc::new(Inner { db, id, worker, ending }))
    }

    /// Replaces the progress. `progress` is the JSON text of an object.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn progress(&self, progress: &str) -> Result<(), StoreError> {
        jobs::set_progress(&self.0.db, &self.0.id, &self.0.worker, progress).await.map(drop)
    }

    /// Whether the job should stop: it was paused or cancelled, the server is shutting down, or another worker has
    /// claimed it.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn should_stop(&self) -> Result<bool, StoreError> {
        if *self.0.ending.borrow() {
            return Ok(true);
        }
        let status = jobs::status(&self.0.db, &self.0.id, &self.0.worker).await?;
        Ok(status != Some(JobStatus::Running))
    }

    /// Waits for `seconds`, or until the job should stop.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn wait(&self, seconds: f64) -> Result<(), StoreError> {
        let seconds = if seconds.is_nan() { 0.0 } else { seconds.clamp(0.0, MAX_WAIT) };
        let until = tokio::time::Instant::now() + Duration::from_secs_f64(seconds);
        let mut ending = self.0.ending.clone();
        loop {
            let left = until.saturating_duration_since(tokio::time::Instant::now());
            if left.is_zero() || self.should_stop().await? {
                return Ok(());
            }
            tokio::select! {
                () = tokio::time::sleep(left.min(POLL_INTERVAL)) => {}
                // The sender lives as long as the workers do.
                _ = ending.wait_for(|ending| *ending) => return Ok(()),
            }
        }
    }
}
