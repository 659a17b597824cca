//! Runs one subscription for each active labeler, on the host that has the lease of labelers.

use std::collections::HashMap;
use std::time::Duration;

use tokio::task::{Id, JoinSet};
use tokio_util::sync::CancellationToken;

use super::handle::Labelers;
use super::removal;
use super::subscription::Subscription;
use belvedere_protocol::atproto::Did;
use belvedere_storage::store::labelers::{self, LabelerStatus};
use belvedere_storage::store::labels;
use belvedere_storage::store::lease::Lease;
use belvedere_storage::store::{Db, StoreError};

/// Wait before the list of labelers is read again after a failure of the database.
const RETRY: Duration = Duration::from_secs(2);

/// Labels moved in one transaction: some milliseconds of SQLite's single writer, which indexing needs too.
const LABELS_PER_STEP: u32 = 1000;

impl Labelers {
    /// Starts the supervisor. When the server drains, the subscriptions end; the next start continues them at their
    /// cursors.
    pub fn start(&self) {
        let supervisor = Supervisor { labelers: self.clone(), running: Running::default() };
        self.core.tasks.spawn(supervisor.work());
    }
}

struct Supervisor {
    labelers: Labelers,
    running: Running,
}

/// The tasks of labelers: subscriptions and removals.
#[derive(Default)]
struct Running {
    tasks: JoinSet<()>,
    by_did: HashMap<String, (Id, LabelerStatus, CancellationToken)>,
}

impl Running {
    /// Forgets a task that has ended.
    fn ended(&mut self, task: Id) {
        self.by_did.retain(|_, (id, ..)| *id != task);
    }

    /// Stops all tasks and waits for them.
    async fn stop_all(&mut self) {
        for (_, _, stop) in self.by_did.values() {
            stop.cancel();
        }
        while self.tasks.join_next().await.is_some() {}
        self.by_did.clear();
    }
}

impl Supervisor {
    async fn work(mut self) {
        let mut lease = Lease::of_labelers(&self.labelers.core.db);
        while lease.acquire("labelers", &self.labelers.core.clock, &self.labelers.core.drain).await.is_some()
        {
            self.labelers.update(|status| status.leading = true);
            self.lead(&mut lease).await;
            self.running.stop_all().await;
            self.labelers.update(|status| (status.leading, status.active) = (false, 0));
        }
        lease.release().await;
    }

    /// Follows the labelers until the lease is lost or the server drains.
    async fn lead(&mut self, lease: &mut Lease) {
        let mut is_clean = false;
        loop {
            let retry = match self.reconcile(&mut is_clean).await {
                Ok(()) => None,
                Err(error) => {
                    tracing::warn!(%error, "can't read which labelers are to be followed");
                    Some(RETRY)
                }
            };
            tokio::select! {
                () = self.labelers.core.drain.cancelled() => return,
                () = lease.lost() => {
                    tracing::warn!("another host can follow the labelers: this one has lost the lease");
                    return;
                }
                () = self.labelers.changed() => {}
                Some(ended) = self.running.tasks.join_next_with_id() => match ended {
                    Ok((task, ())) => self.running.ended(task),
                    Err(error) => {
                        tracing::error!(%error, "the task of a labeler failed; it is started again");
                        self.running.ended(error.id());
                    }
                },
                () = sleep(retry) => {}
            }
        }
    }

    /// Starts and stops tasks, so that they are those of the list.
    async fn reconcile(&mut self, is_clean: &mut bool) -> Result<(), StoreError> {
        let db = &self.labelers.core.db;
        if !*is_clean {
            labelers::disconnect_all(db).await?;
            // A server before 0054 may have had the lease before.
            while labels::move_versions(db, LABELS_PER_STEP).await? > 0
                && !self.labelers.core.drain.is_cancelled()
            {}
            *is_clean = true;
        }
        let listed = labelers::list(db).await?;
        let wanted: HashMap<&str, LabelerStatus> =
            listed.iter().map(|row| (row.did.as_str(), row.status)).collect();
        for (did, (_, status, stop)) in &self.running.by_did {
            // The task is forgotten when it has ended; then this runs again.
            if wanted.get(did.as_str()) != Some(status) {
                stop.cancel();
            }
        }
        let active = listed.iter().filter(|row| row.status == LabelerStatus::Active).count();
        self.labelers.update(|status| status.active = active);
        for row in &listed {
            if row.status != LabelerStatus::Paused && !self.running.by_did.contains_key(&row.did) {
                self.start(&row.did, row.status);
            }
        }
        Ok(())
    }

    fn start(&mut self, did: &str, status: LabelerStatus) {
        let stop = self.labelers.core.drain.child_token();
        let task = if status == LabelerStatus::Deleting {
            let (db, did, stop) = (self.labelers.core.db.clone(), did.to_owned(), stop.clone());
            self.running.tasks.spawn(removal(db, did, stop))
        } else {
            let Ok(parsed) = Did::try_from(did) else {
                tracing::error!(did, "the list of labelers has a row that is not a DID");
                return;
            };
            let subscription = Subscription::new(self.labelers.clone(), parsed, stop.clone());
            self.running.tasks.spawn(subscription.run())
        };
        self.running.by_did.insert(did.to_owned(), (task.id(), status, stop));
    }
}

async fn removal(db: Db, did: String, stop: CancellationToken) {
    stop.run_until_cancelled(removal::remove(&db, &did)).await;
}

async fn sleep(duration: Option<Duration>) {
    match duration {
        Some(duration) => tokio::time::sleep(duration).await,
        None => std::future::pending().await,
    }
}
