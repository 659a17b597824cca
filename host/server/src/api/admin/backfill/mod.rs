//! `/admin/backfill`: starts, lists, cancels, pauses and resumes backfills (service.md, Backfill).

pub mod details;
pub mod events;
pub mod failures;
pub mod plan;

use std::sync::Arc;

use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::access::{Admin, Permission};
use crate::api::paging;
use crate::app::App;
use belvedere_base::clock::Timestamp;
use belvedere_instance::backfill::NewBackfill;
use belvedere_protocol::atproto::{Did, Nsid};
use belvedere_storage::query::PageSize;
use belvedere_storage::store::backfill::{self, JobRow, Requested, Traffic};
use belvedere_storage::store::status::{BackfillStatus, Request as Step, Status as _};
use belvedere_web::http::{Error, Request, Response, response};

/// Backfills that have not ended. They run one after another, so more would wait for days.
const MAX_UNENDED: i64 = 1_000;

fn not_found() -> Error {
    Error::not_found("backfill job not found")
}

async fn find(app: &App, id: &str) -> Result<JobRow, Error> {
    backfill::get(&app.db, id).await?.ok_or_else(not_found)
}

/// A job as lists show it (service.md, Backfill job).
#[derive(Serialize)]
struct JobView {
    id: String,
    /// `backfill`, `catch_up` or `repair`.
    kind: String,
    collection: Option<String>,
    did: Option<String>,
    status: &'static str,
    stage: &'static str,
    total_repos: Option<i64>,
    resolved_repos: Option<i64>,
    processed_repos: Option<i64>,
    failed_repos: Option<i64>,
    total_records: Option<i64>,
    lists_all_repos: bool,
    #[serde(flatten)]
    traffic: TrafficView,
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
            status: row.status.as_str(),
            stage: row.stage.as_str(),
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
#[derive(Serialize)]
struct TrafficView {
    bytes_fetched: i64,
    /// The bytes of the valid records of wanted collections, as JSON.
    bytes_kept: i64,
    sources: SourcesView,
}

#[derive(Serialize)]
struct SourcesView {
    pages: PagesView,
    car: CarView,
}

#[derive(Serialize)]
struct PagesView {
    requests: i64,
    bytes: i64,
}

#[derive(Serialize)]
struct CarView {
    requests: i64,
    bytes: i64,
    /// Repos of which a part was read from a CAR.
    repos: i64,
}

impl From<Traffic> for TrafficView {
    fn from(traffic: Traffic) -> Self {
        let Traffic { page_requests, page_bytes, car_requests, car_bytes, car_repos, bytes_kept } = traffic;
        let pages = PagesView { requests: page_requests, bytes: page_bytes };
        let car = CarView { requests: car_requests, bytes: car_bytes, repos: car_repos };
        Self { bytes_fetched: page_bytes + car_bytes, bytes_kept, sources: SourcesView { pages, car } }
    }
}

#[derive(Default, Deserialize)]
struct Body {
    /// Every collection with a record lexicon when absent.
    collection: Option<String>,
    /// A DID or a handle; every repo that the relay lists when absent.
    did: Option<String>,
    /// The most repos that the backfill may have: twice what its plan says, for example.
    max_repos: Option<u32>,
}

/// `POST /admin/backfill`: queues a backfill.
pub async fn create(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    // Both fields are optional, and so is the body.
    let body: Body = if request.body.is_empty() { Body::default() } else { request.json()? };
    let collection = body.collection.map(|name| collection(&name)).transpose()?.map(|nsid| nsid.to_string());
    let did = match body.did {
        None => None,
        Some(text) => Some(account(&app, &text).await?.to_string()),
    };
    if body.max_repos == Some(0) {
        return Err(Error::bad_request("max_repos must be at least 1"));
    }
    let new = NewBackfill { collection, did, max_repos: body.max_repos, actor: None };
    let id = start(&app, &admin, new).await?;
    Ok(response::json(StatusCode::CREATED, &json!({ "id": id, "status": BackfillStatus::Running })))
}

fn collection(name: &str) -> Result<Nsid, Error> {
    Nsid::try_from(name)
        .map_err(|_| Error::bad_request("collection is not an NSID, such as com.example.note"))
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

/// `GET /admin/backfill/status`: every job, newest first. With `id` only that one; with `limit` or `cursor` a page.
pub async fn status(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let jobs: Vec<JobView> = rows(&app, &request).await?.into_iter().map(JobView::from).collect();
    Ok(response::json(StatusCode::OK, &jobs))
}

/// The jobs whose status a request asks for. The specification has no parameters: without them the answer is every job.
async fn rows(app: &App, request: &Request) -> Result<Vec<JobRow>, Error> {
    if let Some(id) = paging::optional(request, "id") {
        return Ok(backfill::get(&app.db, &id).await?.into_iter().collect());
    }
    let cursor = paging::optional(request, "cursor");
    if cursor.is_none() && request.query("limit").is_none() {
        return Ok(backfill::list(&app.db).await?);
    }
    let limit = paging::limit(request, PageSize::LOGS)?;
    if let Some(id) = &cursor
        && backfill::get(&app.db, id).await?.is_none()
    {
        return Err(Error::bad_request("cursor must be the id of a backfill"));
    }
    Ok(backfill::list_page(&app.db, cursor.as_deref(), limit).await?)
}

/// `POST /admin/backfill/{id}/cancel`
pub async fn cancel(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    control(&app, &admin, &request, Step::Cancel).await
}

/// `POST /admin/backfill/{id}/pause`
pub async fn pause(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    control(&app, &admin, &request, Step::Pause).await
}

/// `POST /admin/backfill/{id}/resume`
pub async fn resume(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    control(&app, &admin, &request, Step::Resume).await
}

async fn control(app: &App, admin: &Admin, request: &Request, step: Step) -> Result<Response, Error> {
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
    Ok(response::json(StatusCode::OK, &json!({ "id": job.id, "status": job.status })))
}
