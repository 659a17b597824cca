//! `jobs`: creates background jobs, and implements `job.*` for the job that is running.

use serde_json::{Value, json};

use super::state::RunState;
use super::{Refusal, fault, report};
use crate::scripts::bindings::belvedere::script::jobs::Host;
use crate::scripts::bindings::belvedere::script::types::{Fault, FaultCode};
use crate::scripts::dry_run::{DryRun, DryWrite};
use belvedere_instance::jobs::{CreateError, RunningJob};
use belvedere_storage::store::jobs::JobRow;
use belvedere_storage::store::status::JobStatus;

/// Bytes of the argument of `job.progress`.
const PROGRESS_BYTES: usize = 16 << 10;

/// Jobs that one call lists.
const MAX_LISTED: u32 = 200;

impl Host for RunState {
    async fn create(&mut self, kind: String, input: Vec<u8>, auth: bool) -> Result<String, Refusal> {
        const FUNCTION: &str = "jobs.create";
        let queue = self.service(FUNCTION, |services| services.jobs.clone())?;
        // A run for an event has no caller: the event's author made no request.
        let caller = &self.info.caller;
        let Some(creator) = &caller.did else {
            let message = "this run has no caller that the job could work for";
            return Err(fault::forbidden(format!("{FUNCTION}: {message}")).into());
        };
        let dry_run = self.dry_run();
        if auth && dry_run.is_none() && !caller.authority.is_some() {
            let message = "auth needs a caller that proved a session, with DPoP or by the session cookie";
            return Err(fault::forbidden(format!("{FUNCTION}: {message}")).into());
        }
        // The job acts with a session of the client that is stored with it; with `auth` that is the proven session's
        // client.
        let client = if auth { caller.authority.client() } else { caller.client.as_ref() };
        // Jobs that a job creates count for the tenant that created the first one.
        let (client, tenant) = (client.map(|id| &**id), &caller.tenant);
        let text = String::from_utf8_lossy(&input);
        let created = match dry_run {
            Some(dry_run) => queue.check(&kind, &text).inspect(|_| {
                dry_run.write(&DryWrite::JobCreate { job_type: &kind, input: report::json(&input), auth });
            }),
            None => queue.create(&kind, &text, creator.as_str(), client, tenant, auth).await,
        };
        Ok(created.map_err(|error| {
            let code = match &error {
                CreateError::Type(_) | CreateError::NoScript(_) => FaultCode::BadInput,
                CreateError::Input | CreateError::Full => FaultCode::Limit,
                CreateError::Store(cause) => {
                    tracing::error!(error = %cause, "a job can't be queued");
                    FaultCode::Unavailable
                }
            };
            fault::new(code, format!("{FUNCTION}: {error}"))
        })?)
    }

    async fn get(&mut self, id: String, own: bool) -> Result<Vec<u8>, Refusal> {
        const FUNCTION: &str = "jobs.get";
        let queue = self.service(FUNCTION, |services| services.jobs.clone())?;
        let caller = self.info.caller.did.clone();
        let found = queue.get(&id).await.map_err(|error| fault::database(FUNCTION, &error))?;
        let is_shown = |job: &JobRow| !own || caller.is_some_and(|caller| caller.as_str() == job.created_by);
        let found = found.filter(is_shown).map_or(Value::Null, |job| shown(&job));
        Ok(read(self, 1, &found)?)
    }

    async fn list(
        &mut self,
        statuses: Vec<String>,
        kind: Option<String>,
        limit: u32,
    ) -> Result<Vec<u8>, Refusal> {
        const FUNCTION: &str = "jobs.list_any";
        let queue = self.service(FUNCTION, |services| services.jobs.clone())?;
        let parse = |name: &String| {
            let unknown = |_| fault::new(FaultCode::BadInput, format!("{FUNCTION}: {name:?} is no status"));
            name.parse::<JobStatus>().map_err(unknown)
        };
        let statuses = statuses.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
        let limit = limit.clamp(1, MAX_LISTED);
        let jobs = queue.list(&statuses, kind.as_deref(), limit).await;
        let jobs = jobs.map_err(|error| fault::database(FUNCTION, &error))?;
        let list = Value::Array(jobs.iter().map(shown).collect());
        Ok(read(self, jobs.len(), &list)?)
    }

    async fn progress(&mut self, value: Vec<u8>) -> Result<(), Refusal> {
        const FUNCTION: &str = "job.progress";
        if value.len() > PROGRESS_BYTES {
            return Err(fault::limit("job.progress: too many bytes", PROGRESS_BYTES).into());
        }
        if let Some(dry_run) = self.dry_run_of_job()? {
            dry_run.write(&DryWrite::JobProgress { value: report::json(&value) });
            return Ok(());
        }
        let job = self.job(FUNCTION)?;
        let written = job.progress(&String::from_utf8_lossy(&value)).await;
        Ok(written.map_err(|error| fault::database(FUNCTION, &error))?)
    }

    async fn should_stop(&mut self) -> Result<bool, Refusal> {
        const FUNCTION: &str = "job.should_stop";
        if self.dry_run_of_job()?.is_some() {
            return Ok(false);
        }
        let job = self.job(FUNCTION)?;
        Ok(job.should_stop().await.map_err(|error| fault::database(FUNCTION, &error))?)
    }

    /// A dry run of a job does not wait.
    async fn wait(&mut self, seconds: f64) -> Result<(), Refusal> {
        const FUNCTION: &str = "job.wait";
        if self.dry_run_of_job()?.is_some() {
            return Ok(());
        }
        let job = self.job(FUNCTION)?;
        Ok(job.wait(seconds).await.map_err(|error| fault::database(FUNCTION, &error))?)
    }
}

/// A job as scripts see it. Fields without a value are absent.
fn shown(job: &JobRow) -> Value {
    let json = |text: &str| serde_json::from_str(text).unwrap_or(Value::Null);
    let mut shown = json!({
        "id": job.id, "job_type": job.job_type, "status": job.status.as_str(), "input": json(&job.input),
        "progress": json(&job.progress), "created_by": job.created_by, "created_at": job.created_at,
    });
    for (name, value) in [
        ("result", job.result.as_deref().map(json)),
        ("error", job.error.as_deref().map(Value::from)),
        ("started_at", job.started_at.map(|at| json!(at))),
        ("completed_at", job.completed_at.map(|at| json!(at))),
    ] {
        if let Some(value) = value {
            shown[name] = value;
        }
    }
    shown
}

/// The text of what a script reads, which counts like rows of the index.
fn read(state: &mut RunState, rows: usize, value: &Value) -> Result<Vec<u8>, Fault> {
    let text = value.to_string();
    state.count_rows(rows, text.len())?;
    Ok(text.into_bytes())
}

impl RunState {
    /// The dry run of a job, for a counted call: it has no row in the queue. `None` in other runs.
    fn dry_run_of_job(&mut self) -> Result<Option<DryRun>, Fault> {
        let dry_run = self.dry_run().filter(|_| self.info.kind.is_job()).cloned();
        if dry_run.is_some() {
            self.count_call()?;
        }
        Ok(dry_run)
    }

    fn job(&mut self, function: &str) -> Result<RunningJob, Fault> {
        self.service(function, |services| services.job.clone())
    }
}
