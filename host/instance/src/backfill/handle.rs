//! The handle of backfills for the rest of the server: creates jobs, changes their status and watches them.

use std::sync::Arc;

use tokio::sync::{Notify, OwnedSemaphorePermit};

use super::plan::PlanPermits;
use super::progress::{Broadcast, Watcher};
use crate::events::{Event, EventLog};
use belvedere_base::clock::Clock;
use belvedere_base::random::Random;
use belvedere_storage::store::backfill::{self, NewJob, QueuedCatchUp, Requested};
use belvedere_storage::store::status::{BackfillStatus, Request};
use belvedere_storage::store::{Db, StoreError};

/// Time between the starts of two catch-ups. Each asks every PDS about every repo.
const CATCH_UP_INTERVAL_SECONDS: i64 = 60 * 60;

/// A catch-up reads repos that have changed since this long before its gap: the clocks of PDSs, whose times revs have,
/// differ from the Jetstream server's.
const CATCH_UP_MARGIN_SECONDS: i64 = 60 * 60;
/// Repos of one job of repairs. The others get the next one.
const MAX_REPAIRS_PER_JOB: usize = 1_000;

/// Creates, controls and watches backfill jobs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Backfills {
    db: Db,
    events: EventLog,
    clock: Clock,
    random: Random,
    pub(super) broadcast: Broadcast,
    /// Wakes this host's worker: there is a new job, or the status of a job has changed.
    pub(super) changed: Arc<Notify>,
    plans: PlanPermits,
}

/// The jobs that a caller can create.
#[derive(Clone, Debug, Default)]
pub struct NewBackfill {
    /// `None`: every collection with a record lexicon.
    pub collection: Option<String>,
    /// `None`: every repo that the relay lists.
    pub did: Option<String>,
    /// The most repos that it may have; `None`: as many as the server's setting says.
    pub max_repos: Option<u32>,
    /// The DID of the user; `None` when the server creates the job itself.
    pub actor: Option<String>,
}

impl Backfills {
    pub fn new(db: Db, events: EventLog, clock: Clock, random: Random) -> Self {
        Self {
            db,
            events,
            clock,
            random,
            broadcast: Broadcast::new(),
            changed: Arc::default(),
            plans: PlanPermits::default(),
        }
    }

    /// Queues a job, records that it started, and returns its id.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn create(&self, new: NewBackfill) -> Result<String, StoreError> {
        let NewBackfill { collection, did, max_repos, actor } = new;
        let job = NewJob { id: self.random.uuid(), collection, did, max_repos, created_by: actor };
        backfill::create(&self.db, &job, self.clock.now()).await?;
        let NewJob { id, collection, did, created_by: actor, .. } = job;
        self.events.record(Event::BackfillStarted { actor, collection, job_id: id.clone(), did });
        self.wake();
        Ok(id)
    }

    /// Queues a catch-up if gaps of the stream wait for one, and records that. Removes the gaps of those that have ended.
    /// Only the host with the lease of backfills calls it.
    ///
    /// # Errors
    /// When the database fails.
    pub(super) async fn catch_up(&self, is_enabled: bool) -> Result<(), StoreError> {
        if !backfill::settle_gaps(&self.db).await? || !is_enabled {
            return Ok(());
        }
        let now = self.clock.now();
        let (id, not_before) = (self.random.uuid(), now.plus_seconds(-CATCH_UP_INTERVAL_SECONDS));
        let queued =
            backfill::queue_catch_up(&self.db, &id, CATCH_UP_MARGIN_SECONDS, not_before, now).await?;
        if let Some(QueuedCatchUp { id: job_id, changed_since, gaps }) = queued {
            self.events.record(Event::CatchUpQueued { job_id, changed_since, gaps });
        }
        Ok(())
    }

    /// Queues a job of the repos of job `id` that failed with one of `kinds`, or with any error if `kinds` is empty.
    /// Returns the new job's id; `None` when no repo failed so.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn retry_failed(
        &self,
        id: &str,
        kinds: &[String],
        actor: Option<String>,
    ) -> Result<Option<String>, StoreError> {
        let new = NewJob { id: self.random.uuid(), created_by: actor, ..NewJob::default() };
        let retried = backfill::retry_failed(&self.db, id, kinds, &new, self.clock.now()).await?;
        let Some(retried_repos) = retried.filter(|repos| *repos > 0) else { return Ok(None) };
        let collection = backfill::get(&self.db, id).await?.and_then(|source| source.collection);
        self.events.record(Event::BackfillRetryStarted {
            actor: new.created_by,
            collection,
            job_id: new.id.clone(),
            source_job_id: id.to_owned(),
            retried_repos,
        });
        self.wake();
        Ok(Some(new.id))
    }

    /// Queues a job of repos whose records may have changed without the stream saying so, if there are any, and records
    /// that it started.
    pub(super) async fn repair(&self) -> Result<bool, StoreError> {
        let new = NewJob { id: self.random.uuid(), ..NewJob::default() };
        let created = backfill::create_repair(&self.db, &new, MAX_REPAIRS_PER_JOB, self.clock.now()).await?;
        let Some(dids) = created else { return Ok(false) };
        let did = if let [did] = &*dids { Some(did.clone()) } else { None };
        self.events.record(Event::BackfillStarted { actor: None, collection: None, job_id: new.id, did });
        Ok(true)
    }

    /// Pauses, resumes or cancels a job if its status allows that, and records the change.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn request(&self, id: &str, request: Request, actor: &str) -> Result<Requested, StoreError> {
        let requested = backfill::request(&self.db, id, request).await?;
        if let Requested::Done(job) = &requested {
            let (actor, job_id) = (actor.to_owned(), job.id.clone());
            self.events.record(match job.status {
                BackfillStatus::Pausing => Event::BackfillPausing { actor, job_id },
                BackfillStatus::Cancelling => Event::BackfillCancelling { actor, job_id },
                _ => Event::BackfillResumed { actor, job_id },
            });
            self.wake();
        }
        Ok(requested)
    }

    /// Makes this host's worker look at the jobs at once. Workers of other hosts look every half second.
    pub fn wake(&self) {
        self.changed.notify_one();
    }

    /// A permit for one plan, until it is dropped; `None` when all are taken.
    pub fn permit_for_plan(&self) -> Option<OwnedSemaphorePermit> {
        self.plans.take()
    }

    /// Watches a job that a worker of this host runs.
    pub fn subscribe(&self, job_id: &str) -> Watcher {
        self.broadcast.subscribe(job_id)
    }
}
