//! Adds jobs to the queue: of scripts, and of the server itself.

use std::sync::Arc;

use serde::Serialize;
use tokio::sync::Notify;

use belvedere_base::clock::Clock;
use belvedere_base::random::Random;
use belvedere_protocol::trigger::{InvalidTrigger, ScriptBindings, Trigger, TriggerKind};
use belvedere_storage::store::jobs::{self, JobRow, NewJob, PendingLimits};
use belvedere_storage::store::status::JobStatus;
use belvedere_storage::store::{Db, StoreError};
use belvedere_web::fair_share::Tenant;
use belvedere_web::http::Error;

/// The maximum number of waiting jobs of one creator: a script that creates jobs in a loop affects only its own caller.
const MAX_WAITING_PER_CREATOR: i64 = 100;

/// The maximum number of waiting jobs of one tenant over all its users: a client has many, and each could fill the
/// table.
const MAX_WAITING_PER_TENANT: i64 = 1_000;

/// The maximum size of a job's input, which describes the task; it is not meant for the data to process.
const MAX_INPUT_BYTES: usize = 64 << 10;

/// The reason why a job was not created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    #[error("{0}")]
    Type(#[from] InvalidTrigger),
    #[error("no script is bound to {0}")]
    NoScript(String),
    #[error("the input is larger than {MAX_INPUT_BYTES} bytes")]
    Input,
    #[error(
        "too many jobs are waiting: at most {MAX_WAITING_PER_CREATOR} of one caller and \
         {MAX_WAITING_PER_TENANT} of one client"
    )]
    Full,
    #[error("database unavailable")]
    Store(#[from] StoreError),
}

impl From<CreateError> for Error {
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::Type(_) | CreateError::Input => Self::bad_request(error.to_string()),
            CreateError::NoScript(_) => Self::not_found(error.to_string()),
            CreateError::Full => Self::conflict(error.to_string()),
            CreateError::Store(error) => error.into(),
        }
    }
}

/// The job queue. Cheap to clone.
#[derive(Clone, Debug)]
pub struct JobQueue {
    db: Db,
    scripts: Arc<dyn ScriptBindings>,
    clock: Clock,
    random: Random,
    /// Wakes this host's workers. Workers of other hosts poll the database.
    added: Arc<Notify>,
}

impl JobQueue {
    pub fn new(db: Db, scripts: Arc<dyn ScriptBindings>, clock: Clock, random: Random) -> Self {
        Self { db, scripts, clock, random, added: Arc::default() }
    }

    /// Waits until there may be a job that this host's workers have not seen.
    pub async fn added(&self) {
        self.added.notified().await;
    }

    /// Wakes this host's workers, because there may be a job.
    pub fn wake(&self) {
        self.added.notify_one();
    }

    /// Queues a job on behalf of `caller`, counted against `tenant`. Returns the job's id.
    ///
    /// # Errors
    /// When no script is bound to the job type, the input is too large, or too many jobs wait.
    pub async fn create(
        &self,
        kind: &str,
        input: &str,
        caller: &str,
        client: Option<&str>,
        tenant: &Tenant,
        inherit_auth: bool,
    ) -> Result<String, CreateError> {
        let (id, tenant) = (self.check(kind, input)?, tenant.to_string());
        let tenant = tenant.as_str();
        let job = NewJob { id: &id, job_type: kind, input, created_by: caller, client, tenant, inherit_auth };
        self.add(&job).await?;
        Ok(id)
    }

    /// Checks a job without queueing it. Returns the id that it could have.
    ///
    /// # Errors
    /// When no script is bound to the job type, or the input is too large.
    pub fn check(&self, kind: &str, input: &str) -> Result<String, CreateError> {
        let trigger = Trigger::parse(&format!("{}:{kind}", TriggerKind::JobRun.as_str()))?;
        if !self.scripts.has(trigger.id()) {
            return Err(CreateError::NoScript(trigger.id().to_owned()));
        }
        if input.len() > MAX_INPUT_BYTES {
            return Err(CreateError::Input);
        }
        Ok(self.random.uuid())
    }

    /// Queues a job of the server's own for the admin `caller`, of a type with a slash. Returns the job's id.
    ///
    /// # Errors
    /// When too many jobs wait.
    pub async fn create_own(
        &self,
        job_type: &'static str,
        input: &(impl Serialize + Sync),
        caller: &str,
    ) -> Result<String, CreateError> {
        let (id, tenant) = (self.random.uuid(), Tenant::of_did(caller).to_string());
        let input = serde_json::to_string(input).map_err(|_| CreateError::Input)?;
        let job = NewJob {
            id: &id,
            job_type,
            input: &input,
            created_by: caller,
            client: None,
            tenant: &tenant,
            inherit_auth: false,
        };
        self.add(&job).await?;
        Ok(id)
    }

    /// Queues a job of the instance with this id, unless it is there, or one of its type has not ended. Whether it was queued.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn create_alone(&self, id: &str, job_type: &str, instance: &str) -> Result<bool, StoreError> {
        let tenant = Tenant::Instance.to_string();
        let job = NewJob {
            id,
            job_type,
            input: "{}",
            created_by: instance,
            client: None,
            tenant: &tenant,
            inherit_auth: false,
        };
        let is_queued = jobs::create_alone(&self.db, &job, self.clock.now()).await?;
        if is_queued {
            self.wake();
        }
        Ok(is_queued)
    }

    /// A job of a script; `None` for another one, and if there is none.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn get(&self, id: &str) -> Result<Option<JobRow>, StoreError> {
        Ok(jobs::get(&self.db, id).await?.filter(|job| !job.job_type.contains('/')))
    }

    /// The jobs of scripts with one of `statuses`, of a type if it is given, newest first. Without statuses, all of them count.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn list(
        &self,
        statuses: &[JobStatus],
        kind: Option<&str>,
        limit: u32,
    ) -> Result<Vec<JobRow>, StoreError> {
        jobs::list_of_scripts(&self.db, statuses, kind, limit).await
    }

    async fn add(&self, job: &NewJob<'_>) -> Result<(), CreateError> {
        let limits = PendingLimits { of_creator: MAX_WAITING_PER_CREATOR, of_tenant: MAX_WAITING_PER_TENANT };
        if !jobs::create(&self.db, job, limits, self.clock.now()).await? {
            return Err(CreateError::Full);
        }
        self.wake();
        Ok(())
    }
}
