//! The worker: runs the jobs one after another, on the host that has the lease of backfills.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::deps::Deps;
use super::handle::Backfills;
use super::outcome::RunError;
use super::progress::Progress;
use super::repairs::RepairPace;
use super::reporter::Reporter;
use super::run;
use crate::core::Core;
use crate::events::Event;
use belvedere_storage::store::StoreError;
use belvedere_storage::store::backfill::{self, ActiveJob, CANCELLED_BY_USER, Counters};
use belvedere_storage::store::lease::Lease;
use belvedere_storage::store::status::{BackfillStatus, Request, Stage};

/// Interval between checks whether the status of a job has changed on another host. Changes on this host are noticed at
/// once. A job stops within a second.
const STATUS_INTERVAL: Duration = Duration::from_millis(500);

/// Interval before a job that broke off is taken up again.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// Starts the worker. When `drain` is cancelled, the running job stops; the next start continues it.
pub fn start(backfills: Backfills, deps: Deps) {
    let tasks = deps.tasks.clone();
    tasks.spawn(Worker { backfills, deps }.work());
}

struct Worker {
    backfills: Backfills,
    deps: Deps,
}

impl Worker {
    async fn work(self) {
        let mut lease = Lease::of_backfills(&self.deps.db);
        while let Some(term) = lease.acquire("backfills", &self.deps.clock, &self.deps.drain).await {
            let core = Core { db: lease.fenced(&self.deps.db, term), ..self.deps.core.clone() };
            let deps = Deps { core, ..self.deps.clone() };
            Box::pin(Self { backfills: self.backfills.clone(), deps }.work_with(&mut lease)).await;
        }
        lease.release().await;
    }

    async fn pause(&self) {
        self.deps.drain.run_until_cancelled(tokio::time::sleep(RETRY_INTERVAL)).await;
    }

    /// Runs jobs until the lease is lost or the server drains.
    async fn work_with(&self, lease: &mut Lease) {
        let mut repairs = RepairPace::new();
        loop {
            let next = match self.next(&mut repairs).await {
                Ok(Some(job)) => {
                    let lost = self.watch(&job, lease).await;
                    if lost || self.deps.drain.is_cancelled() {
                        return;
                    }
                    continue;
                }
                Ok(None) => STATUS_INTERVAL,
                Err(error) => {
                    tracing::warn!(%error, "can't read the backfill jobs");
                    RETRY_INTERVAL
                }
            };
            tokio::select! {
                () = self.deps.drain.cancelled() => return,
                () = lease.lost() => return,
                () = self.backfills.changed.notified() => {}
                () = tokio::time::sleep(next) => {}
            }
        }
    }

    /// The next job to run. Pauses and cancels those that wait, and queues repairs when no job waits.
    async fn next(&self, repairs: &mut RepairPace) -> Result<Option<ActiveJob>, StoreError> {
        self.settle(None).await?;
        self.backfills.catch_up(self.deps.settings.catches_up()).await?;
        let next = backfill::next(&self.deps.db).await?;
        if next.is_some() || !repairs.is_due() || !self.backfills.repair().await? {
            return Ok(next);
        }
        repairs.spend();
        backfill::next(&self.deps.db).await
    }

    /// Ends the requests to pause or cancel jobs that are not running.
    async fn settle(&self, running: Option<i64>) -> Result<(), StoreError> {
        for job in backfill::settle(&self.deps.db, running, self.deps.clock.now()).await? {
            self.announce(&job, job.status, job.error.clone(), None);
        }
        Ok(())
    }

    /// Runs a job, and stops it when its status changes, the lease is lost or the server drains. Returns whether the
    /// lease was lost.
    async fn watch(&self, job: &ActiveJob, lease: &mut Lease) -> bool {
        let stop = self.deps.drain.child_token();
        let mut running = std::pin::pin!(self.run(job, &stop));
        // Polled together with the job, which may hold the database connection that this waits for.
        let mut following = std::pin::pin!(self.follow_status(job, &stop));
        let mut lost = false;
        let ended = loop {
            tokio::select! {
                ended = &mut running => break ended,
                never = &mut following => match never {},
                () = lease.lost(), if !lost => {
                    tracing::warn!(job = job.id, "another host can take the backfill job: this one has lost the lease");
                    lost = true;
                    stop.cancel();
                }
            }
        };
        if let Err(error) = ended {
            tracing::warn!(job = job.id, %error, "a backfill job broke off; it is continued in a moment");
            self.pause().await;
        }
        lost
    }

    /// Stops the job when it is to be paused or cancelled, and settles requests for others.
    async fn follow_status(&self, job: &ActiveJob, stop: &CancellationToken) -> Infallible {
        loop {
            tokio::select! {
                () = self.backfills.changed.notified() => {}
                () = tokio::time::sleep(STATUS_INTERVAL) => {}
            }
            match backfill::status(&self.deps.db, job.seq).await {
                Ok(status) if status != Some(BackfillStatus::Running) => stop.cancel(),
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(%error, job = job.id, "can't check the status of a backfill job");
                }
            }
            if let Err(error) = self.settle(Some(job.seq)).await {
                tracing::warn!(%error, "can't pause or cancel waiting backfill jobs");
            }
        }
    }

    /// Runs a job and stores how it ended. A stopped job keeps its status, which [`Worker::settle`] completes.
    async fn run(&self, job: &ActiveJob, stop: &CancellationToken) -> Result<(), RunError> {
        let Core { db, clock, .. } = &self.deps.core;
        let reporter = Reporter::of(db, job, &self.backfills.broadcast).await?;
        let (request, error) = match Box::pin(run::run(&self.deps, job, &reporter, stop)).await {
            Ok(note) => (Request::Complete, note),
            Err(RunError::Failed(error)) => (Request::Fail, Some(error)),
            Err(RunError::Stopped) => return Ok(()),
            Err(error) => return Err(error),
        };
        reporter.save().await?;
        if let Some(status) = backfill::end(db, job.seq, request, error.as_deref(), clock.now()).await? {
            self.announce(job, status, error, Some(&reporter));
        }
        Ok(())
    }

    /// Records the end of a job and sends it to the watchers.
    fn announce(
        &self,
        job: &ActiveJob,
        status: BackfillStatus,
        error: Option<String>,
        reporter: Option<&Reporter>,
    ) {
        let (collection, job_id) = (job.collection.clone(), job.id.clone());
        let Counters { total_repos, failed_repos, total_records, .. } =
            reporter.map(Reporter::counters).unwrap_or_default();
        let (event, stage, error) = match status {
            BackfillStatus::Completed => {
                let event =
                    Event::BackfillCompleted { collection, job_id, total_repos, failed_repos, total_records };
                (event, Stage::Completed, error)
            }
            BackfillStatus::Cancelled => {
                let event = Event::BackfillCancelled { actor: job.created_by.clone(), job_id };
                (event, Stage::Cancelled, Some(CANCELLED_BY_USER.to_owned()))
            }
            BackfillStatus::Running
            | BackfillStatus::Pausing
            | BackfillStatus::Paused
            | BackfillStatus::Cancelling => {
                return tracing::error!(job = job.id, %status, "a backfill that has not ended is not announced");
            }
            BackfillStatus::Failed => {
                let text = error.clone().unwrap_or_default();
                (Event::BackfillFailed { collection, job_id, error: text }, Stage::Failed, error)
            }
        };
        self.deps.events.record(event);
        let (id, broadcast) = (Arc::from(job.id.as_str()), &self.backfills.broadcast);
        broadcast.send(&id, || Progress::JobStageChanged { stage });
        broadcast.send(&id, || Progress::JobCompleted { status, error });
    }
}
