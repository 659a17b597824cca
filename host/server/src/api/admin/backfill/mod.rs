//! `/admin/backfill`: starts, lists, cancels, pauses and resumes backfills (service.md, Backfill).

pub mod details;
pub mod events;
pub mod failures;
pub mod plan;

use std::sync::Arc;

use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::nsid;
use crate::access::{Admin, Permission};
use crate::api::answer::{Json, JsonResult};
use crate::api::input::{WithBody, WithQuery};
use crate::api::paging::{Page, given};
use crate::app::App;
use belvedere_base::clock::Timestamp;
use belvedere_instance::backfill::NewBackfill;
use belvedere_protocol::atproto::Did;
use belvedere_storage::query::PageSize;
use belvedere_storage::store::backfill::{self, JobRow, Requested, Traffic};
use belvedere_storage::store::status::{BackfillStatus, Request as Step, Stage, Status as _};
use belvedere_web::http::{Error, Request};

/// Backfills that have not ended. They run one after another, so more would wait for days.
const MAX_UNENDED: i64 = 1_000;

fn not_found() -> Error {
    Error::not_found("backfill job not found")
}

async fn find(app: &App, id: &str) -> Result<JobRow, Error> {
    backfill::get(&app.db, id).await?.ok_or_else(not_found)
}

/// A job as lists show it (service.md, Backfill job).
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Backfill")]
pub struct JobView {
    id: String,
    /// `backfill`, `catch_up` or `repair`.
    kind: String,
    collection: Option<String>,
    did: Option<String>,
    status: BackfillStatus,
    stage: Stage,
    total_repos: Option<i64>,
    resolved_repos: Option<i64>,
    /// Read or failed.
    processed_repos: Option<i64>,
    failed_repos: Option<i64>,
    total_records: Option<i64>,
    /// The relay does not list repos by collection, so all of its repos are read.
    lists_all_repos: bool,
    #[serde(flatten)]
    traffic: BackfillTraffic,
    error: Option<String>,
    started_at: Option<Timestamp>,
    completed_at: Option<Timestamp>,
    created_at: Timestamp,
}

impl From<JobRow> for JobView {
    fn from(row: JobRow) -> Self {
        Self {
            id: row.id,
            kind: row.kind,
            collection: row.collection,
            did: row.did,
            status: row.status,
            stage: row.stage,
            total_repos: row.total_repos,
            resolved_repos: row.resolved_repos,
            processed_repos: row.processed_repos,
            failed_repos: row.failed_repos,
            total_records: row.total_records,
            lists_all_repos: row.lists_all_repos,
            traffic: row.traffic.into(),
            error: row.error,
            started_at: row.started_at,
            completed_at: row.completed_at,
            created_at: row.created_at,
        }
    }
}

/// A job's requests to PDSs and the bytes that it received. Bytes are those of bodies, after decompression.
#[derive(Debug, Serialize, JsonSchema)]
struct BackfillTraffic {
    bytes_fetched: i64,
    /// The bytes of the valid records of wanted collections, as JSON.
    bytes_kept: i64,
    sources: BackfillSources,
}

#[derive(Debug, Serialize, JsonSchema)]
struct BackfillSources {
    pages: PagesTraffic,
    car: CarTraffic,
}

#[derive(Debug, Serialize, JsonSchema)]
struct PagesTraffic {
    requests: i64,
    bytes: i64,
}

#[derive(Debug, Serialize, JsonSchema)]
struct CarTraffic {
    requests: i64,
    bytes: i64,
    /// Repos of which a part was read from a CAR.
    repos: i64,
}

impl From<Traffic> for BackfillTraffic {
    fn from(traffic: Traffic) -> Self {
        let Traffic { page_requests, page_bytes, car_requests, car_bytes, car_repos, bytes_kept } = traffic;
        let pages = PagesTraffic { requests: page_requests, bytes: page_bytes };
        let car = CarTraffic { requests: car_requests, bytes: car_bytes, repos: car_repos };
        Self { bytes_fetched: page_bytes + car_bytes, bytes_kept, sources: BackfillSources { pages, car } }
    }
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
pub struct BackfillRequest {
    /// Every collection with a record lexicon when absent.
    #[schemars(extend("format" = "nsid"))]
    collection: Option<String>,
    /// A DID or a handle; every repo that the relay lists when absent.
    did: Option<String>,
    /// The most repos that the backfill may have: twice what its plan says, for example.
    max_repos: Option<u32>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct BackfillStep {
    id: String,
    status: BackfillStatus,
}

/// `POST /admin/backfill`: queues a backfill: of a collection, or of all; of an account, or of all.
pub async fn create(
    app: Arc<App>,
    admin: Admin,
    request: WithBody<BackfillRequest>,
) -> JsonResult<BackfillStep, 201> {
    // Both fields are optional, and so is the body.
    let body = request.json_or_default()?;
    let collection = body
        .collection
        .map(|name| nsid::parse("collection", &name))
        .transpose()?
        .map(|nsid| nsid.to_string());
    let did = match body.did {
        None => None,
        Some(text) => Some(account(&app, &text).await?.to_string()),
    };
    if body.max_repos == Some(0) {
        return Err(Error::bad_request("max_repos must be at least 1"));
    }
    let new = NewBackfill { collection, did, max_repos: body.max_repos, actor: None };
    let id = start(&app, &admin, new).await?;
    Ok(Json(BackfillStep { id, status: BackfillStatus::Running }))
}

/// The DID of an account that a request names by DID or handle.
async fn account(app: &App, text: &str) -> Result<Did, Error> {
    let did = app.core.resolver.account(text).await;
    did.map_err(|error| Error::bad_request(format!("did: {error}")))
}

/// Queues a backfill on behalf of `admin`. Returns its id.
///
/// # Errors
/// 429 when too many backfills wait.
async fn start(app: &App, admin: &Admin, new: NewBackfill) -> Result<String, Error> {
    check_queue(app).await?;
    let actor = Some(admin.did.to_string());
    Ok(app.backfills.create(NewBackfill { actor, ..new }).await?)
}

/// Queues a backfill for a record lexicon that was just stored. `None` when the caller may not start one, or too many
/// wait: the lexicon is stored, so the request must not fail.
pub(in crate::api::admin) async fn start_for_lexicon(
    app: &App,
    admin: &Admin,
    collection: &str,
) -> Result<Option<String>, Error> {
    if !admin.may(Permission::BackfillCreate) {
        return Ok(None);
    }
    let new = NewBackfill { collection: Some(collection.to_owned()), ..NewBackfill::default() };
    match start(app, admin, new).await {
        Err(error) if error.status == StatusCode::TOO_MANY_REQUESTS => Ok(None),
        started => started.map(Some),
    }
}

/// Refuses a job that would wait behind too many others.
async fn check_queue(app: &App) -> Result<(), Error> {
    if backfill::count_unended(&app.db).await? < MAX_UNENDED {
        return Ok(());
    }
    let error = format!("{MAX_UNENDED} backfills have not ended; cancel some, or wait until they end");
    Err(Error::new(StatusCode::TOO_MANY_REQUESTS, error))
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct BackfillQuery {
    /// Only this backfill.
    id: Option<String>,
    #[serde(flatten)]
    page: Page,
}

/// `GET /admin/backfill/status`: the backfills, newest first. All of them without a parameter; with `id` only that one;
/// with `limit` or `cursor` a page.
pub async fn status(
    app: Arc<App>,
    _admin: Admin,
    request: WithQuery<BackfillQuery>,
) -> JsonResult<Vec<JobView>> {
    Ok(Json(rows(&app, request.parameters()?).await?.into_iter().map(JobView::from).collect()))
}

/// The jobs whose status a request asks for. The specification has no parameters: without them the answer is every job.
async fn rows(app: &App, query: BackfillQuery) -> Result<Vec<JobRow>, Error> {
    if let Some(id) = given(query.id.as_deref()) {
        return Ok(backfill::get(&app.db, &id).await?.into_iter().collect());
    }
    let cursor = query.page.cursor();
    if cursor.is_none() && query.page.limit.is_none() {
        return Ok(backfill::list(&app.db).await?);
    }
    let limit = query.page.limit(PageSize::LOGS)?;
    if let Some(id) = &cursor
        && backfill::get(&app.db, id).await?.is_none()
    {
        return Err(Error::bad_request("cursor must be the id of a backfill"));
    }
    Ok(backfill::list_page(&app.db, cursor.as_deref(), limit).await?)
}

/// `POST /admin/backfill/{id}/cancel`: cancels a backfill.
pub async fn cancel(app: Arc<App>, admin: Admin, request: Request) -> JsonResult<BackfillStep> {
    control(&app, &admin, &request, Step::Cancel).await
}

/// `POST /admin/backfill/{id}/pause`: pauses a backfill.
pub async fn pause(app: Arc<App>, admin: Admin, request: Request) -> JsonResult<BackfillStep> {
    control(&app, &admin, &request, Step::Pause).await
}

/// `POST /admin/backfill/{id}/resume`: resumes a paused backfill.
pub async fn resume(app: Arc<App>, admin: Admin, request: Request) -> JsonResult<BackfillStep> {
    control(&app, &admin, &request, Step::Resume).await
}

async fn control(app: &App, admin: &Admin, request: &Request, step: Step) -> JsonResult<BackfillStep> {
    let id = request.param("id");
    let job = match app.backfills.request(id, step, admin.did.as_str()).await? {
        Requested::Done(job) => job,
        Requested::Unknown => return Err(not_found()),
        Requested::NotAllowed => {
            let status = find(app, id).await?.status;
            let needed: Vec<_> = BackfillStatus::steps(step).map(|(from, _)| from.as_str()).collect();
            let needed = needed.join(" or ");
            let error = format!("a backfill that is {status} can't be {step}: it must be {needed}");
            return Err(Error::bad_request(error));
        }
    };
    Ok(Json(BackfillStep { id: job.id, status: job.status }))
}
