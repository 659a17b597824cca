//! The way into the queue, for `jobs.create`.

use std::sync::Arc;

use tokio::sync::Notify;

use crate::clock::Clock;
use crate::fair_share::Tenant;
use crate::random::Random;
use crate::store::jobs::{self, NewJob, PendingLimits};
use crate::store::{Db, StoreError};
use crate::trigger::{Bindings, InvalidTrigger, Trigger, TriggerKind};

/// Jobs that one creator may have waiting: a script that makes jobs in a loop hurts its own caller.
const PENDING_PER_CREATOR: i64 = 100;

/// Jobs that one tenant may have waiting, whoever its users are: a client has many, and each could fill the table.
const PENDING_PER_TENANT: i64 = 1_000;

/// Bytes of a job's input: it is a note on what to do, not the data to do it with.
const INPUT_BYTES: usize = 64 << 10;

/// Why there is no job.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    #[error("{0}")]
    Type(#[from] InvalidTrigger),
    #[error("no script is bound to {0}")]
    NoScript(String),
    #[error("the input is larger than {INPUT_BYTES} bytes")]
    Input,
    #[error(
        "too many jobs are waiting already: {PENDING_PER_CREATOR} of this caller, or {PENDING_PER_TENANT} of its client"
    )]
    Full,
    #[error("database unavailable")]
    Store(#[from] StoreError),
}

/// Cheap to clone.
#[derive(Clone, Debug)]
pub struct JobQueue {
    db: Db,
    scripts: Arc<dyn Bindings>,
    clock: Clock,
    random: Random,
    /// Wakes this host's workers; those of others look by themselves.
    added: Arc<Notify>,
}

impl JobQueue {
    pub fn new(db: Db, scripts: Arc<dyn Bindings>, clock: Clock, random: Random) -> Self {
        Self { db, scripts, clock, random, added: Arc::default() }
    }

    /// Returns when there may be a job that this host's workers have not seen.
    pub async fn added(&self) {
        self.added.notified().await;
    }

    /// There may be something to do.
    pub fn wake(&self) {
        self.added.notify_one();
    }

    /// Queues a job in the name of `caller`, at the expense of `tenant`, and gives its id.
    ///
    /// # Errors
    /// When there is no such type of job, the input is too large, or too many wait.
    pub async fn create(
        &self,
        kind: &str,
        input: &str,
        caller: &str,
        client: Option<&str>,
        tenant: &Tenant,
        inherit_auth: bool,
    ) -> Result<String, CreateError> {
        let trigger = Trigger::parse(&format!("{}:{kind}", TriggerKind::JobRun.as_str()))?;
        if !self.scripts.has(trigger.id()) {
            return Err(CreateError::NoScript(trigger.id().to_owned()));
        }
        if input.len() > INPUT_BYTES {
            return Err(CreateError::Input);
        }
        let (id, tenant) = (self.random.uuid(), tenant.to_string());
        let tenant = tenant.as_str();
        let job = NewJob { id: &id, job_type: kind, input, created_by: caller, client, tenant, inherit_auth };
        let room = PendingLimits { of_creator: PENDING_PER_CREATOR, of_tenant: PENDING_PER_TENANT };
        if !jobs::create(&self.db, &job, room, self.clock.now()).await? {
            return Err(CreateError::Full);
        }
        self.wake();
        Ok(id)
    }
}
