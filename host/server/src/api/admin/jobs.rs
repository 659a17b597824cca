//! `/admin/jobs`: starts, lists, cancels, pauses and resumes background jobs.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::access::Admin;
use crate::api::answer::{Json, JsonResult};
use crate::api::input::{WithBody, WithQuery};
use crate::api::paging::{Keyset, Page};
use crate::app::App;
use belvedere_base::clock::Timestamp;
use belvedere_instance::events::Event;
use belvedere_instance::jobs::CreateError;
use belvedere_protocol::trigger::TriggerKind;
use belvedere_storage::query::PageSize;
use belvedere_storage::store::jobs::{self, JobKeyset, JobRow};
use belvedere_storage::store::scripts;
use belvedere_storage::store::status::{JobStatus, Request as Step};
use belvedere_web::fair_share::Tenant;
use belvedere_web::http::{Error, Request};

/// Most job types that an error names.
const MAX_NAMED_TYPES: usize = 50;

fn not_found() -> Error {
    Error::not_found("job not found")
}

async fn find(app: &App, id: &str) -> Result<JobRow, Error> {
    jobs::get(&app.db, id).await?.ok_or_else(not_found)
}

/// Changes the job's status; 409 when its present status does not allow the step.
async fn step(app: &App, id: &str, step: Step) -> Result<(JobRow, JobStatus), Error> {
    let job = find(app, id).await?;
    if let Some(status) = jobs::request(&app.db, id, step, app.clock.now()).await? {
        return Ok((job, status));
    }
    let now = find(app, id).await?.status;
    Err(Error::conflict(format!("a job that is {now} can't be {step}")))
}

/// Converts the reason why a job was not started.
async fn not_started(app: &App, error: CreateError) -> Error {
    match error {
        CreateError::NoScript(trigger) => match job_types(app).await {
            Ok(types) => Error::not_found(format!("no script is bound to {trigger}; {types}")),
            Err(error) => error,
        },
        error => error.into(),
    }
}

/// A sentence that lists the types that have a script.
async fn job_types(app: &App) -> Result<String, Error> {
    let names = scripts::names(&app.db).await?;
    let of_jobs = names.iter().filter_map(|name| name.id.strip_prefix(TriggerKind::JobRun.as_str()));
    let types: Vec<&str> = of_jobs.filter_map(|rest| rest.strip_prefix(':')).take(MAX_NAMED_TYPES).collect();
    Ok(if types.is_empty() {
        "no script is for jobs yet: save one for the trigger job.run:TYPE first".to_owned()
    } else {
        format!("the types with a script are {}", types.join(", "))
    })
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Status")]
pub struct JobStatusChange {
    status: JobStatus,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Job")]
pub struct JobView {
    id: String,
    job_type: String,
    status: JobStatus,
    input: Box<RawValue>,
    progress: Box<RawValue>,
    result: Option<Box<RawValue>>,
    error: Option<String>,
    #[schemars(extend("format" = "did"))]
    created_by: String,
    inherit_auth: bool,
    started_at: Option<Timestamp>,
    completed_at: Option<Timestamp>,
    created_at: Timestamp,
}

impl JobView {
    fn new(row: JobRow) -> Result<Self, serde_json::Error> {
        Ok(Self {
            input: RawValue::from_string(row.input)?,
            progress: RawValue::from_string(row.progress)?,
            result: row.result.map(RawValue::from_string).transpose()?,
            id: row.id,
            job_type: row.job_type,
            status: row.status,
            error: row.error,
            created_by: row.created_by,
            inherit_auth: row.inherit_auth,
            started_at: row.started_at,
            completed_at: row.completed_at,
            created_at: row.created_at,
        })
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct JobList {
    jobs: Vec<JobView>,
    /// Null on the last page.
    cursor: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct JobQuery {
    status: Option<String>,
    #[serde(flatten)]
    page: Page,
}

/// `GET /admin/jobs`: the background jobs, newest first.
pub async fn list(app: Arc<App>, _admin: Admin, request: WithQuery<JobQuery>) -> JsonResult<JobList> {
    let JobQuery { status, page } = request.parameters()?;
    let (limit, status) = (page.limit(PageSize::LOGS)?, status.filter(|status| !status.is_empty()));
    let after = page.keyset()?.map(|Keyset { time, id }| JobKeyset { created_at: time, id });
    let mut rows = jobs::list(&app.db, status.as_deref(), after.as_ref(), limit + 1).await?;
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let cursor = rows.last().filter(|_| more).map(|row| Keyset::cursor(row.created_at, &row.id));
    let jobs = rows.into_iter().map(JobView::new).collect::<Result<_, _>>().map_err(Error::internal)?;
    Ok(Json(JobList { jobs, cursor }))
}

/// `GET /admin/jobs/{id}`: a background job.
pub async fn get(app: Arc<App>, _admin: Admin, request: Request) -> JsonResult<JobView> {
    let row = find(&app, request.param("id")).await?;
    JobView::new(row).map(Json).map_err(Error::internal)
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct NewJob {
    /// The name after `job.run:` of the script that runs.
    #[serde(rename = "type")]
    job_type: String,
    /// The script's `job.input`, any JSON value of at most 64 KiB. Absent: an empty object.
    input: Option<Box<RawValue>>,
}

/// `POST /admin/jobs`: starts a job, in the name of the user.
pub async fn create(app: Arc<App>, admin: Admin, request: WithBody<NewJob>) -> JsonResult<JobView, 201> {
    let NewJob { job_type, input } = request.json()?;
    let input = input.as_deref().map_or("{}", RawValue::get);
    let (actor, tenant) = (admin.did.to_string(), Tenant::of_did(admin.did.as_str()));
    let created = app.scripting.jobs.create(&job_type, input, &actor, None, &tenant, false).await;
    let job_id = match created {
        Ok(id) => id,
        Err(error) => return Err(not_started(&app, error).await),
    };
    app.events.record(Event::JobCreated { actor, job_type, job_id: job_id.clone() });
    JobView::new(find(&app, &job_id).await?).map(Json).map_err(Error::internal)
}

/// `POST /admin/jobs/{id}/cancel`: cancels a job that is not running at once; requests a running one to stop.
pub async fn cancel(app: Arc<App>, _admin: Admin, request: Request) -> JsonResult<JobStatusChange> {
    let (job, status) = step(&app, request.param("id"), Step::Cancel).await?;
    if status == JobStatus::Cancelled {
        let JobRow { created_by: actor, job_type, id: job_id, .. } = job;
        app.events.record(Event::JobCancelled { actor, job_type, job_id });
    }
    Ok(Json(JobStatusChange { status }))
}

/// `POST /admin/jobs/{id}/pause`: requests a running job to stop. It starts from the beginning when it is resumed.
pub async fn pause(app: Arc<App>, _admin: Admin, request: Request) -> JsonResult<JobStatusChange> {
    let (_, status) = step(&app, request.param("id"), Step::Pause).await?;
    Ok(Json(JobStatusChange { status }))
}

/// `POST /admin/jobs/{id}/resume`: queues a paused job again. It starts from the beginning.
pub async fn resume(app: Arc<App>, _admin: Admin, request: Request) -> JsonResult<JobStatusChange> {
    let (_, status) = step(&app, request.param("id"), Step::Resume).await?;
    app.scripting.jobs.wake();
    Ok(Json(JobStatusChange { status }))
}
