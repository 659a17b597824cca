//! Ends the removal of plugins: the row goes when the last of its accounts has gone. Also removes what they left behind.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::loading::Loader;
use belvedere_storage::store::{Db, StoreError, plugins};

/// Interval at which a plugin that still has accounts is looked at. Their tokens are revoked at other servers, which
/// takes seconds.
const POLL: Duration = Duration::from_secs(1);

/// Interval at which the store is looked at without a reason: another host may have ended in the middle of a removal.
const IDLE: Duration = Duration::from_mins(1);

/// Interval at which values of plugins that are gone are removed. That reads the keys of all values.
const SWEEP: Duration = Duration::from_hours(1);

/// Removes the rows of deleted plugins. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Removals {
    db: Db,
    loader: Loader,
    wake: Arc<Notify>,
}

impl Removals {
    pub fn new(db: Db, loader: Loader) -> Self {
        Self { db, loader, wake: Arc::default() }
    }

    /// Must be called after a plugin was marked as being removed, and after the last of its accounts has gone.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// Removes the plugins that are marked and have no accounts, until the server drains.
    pub async fn run(self, drain: CancellationToken) {
        let mut sweep_at = Instant::now();
        loop {
            if Instant::now() >= sweep_at {
                sweep_at = Instant::now() + SWEEP;
                if let Err(error) = plugins::remove_stray_values(&self.db).await {
                    tracing::warn!(%error, "values of removed plugins stay for another hour");
                }
            }
            let pause = match self.finish().await {
                Ok(true) => IDLE,
                Ok(false) => POLL,
                Err(error) => {
                    tracing::warn!(%error, "plugins can't be removed yet");
                    POLL
                }
            };
            let woken = async { drop(tokio::time::timeout(pause, self.wake.notified()).await) };
            if drain.run_until_cancelled(woken).await.is_none() {
                return;
            }
        }
    }

    /// Whether none is left.
    async fn finish(&self) -> Result<bool, StoreError> {
        let (mut removed, mut left) = (0, 0);
        for id in plugins::removing(&self.db).await? {
            if plugins::finish_removal(&self.db, &id).await? {
                tracing::info!(plugin = id, "a plugin was removed");
                removed += 1;
            } else {
                left += 1;
            }
        }
        if removed > 0 {
            self.loader.changed().await?;
        }
        Ok(left == 0)
    }
}
