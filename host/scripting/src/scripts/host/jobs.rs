//! `jobs`: creates background jobs, and implements `job.*` for the job that is running.

use super::bindings::belvedere::script::jobs::Host;
use super::bindings::belvedere::script::types::{Fault, FaultCode};
use super::state::RunState;
use super::{fault, pretend};
use crate::scripts::dry_run::DryWrite;
use belvedere_instance::jobs::{CreateError, RunningJob};
use belvedere_protocol::trigger::TriggerKind;
use belvedere_storage::store::StoreError;

/// Bytes of the argument of `job.progress`.
const PROGRESS_BYTES: usize = 16 << 10;

impl Host for RunState {
    async fn create(
        &mut self,
        kind: String,
        input: Vec<u8>,
        auth: bool,
    ) -> wasmtime::Result<Result<String, Fault>> {
        Ok(create(self, &kind, &input, auth).await)
    }

    async fn progress(&mut self, value: Vec<u8>) -> wasmtime::Result<Result<(), Fault>> {
        Ok(progress(self, &value).await)
    }

    async fn should_stop(&mut self) -> wasmtime::Result<Result<bool, Fault>> {
        match self.pretends_to_be_a_job() {
            Ok(true) => return Ok(Ok(false)),
            Ok(false) => {}
            Err(refused) => return Ok(Err(refused)),
        }
        Ok(match self.job("job.should_stop") {
            Ok(job) => job.should_stop().await.map_err(|error| unavailable("job.should_stop", &error)),
            Err(refused) => Err(refused),
        })
    }

    async fn wait(&mut self, seconds: f64) -> wasmtime::Result<Result<(), Fault>> {
        // A dry run of a job does not wait.
        match self.pretends_to_be_a_job() {
            Ok(true) => return Ok(Ok(())),
            Ok(false) => {}
            Err(refused) => return Ok(Err(refused)),
        }
        Ok(match self.job("job.wait") {
            Ok(job) => job.wait(seconds).await.map_err(|error| unavailable("job.wait", &error)),
            Err(refused) => Err(refused),
        })
    }
}

impl RunState {
    /// Counts a call of a dry run of a job, which has no row in the queue. `false` in other runs.
    fn pretends_to_be_a_job(&mut self) -> Result<bool, Fault> {
        let pretends = self.dry_run().is_some() && self.info.kind == TriggerKind::JobRun;
        if pretends {
            self.count_call()?;
        }
        Ok(pretends)
    }

    fn job(&mut self, function: &str) -> Result<RunningJob, Fault> {
        self.service(function, |services| services.job.clone())
    }
}

async fn create(state: &mut RunState, kind: &str, input: &[u8], auth: bool) -> Result<String, Fault> {
    const FUNCTION: &str = "jobs.create";
    let queue = state.service(FUNCTION, |services| services.jobs.clone())?;
    // A run for an event has no caller: the event's author made no request.
    let caller = &state.info.caller;
    let Some(creator) = &caller.did else {
        return Err(fault::forbidden(format!(
            "{FUNCTION}: this run has no caller that the job could work for"
        )));
    };
    let dry_run = state.dry_run();
    if auth && dry_run.is_none() && !caller.authority.is_some() {
        let message = "auth needs a caller that proved a session, with DPoP or by the session cookie";
        return Err(fault::forbidden(format!("{FUNCTION}: {message}")));
    }
    // The job acts with a session of the client that is stored with it; with `auth` that is the proven session's
    // client.
    let client = if auth { caller.authority.client() } else { caller.client.as_ref() };
    // Jobs that a job creates count for the tenant that created the first one.
    let (client, tenant) = (client.map(|id| &**id), &caller.tenant);
    let text = String::from_utf8_lossy(input);
    let created = match dry_run {
        Some(dry_run) => queue.check(kind, &text).inspect(|_| {
            dry_run.write(&DryWrite::JobCreate { job_type: kind, input: pretend::json(input), auth });
        }),
        None => queue.create(kind, &text, creator.as_str(), client, tenant, auth).await,
    };
    created.map_err(|error| {
        let code = match &error {
            CreateError::Type(_) | CreateError::NoScript(_) => FaultCode::BadInput,
            CreateError::Input | CreateError::Full => FaultCode::Limit,
            CreateError::Store(cause) => {
                tracing::error!(error = %cause, "a job can't be queued");
                FaultCode::Unavailable
            }
        };
        fault::new(code, format!("{FUNCTION}: {error}"))
    })
}

async fn progress(state: &mut RunState, value: &[u8]) -> Result<(), Fault> {
    const FUNCTION: &str = "job.progress";
    if value.len() > PROGRESS_BYTES {
        return Err(fault::limit("job.progress: too many bytes", PROGRESS_BYTES));
    }
    if state.pretends_to_be_a_job()? {
        if let Some(dry_run) = state.dry_run() {
            dry_run.write(&DryWrite::JobProgress { value: pretend::json(value) });
        }
        return Ok(());
    }
    let job = state.job(FUNCTION)?;
    job.progress(&String::from_utf8_lossy(value)).await.map_err(|error| unavailable(FUNCTION, &error))
}

fn unavailable(function: &str, error: &StoreError) -> Fault {
    tracing::error!(function, %error, "a script's database request failed");
    fault::new(FaultCode::Unavailable, format!("{function}: database unavailable"))
}
