//! What a running job can do about itself.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::store::jobs;
use crate::store::{Db, StoreError};

/// The longest that `job.wait` waits (`lua-runtime.md` §12).
const LONGEST_WAIT: f64 = 3600.0;

/// Between two looks at the job's status while it waits.
const LOOK: Duration = Duration::from_millis(200);

/// A job in the hands of one worker. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RunningJob(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    db: Db,
    id: String,
    worker: String,
    /// Whether the server itself is ending.
    ending: watch::Receiver<bool>,
}

impl RunningJob {
    /// The job `id`, which `worker` has claimed.
    pub fn new(db: Db, id: String, worker: String, ending: watch::Receiver<bool>) -> Self {
        Self(Arc::new(Parts { db, id, worker, ending }))
    }

    /// Replaces the progress, JSON text of an object.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn progress(&self, progress: &str) -> Result<(), StoreError> {
        jobs::set_progress(&self.0.db, &self.0.id, &self.0.worker, progress).await.map(drop)
    }

    /// Whether somebody wants it to pause or to be cancelled, or the server ends, or it is in other hands.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn should_stop(&self) -> Result<bool, StoreError> {
        if *self.0.ending.borrow() {
            return Ok(true);
        }
        let status = jobs::status(&self.0.db, &self.0.id, &self.0.worker).await?;
        Ok(status.as_deref() != Some("running"))
    }

    /// Waits for so many seconds, or until it should stop.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn wait(&self, seconds: f64) -> Result<(), StoreError> {
        let seconds = if seconds.is_nan() { 0.0 } else { seconds.clamp(0.0, LONGEST_WAIT) };
        let until = tokio::time::Instant::now() + Duration::from_secs_f64(seconds);
        let mut ending = self.0.ending.clone();
        loop {
            let left = until.saturating_duration_since(tokio::time::Instant::now());
            if left.is_zero() || self.should_stop().await? {
                return Ok(());
            }
            tokio::select! {
                () = tokio::time::sleep(left.min(LOOK)) => {}
                // The sender lives as long as the workers do.
                _ = ending.wait_for(|ending| *ending) => return Ok(()),
            }
        }
    }
}
