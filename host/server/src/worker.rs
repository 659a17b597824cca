//! Runs background jobs: each worker claims a job, runs its script, renews the job's lease meanwhile, and stores the
//! result.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::event_scripts::{EventScripts, REINDEX_TYPE};
use crate::scheduler;
use belvedere_base::clock::{Clock, Timestamp};
use belvedere_base::random::Random;
use belvedere_instance::events::redact::{self, Names};
use belvedere_instance::events::{Event, EventLog};
use belvedere_instance::indexing::WriterHandle;
use belvedere_instance::jobs::{JobQueue, RunningJob, purge};
use belvedere_instance::pds::SessionAuthority;
use belvedere_instance::xrpc::Caller;
use belvedere_protocol::atproto::Did;
use belvedere_protocol::trigger::TriggerKind;
use belvedere_scripting::scripts::{FailureKind, Invocation, ScriptFailure, ScriptRuntime};
use belvedere_storage::store::jobs::{self, JobRow, Worker};
use belvedere_storage::store::status::JobStatus;
use belvedere_storage::store::{Db, StoreError};
use belvedere_web::fair_share::{Bounds, FairPool, Tenant};

/// Time for which a job belongs to its worker without a renewal. After that, another worker may claim it.
const LEASE_SECONDS: i64 = 30;

/// Interval between renewals of a lease; at most two in a row may fail.
const RENEW_INTERVAL: Duration = Duration::from_secs(8);

/// Interval between checks whether an admin has cancelled or paused a running job.
const STATUS_INTERVAL: Duration = Duration::from_millis(200);

/// Time that a cancelled job may continue after its worker has noticed. A script that calls `job.should_stop` can end
/// by itself; together with [`STATUS_INTERVAL`], any other is stopped within a second.
const CANCEL_GRACE: Duration = Duration::from_millis(500);

const _: () = assert!(
    STATUS_INTERVAL.as_millis() + CANCEL_GRACE.as_millis() < 1_000,
    "a cancelled job ends within a second"
);

/// Ended jobs that are kept per tenant: at most 320 MB with their results.
const MAX_ENDED_PER_TENANT: u32 = 1_000;

/// Old jobs that are deleted when a job ends. More than one, so that a lowered limit is reached.
const MAX_DELETED_PER_JOB: u32 = 10;

/// Interval between checks of the queue for jobs that other hosts created. Jobs of this host are noticed at once.
const QUEUE_INTERVAL: Duration = Duration::from_secs(2);

/// Time that a job may continue after the server began to shut down. A script that calls `job.should_stop` can end by
/// itself.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(3);

/// Largest result of a job, in bytes; a job with a larger one fails.
const MAX_RESULT_BYTES: usize = 256 << 10;

/// The workers of this host. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Workers {
    pub db: Db,
    pub runtime: ScriptRuntime,
    pub events: EventLog,
    pub event_scripts: EventScripts,
    pub writer: WriterHandle,
    pub clock: Clock,
    pub random: Random,
    pub queue: JobQueue,
    /// Limits how many workers of this host run jobs of the same tenant.
    pub permits: FairPool,
}

/// The pool for `count` workers. A tenant may use half of them, so that with two or more workers no tenant uses all.
pub fn pool(count: u32) -> FairPool {
    // Jobs wait in the database, not in the pool.
    FairPool::new("job_workers", Bounds::half_per_tenant(count as usize, 0, Duration::ZERO))
}

/// The end of a run.
enum RunEnd {
    Completed(String),
    Failed(String),
    /// The script did not run, or was stopped by a shutdown: the job returns to the queue.
    Requeue,
    /// The job belongs to another worker now.
    LeaseLost,
}

impl Workers {
    /// Starts `count` workers. When `drain` is cancelled, running jobs are stopped: a script that calls
    /// `job.should_stop` can end by itself, any other is stopped after a few seconds. All return to the queue and run
    /// again after the next start or on another host.
    pub fn start(&self, count: u32, tasks: &TaskTracker, drain: &CancellationToken) {
        let (shutdown_sender, shutdown) = watch::channel(false);
        let drain = drain.clone();
        tasks.spawn(async move {
            drain.cancelled().await;
            // Fails when all workers have ended.
            let _ = shutdown_sender.send(true);
        });
        let host = self.random.uuid();
        for number in 0..count {
            let (workers, shutdown) = (self.clone(), shutdown.clone());
            let (host, name) = (host.clone(), format!("{host}/{number}"));
            tasks.spawn(async move { Box::pin(workers.work(&host, &name, &shutdown)).await });
        }
    }

    /// Runs the jobs that are queued, one after the other and also those that they queue, up to `max`. Returns how many it ran.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn run_queued(&self, max: usize) -> Result<usize, StoreError> {
        let (_running, shutdown) = watch::channel(false);
        let (host, name) = ("queue", "queue/0");
        let mut ran = 0;
        while ran < max
            && let Some(job) = self.next(host, name).await?
        {
            self.run(&job, name, &shutdown).await?;
            ran += 1;
        }
        Ok(ran)
    }

    async fn work(&self, host: &str, name: &str, shutdown: &watch::Receiver<bool>) {
        while !*shutdown.borrow() {
            let worked = match self.next(host, name).await {
                Ok(Some(job)) => self.run(&job, name, shutdown).await.map(|()| true),
                Ok(None) => Ok(false),
                Err(error) => Err(error),
            };
            match worked {
                Ok(true) => {}
                Ok(false) => self.wait_for_job(shutdown).await,
                Err(error) => {
                    tracing::warn!(%error, "can't read the job queue");
                    self.wait_for_job(shutdown).await;
                }
            }
        }
    }

    /// Waits until there may be a job, or the server shuts down.
    async fn wait_for_job(&self, shutdown: &watch::Receiver<bool>) {
        tokio::select! {
            () = self.queue.added() => {}
            () = tokio::time::sleep(QUEUE_INTERVAL) => {}
            () = shutdown_begun(shutdown) => {}
        }
    }

    async fn next(&self, host: &str, name: &str) -> Result<Option<JobRow>, StoreError> {
        let now = self.clock.now();
        let recovered = jobs::recover(&self.db, now).await?;
        if recovered > 0 {
            tracing::info!(jobs = recovered, "jobs whose lease ended returned to the queue");
        }
        let max_per_tenant = self.permits.bounds().per_tenant as i64;
        jobs::claim(&self.db, Worker { name, host, max_per_tenant }, now, lease(now)).await
    }

    async fn run(
        &self,
        job: &JobRow,
        name: &str,
        shutdown: &watch::Receiver<bool>,
    ) -> Result<(), StoreError> {
        // Two workers of this host may have claimed jobs of one tenant at the same time. If that exceeds the tenant's
        // limit, this job returns to the queue.
        let tenant = tenant(job);
        let Ok(_permit) = self.permits.try_enter(&tenant) else {
            return jobs::release(&self.db, &job.id, name, self.clock.now()).await;
        };
        self.log_event(job, |actor, job_type, job_id| Event::JobStarted { actor, job_type, job_id });
        // The script's future yields at every call of the host and every fraction of a millisecond of its own work.
        // When another branch completes first, the future is dropped there; the script can't catch that.
        let run_end = tokio::select! {
            end = self.run_script(job, &tenant, name, shutdown) => end,
            end = self.keep_lease(&job.id, name) => end,
            () = shutdown_grace_over(shutdown) => RunEnd::Requeue,
        };
        let end = match run_end {
            RunEnd::Completed(result) => Ok(result),
            RunEnd::Failed(error) => Err(error),
            RunEnd::Requeue => return jobs::release(&self.db, &job.id, name, self.clock.now()).await,
            RunEnd::LeaseLost => return Ok(()),
        };
        let outcome = end.as_deref().map_err(String::as_str);
        let status = jobs::finish(&self.db, &job.id, name, outcome, self.clock.now()).await?;
        jobs::delete_ended_beyond(&self.db, &job.tenant, MAX_ENDED_PER_TENANT, MAX_DELETED_PER_JOB).await?;
        // Without a status another worker has claimed the job, and reports its end.
        let Some(status) = status else { return Ok(()) };
        self.log_event(job, |actor, job_type, job_id| match (status, end) {
            (JobStatus::Paused, _) => Event::JobPaused { actor, job_type, job_id },
            (JobStatus::Cancelled, _) => Event::JobCancelled { actor, job_type, job_id },
            (_, Ok(result)) => {
                Event::JobCompleted { actor, job_type, job_id, result: self.redacted(&result) }
            }
            (_, Err(error)) => Event::JobFailed { actor, job_type, job_id, error },
        });
        Ok(())
    }

    /// A result for the event log, with secrets redacted.
    fn redacted(&self, result: &str) -> Value {
        let mut value = serde_json::from_str(result).unwrap_or_default();
        redact::redact(&mut value, Names::OfCaller, &|text| self.runtime.services.variables.redact(text));
        value
    }

    fn log_event(&self, job: &JobRow, event: impl FnOnce(String, String, String) -> Event) {
        self.events.record(event(job.created_by.clone(), job.job_type.clone(), job.id.clone()));
    }

    async fn run_script(
        &self,
        job: &JobRow,
        tenant: &Tenant,
        name: &str,
        shutdown: &watch::Receiver<bool>,
    ) -> RunEnd {
        let running = RunningJob::new(self.db.clone(), job.id.clone(), name.to_owned(), shutdown.clone());
        if let Some(end) = self.run_own(job, tenant, &running).await {
            return if *shutdown.borrow() { RunEnd::Requeue } else { end };
        }
        let schedule = job.job_type.strip_prefix(scheduler::JOB_TYPE_PREFIX);
        let id = match schedule {
            Some(name) => format!("{}:{name}", TriggerKind::Schedule.as_str()),
            None => format!("{}:{}", TriggerKind::JobRun.as_str(), job.job_type),
        };
        let unbound = || RunEnd::Failed(format!("no script is bound to {id}"));
        if self.runtime.scripts.get(&id).is_none() {
            return unbound();
        }
        let authority = authority(job);
        if authority.is_some() && !self.has_session(job, &authority).await {
            return RunEnd::Failed("no PDS session is stored for the job's creator".to_owned());
        }
        let services = self.runtime.services.clone().with_job(running);
        let caller = Caller {
            // The job of a schedule acts for no account.
            did: Did::try_from(job.created_by.as_str()).ok().filter(|_| schedule.is_none()),
            client: job.client.as_deref().map(Arc::from),
            authority,
            method_bound: false,
            is_of_job: true,
            tenant: tenant.clone(),
        };
        let Some(script) = self.runtime.scripts.get_for(&id, &caller) else { return unbound() };
        let invocation = Invocation {
            caller: Some(&caller),
            job: Some((&job.id, job.input.as_bytes())),
            inherit_auth: job.inherit_auth,
            ..Invocation::default()
        };
        match self.runtime.engine.run(&script, invocation, &services).await {
            _ if *shutdown.borrow() => RunEnd::Requeue,
            Ok(outcome) if outcome.body.len() > MAX_RESULT_BYTES => {
                RunEnd::Failed(format!("the result is larger than {MAX_RESULT_BYTES} bytes"))
            }
            Ok(outcome) => RunEnd::Completed(String::from_utf8_lossy(&outcome.body).into_owned()),
            Err(ScriptFailure { kind: FailureKind::Busy, .. }) => RunEnd::Requeue,
            Err(failure) => {
                RunEnd::Failed(self.runtime.services.variables.redact(&failure.message).into_owned())
            }
        }
    }

    /// Runs a job of the server's own; `None` for one of a script. A job goes on where its progress says.
    async fn run_own(&self, job: &JobRow, tenant: &Tenant, running: &RunningJob) -> Option<RunEnd> {
        Some(match &*job.job_type {
            purge::TYPE => match purge::run(&self.db, running, &job.input, job.created_at).await {
                Ok(result) => RunEnd::Completed(result),
                Err(error) => RunEnd::Failed(error.to_string()),
            },
            REINDEX_TYPE => {
                let texts = (&*job.input, &*job.progress);
                match self.event_scripts.reindex(&self.writer, running, texts, tenant).await {
                    Ok(result) => RunEnd::Completed(result),
                    Err(error) if error.is_temporary() => {
                        tracing::warn!(%error, job = job.id, "a reindexing stopped and will go on");
                        tokio::time::sleep(QUEUE_INTERVAL).await;
                        RunEnd::Requeue
                    }
                    Err(error) => RunEnd::Failed(error.to_string()),
                }
            }
            _ => return None,
        })
    }

    /// Whether the job's creator still has a session. `true` when that can't be read: then the run reports the error.
    async fn has_session(&self, job: &JobRow, authority: &SessionAuthority) -> bool {
        let (Some(repos), Ok(creator)) =
            (&self.runtime.services.repos, Did::try_from(job.created_by.as_str()))
        else {
            return false;
        };
        let Some(which) = authority.session_of(&creator, None) else { return false };
        !matches!(repos.session(which).await, Ok(None))
    }

    /// Renews the lease and checks the job's status. Returns when another worker has the job, or when it was cancelled
    /// and its grace period is over.
    async fn keep_lease(&self, id: &str, name: &str) -> RunEnd {
        let (mut renewed_at, mut cancelled_at) = (Instant::now(), None);
        loop {
            tokio::time::sleep(STATUS_INTERVAL).await;
            let now = Instant::now();
            let status = if now - renewed_at < RENEW_INTERVAL {
                jobs::status(&self.db, id, name).await
            } else {
                renewed_at = now;
                jobs::renew(&self.db, id, name, lease(self.clock.now())).await
            };
            match status {
                Ok(Some(JobStatus::Cancelling)) if now - *cancelled_at.get_or_insert(now) >= CANCEL_GRACE => {
                    return RunEnd::Failed("the job was cancelled".to_owned());
                }
                Ok(Some(_)) => {}
                Ok(None) => return RunEnd::LeaseLost,
                Err(error) => {
                    tracing::warn!(%error, job = id, "can't check a job's status or renew its lease");
                }
            }
        }
    }
}

/// The tenant that a job counts for.
fn tenant(job: &JobRow) -> Tenant {
    Tenant::parse(&job.tenant).unwrap_or_else(|| match job.client.as_deref() {
        Some(client) => Tenant::client(client),
        None => Tenant::of_did(&job.created_by),
    })
}

/// The stored sessions that a job may use: with `inherit_auth` those of its creator, with the API client of the call
/// that created it.
fn authority(job: &JobRow) -> SessionAuthority {
    if !job.inherit_auth {
        return SessionAuthority::None;
    }
    SessionAuthority::Newest { client: job.client.as_deref().map(Arc::from) }
}

/// Returns when the server begins to shut down.
async fn shutdown_begun(shutdown: &watch::Receiver<bool>) {
    // An error means that the sender was dropped, which happens only at shutdown.
    let _ = shutdown.clone().wait_for(|begun| *begun).await;
}

/// Returns when the server shuts down and jobs have had time to end by themselves.
async fn shutdown_grace_over(shutdown: &watch::Receiver<bool>) {
    shutdown_begun(shutdown).await;
    tokio::time::sleep(SHUTDOWN_GRACE).await;
}

fn lease(now: Timestamp) -> Timestamp {
    now.plus_seconds(LEASE_SECONDS)
}
