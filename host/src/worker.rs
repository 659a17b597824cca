//! The workers: each takes a job, runs its script, says while it does that it still lives, and puts down how it ended.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::atproto::Did;
use crate::clock::{Clock, Timestamp};
use crate::events::{Event, EventLog};
use crate::fair_share::{Bounds, FairPool, Tenant};
use crate::jobs::{JobQueue, RunningJob};
use crate::pds::Authority;
use crate::random::Random;
use crate::scripts::{Engine, FailureKind, Invocation, Library, ScriptFailure, Services};
use crate::store::jobs::{self, End, JobRow, Worker};
use crate::store::{Db, StoreError};
use crate::trigger::TriggerKind;
use crate::xrpc::Caller;

/// How long a worker is believed to be at work without another word. After that its job is another's.
const LEASE_SECONDS: i64 = 30;

/// Between two words of a worker: three may be lost.
const RENEW: Duration = Duration::from_secs(8);

/// Between two looks at what an admin wants of a running job.
const LOOK_AT_JOB: Duration = Duration::from_millis(200);

/// How long a job that is cancelled may go on, once its worker knows. One that looks (`job.should_stop`) ends by itself;
/// with [`LOOK_AT_JOB`] any other ends within a second.
const CANCEL_GRACE: Duration = Duration::from_millis(500);

const _: () =
    assert!(LOOK_AT_JOB.as_millis() + CANCEL_GRACE.as_millis() < 1_000, "a job ends within a second");

/// Jobs of a tenant that have ended and are kept: with their results, 320 MB at worst.
const ENDED_PER_TENANT: u32 = 1_000;

/// Ended jobs that are forgotten when another one ends. More than one, so that a lowered bound is reached.
const FORGET_STEP: u32 = 10;

/// Between two looks at the queue. Jobs that are made on this host are seen at once.
const LOOK: Duration = Duration::from_secs(2);

/// How long a job may go on after the server was told to end. One that looks (`job.should_stop`) ends by itself.
const GRACE: Duration = Duration::from_secs(3);

/// Bytes of a job's result that are kept.
const RESULT_BYTES: usize = 256 << 10;

/// What the workers need. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Workers {
    pub db: Db,
    pub engine: Engine,
    pub library: Arc<Library>,
    /// What jobs may reach.
    pub services: Services,
    pub events: EventLog,
    pub clock: Clock,
    pub random: Random,
    pub queue: JobQueue,
    /// The workers of this host, by tenant.
    pub places: FairPool,
}

/// The pool of `count` workers. A tenant has half of them, so that with two or more none has all.
pub fn places(count: u32) -> FairPool {
    let count = count as usize;
    FairPool::new(
        "job_workers",
        Bounds {
            places: count,
            per_tenant: count.div_ceil(2),
            // Jobs wait in the table, not here.
            waiting: 0,
            waiting_per_tenant: 0,
            patience: Duration::ZERO,
        },
    )
}

/// What became of a run.
enum Ran {
    Completed(String),
    Failed(String),
    /// Nothing was run, or the server ends: its turn comes again.
    Again,
    /// Another worker has it.
    Lost,
}

impl Workers {
    /// Starts `count` workers. On `drain` they end what they run: a job that looks (`job.should_stop`) in its own way,
    /// any other after a moment. Either begins again, on the next start or on another host.
    pub fn start(&self, count: u32, tasks: &TaskTracker, drain: &CancellationToken) {
        let (ending, told) = watch::channel(false);
        let waiting = drain.clone();
        tasks.spawn(async move {
            waiting.cancelled().await;
            // Nobody may be running.
            let _ = ending.send(true);
        });
        let host = self.random.uuid();
        for number in 0..count {
            let (workers, told) = (self.clone(), told.clone());
            let (host, name) = (host.clone(), format!("{host}/{number}"));
            tasks.spawn(async move { workers.work(&host, &name, &told).await });
        }
    }

    async fn work(&self, host: &str, name: &str, ending: &watch::Receiver<bool>) {
        while !*ending.borrow() {
            let worked = match self.next(host, name).await {
                Ok(Some(job)) => self.run(&job, name, ending).await.map(|()| true),
                Ok(None) => Ok(false),
                Err(error) => Err(error),
            };
            match worked {
                Ok(true) => {}
                Ok(false) => self.rest(ending).await,
                Err(error) => {
                    tracing::warn!(%error, "the job queue can't be read");
                    self.rest(ending).await;
                }
            }
        }
    }

    async fn rest(&self, ending: &watch::Receiver<bool>) {
        tokio::select! {
            () = self.queue.added() => {}
            () = tokio::time::sleep(LOOK) => {}
            () = ended(ending) => {}
        }
    }

    async fn next(&self, host: &str, name: &str) -> Result<Option<JobRow>, StoreError> {
        let now = self.clock.now();
        let recovered = jobs::recover(&self.db, now).await?;
        if recovered > 0 {
            tracing::info!(jobs = recovered, "jobs of workers that are gone begin again");
        }
        let most_of_tenant = self.places.bounds().per_tenant as i64;
        jobs::claim(&self.db, Worker { name, host, most_of_tenant }, now, lease(now)).await
    }

    async fn run(&self, job: &JobRow, name: &str, ending: &watch::Receiver<bool>) -> Result<(), StoreError> {
        // Two workers of this host may have looked at the same time: then the tenant has one job too many, and this one
        // waits on.
        let tenant = tenant(job);
        let Ok(_place) = self.places.try_enter(&tenant) else {
            return jobs::release(&self.db, &job.id, name, self.clock.now()).await;
        };
        self.tell(job, |actor, job_type, job_id| Event::JobStarted { actor, job_type, job_id });
        // The script gives way at every call of the host and every fraction of a millisecond of its own work, and there it
        // ends when one of the others is done. Nothing in it can catch that.
        let ran = tokio::select! {
            ran = self.script(job, &tenant, name, ending) => ran,
            ran = self.keep(&job.id, name) => ran,
            () = overdue(ending) => Ran::Again,
        };
        let end = match &ran {
            Ran::Completed(result) => End::Completed(result),
            Ran::Failed(error) => End::Failed(error),
            Ran::Again => return jobs::release(&self.db, &job.id, name, self.clock.now()).await,
            Ran::Lost => return Ok(()),
        };
        let status = jobs::finish(&self.db, &job.id, name, end, self.clock.now()).await?;
        jobs::delete_ended_but(&self.db, &job.tenant, ENDED_PER_TENANT, FORGET_STEP).await?;
        self.tell(job, |actor, job_type, job_id| match (status.as_deref(), ran) {
            (Some("paused"), _) => Event::JobPaused { actor, job_type, job_id },
            (Some("cancelled"), _) => Event::JobCancelled { actor, job_type, job_id },
            (_, Ran::Failed(error)) => Event::JobFailed { actor, job_type, job_id, error },
            _ => Event::JobCompleted { actor, job_type, job_id },
        });
        Ok(())
    }

    fn tell(&self, job: &JobRow, event: impl FnOnce(String, String, String) -> Event) {
        self.events.record(event(job.created_by.clone(), job.job_type.clone(), job.id.clone()));
    }

    async fn script(&self, job: &JobRow, tenant: &Tenant, name: &str, ending: &watch::Receiver<bool>) -> Ran {
        let id = format!("{}:{}", TriggerKind::JobRun.as_str(), job.job_type);
        let Some(script) = self.library.get(&id) else {
            return Ran::Failed(format!("no script is bound to {id}"));
        };
        let authority = authority(job);
        if authority.is_some() && !self.may_act(job, &authority).await {
            return Ran::Failed("no PDS session is stored for the job's creator".to_owned());
        }
        let running = RunningJob::new(self.db.clone(), job.id.clone(), name.to_owned(), ending.clone());
        let services = self.services.clone().with_job(running);
        let caller = Caller {
            did: Did::try_from(job.created_by.as_str()).ok(),
            client: job.client.as_deref().map(Arc::from),
            authority,
            method_bound: false,
            tenant: tenant.clone(),
        };
        let invocation = Invocation {
            caller: Some(&caller),
            job: Some((&job.id, job.input.as_bytes())),
            inherit_auth: job.inherit_auth,
            ..Invocation::default()
        };
        match self.engine.run(&script, invocation, &services).await {
            _ if *ending.borrow() => Ran::Again,
            Ok(outcome) if outcome.body.len() > RESULT_BYTES => {
                Ran::Failed(format!("the result is larger than {RESULT_BYTES} bytes"))
            }
            Ok(outcome) => Ran::Completed(String::from_utf8_lossy(&outcome.body).into_owned()),
            Err(ScriptFailure { kind: FailureKind::Busy, .. }) => Ran::Again,
            Err(failure) => Ran::Failed(self.services.variables.redact(&failure.message).into_owned()),
        }
    }

    /// Whether the job's creator still has a session. When nobody can say, the run does.
    async fn may_act(&self, job: &JobRow, authority: &Authority) -> bool {
        let (Some(repos), Ok(creator)) = (&self.services.repos, Did::try_from(job.created_by.as_str()))
        else {
            return false;
        };
        let Some(which) = authority.session_of(&creator, None) else { return false };
        !matches!(repos.session(which).await, Ok(None))
    }

    /// Renews the lease and looks at what is wanted of the job. Returns when it is another worker's, or has been cancelled
    /// and had its time to end.
    async fn keep(&self, id: &str, name: &str) -> Ran {
        let (mut renewed, mut cancelled) = (Instant::now(), None);
        loop {
            tokio::time::sleep(LOOK_AT_JOB).await;
            let now = Instant::now();
            let status = if now - renewed < RENEW {
                jobs::status(&self.db, id, name).await
            } else {
                renewed = now;
                jobs::renew(&self.db, id, name, lease(self.clock.now())).await
            };
            match status.as_ref().map(Option::as_deref) {
                Ok(Some("cancelling")) if now - *cancelled.get_or_insert(now) >= CANCEL_GRACE => {
                    return Ran::Failed("it was cancelled".to_owned());
                }
                Ok(Some(_)) => {}
                Ok(None) => return Ran::Lost,
                Err(error) => {
                    tracing::warn!(%error, job = id, "a job's row can't be read or its lease renewed");
                }
            }
        }
    }
}

/// Whose share a job takes.
fn tenant(job: &JobRow) -> Tenant {
    Tenant::parse(&job.tenant).unwrap_or_else(|| match job.client.as_deref() {
        Some(client) => Tenant::client(client),
        None => Tenant::of_did(&job.created_by),
    })
}

/// Which stored sessions a job may act with: with `auth` those of its creator under the client that the creator proved.
fn authority(job: &JobRow) -> Authority {
    if !job.inherit_auth {
        return Authority::None;
    }
    Authority::Newest { client: job.client.as_deref().map(Arc::from) }
}

/// Returns when the server ends.
async fn ended(ending: &watch::Receiver<bool>) {
    // An error is a sender that is gone, which is the end as well.
    let _ = ending.clone().wait_for(|ending| *ending).await;
}

/// Returns when a job had its time to see that the server ends.
async fn overdue(ending: &watch::Receiver<bool>) {
    ended(ending).await;
    tokio::time::sleep(GRACE).await;
}

fn lease(now: Timestamp) -> Timestamp {
    now.plus_seconds(LEASE_SECONDS)
}
