//! `GET /admin/overview`: what the server does now, in one answer. Parts that need another permission are null without
//! it.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::events::EventView;
use crate::access::{Admin, Permission as P};
use crate::api::answer::{Json, JsonResult};
use crate::app::App;
use belvedere_base::clock::Timestamp;
use belvedere_instance::config;
use belvedere_instance::history::Recent;
use belvedere_instance::indexing::{CURSOR_SOURCE, Stall};
use belvedere_storage::store::dead_letters::{self, DeadLetterFilter};
use belvedere_storage::store::events::{self, EventFilter, Severity};
use belvedere_storage::store::gaps::{self, GapReason, OpenGap};
use belvedere_storage::store::jobs::{self, JobCounts};
use belvedere_storage::store::replicas::ServerStatus;
use belvedere_storage::store::status::{BackfillStatus, Stage};
use belvedere_storage::store::{backfill, cursors, labelers, records};
use belvedere_web::http::{Error, Request};

/// From when on the index is called behind: below it a query sees what its user has just written.
const BEHIND_SECONDS: f64 = 60.0;

/// The period of the rates, in minutes.
const RATE_MINUTES: i64 = 10;

/// Seconds before the present for which ended jobs are counted.
const JOB_SECONDS: i64 = 86_400;

/// Backfills that are listed.
const MAX_BACKFILLS: usize = 10;

/// Errors that are listed.
const MAX_ERRORS: u32 = 10;

#[derive(Debug, Serialize, JsonSchema)]
pub struct Overview {
    version: &'static str,
    /// The time at which this host's server was started.
    started_at: Timestamp,
    records: OverviewRecords,
    stream: OverviewStream,
    gaps: Vec<OverviewGap>,
    requests: OverviewRequests,
    /// Those that have not ended. Null without `backfill:read`.
    backfills: Option<Vec<BackfillSummary>>,
    /// Null without `jobs:read`.
    jobs: Option<JobCounts>,
    /// Unresolved. Null without `dead-letters:read`.
    dead_letters: Option<i64>,
    /// Null without `labelers:read`.
    labelers: Option<OverviewLabelers>,
    /// The replicas of `DATABASE_READ_URLS` in the state that this host sees.
    replicas: Vec<Replica>,
    /// The last ten. Null without `events:read`.
    errors: Option<Vec<EventView>>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct OverviewRecords {
    total: u64,
    invalid: u64,
    collections: usize,
}

#[derive(Debug, Serialize, JsonSchema)]
struct OverviewStream {
    #[schemars(extend("enum" = [
        "live", "behind", "connecting", "disconnected", "database_failing", "unreadable", "broken", "idle"
    ]))]
    state: &'static str,
    /// A sentence, for every state but `live`.
    reason: Option<String>,
    /// False while another host follows the stream.
    is_here: bool,
    /// Everything up to this time is in the index.
    cursor: Option<Timestamp>,
    lag_seconds: Option<f64>,
    last_event_at: Option<Timestamp>,
    /// The rate of the last ten minutes, like all rates.
    events_per_second: f64,
    servers: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct OverviewGap {
    reason: GapReason,
    from: Timestamp,
    to: Timestamp,
    job_id: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct OverviewRequests {
    per_second: f64,
    errors_per_second: f64,
    /// Null without requests.
    mean_ms: Option<f64>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct BackfillSummary {
    id: String,
    kind: String,
    collection: Option<String>,
    did: Option<String>,
    status: BackfillStatus,
    stage: Stage,
    processed_repos: Option<i64>,
    failed_repos: Option<i64>,
    total_repos: Option<i64>,
    total_records: Option<i64>,
    started_at: Option<Timestamp>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct OverviewLabelers {
    active: usize,
    connected: usize,
}

/// The replica's state on this host.
#[derive(Debug, Serialize, JsonSchema)]
struct Replica {
    /// HOST:PORT
    server: String,
    in_use: bool,
    /// The reason why it is not used, and the remedy.
    reason: Option<String>,
    /// At most so old is what it answers. Null while it is not known.
    lag_seconds: Option<f64>,
    /// The time at which the last transaction that it has replayed was committed.
    replayed_at: Option<Timestamp>,
    /// Statements that this host sent there since its start.
    reads: u64,
    /// Those of them that were repeated on the primary.
    repeated_reads: u64,
}

impl From<ServerStatus> for Replica {
    fn from(status: ServerStatus) -> Self {
        let ServerStatus { server, unused, lag, replayed_at, reads, repeated } = status;
        Self {
            server,
            in_use: unused.is_none(),
            reason: unused.map(|reason| reason.to_string()),
            lag_seconds: lag.map(|lag| lag.as_secs_f64()),
            replayed_at,
            reads,
            repeated_reads: repeated,
        }
    }
}

pub async fn get(app: Arc<App>, admin: Admin, _request: Request) -> JsonResult<Overview> {
    app.flush_history().await?;
    let recent = Recent::read(&app.db, app.clock.now(), RATE_MINUTES).await?;
    let counts = records::collection_counts(&app.db).await?;
    let gap = |OpenGap { reason, from, to, job }| OverviewGap { reason, from, to, job_id: job };
    let answer = Overview {
        version: env!("CARGO_PKG_VERSION"),
        started_at: app.started_at,
        records: OverviewRecords {
            total: counts.iter().map(|counted| counted.records).sum(),
            invalid: counts.iter().map(|counted| counted.invalid).sum(),
            collections: app.registry.snapshot().tracked().len(),
        },
        stream: stream(&app, recent.events_per_second).await?,
        gaps: gaps::open(&app.db).await?.into_iter().map(gap).collect(),
        requests: OverviewRequests {
            per_second: recent.requests_per_second,
            errors_per_second: recent.errors_per_second,
            mean_ms: recent.mean_ms,
        },
        backfills: if admin.may(P::BackfillRead) { Some(backfills(&app).await?) } else { None },
        jobs: if admin.may(P::JobsRead) {
            Some(jobs::counts(&app.db, app.clock.now().plus_seconds(-JOB_SECONDS)).await?)
        } else {
            None
        },
        dead_letters: if admin.may(P::DeadLettersRead) {
            let open = DeadLetterFilter { resolved: Some(false), ..DeadLetterFilter::default() };
            Some(dead_letters::count(&app.db, &open).await?)
        } else {
            None
        },
        labelers: if admin.may(P::LabelersRead) { Some(labelers(&app).await?) } else { None },
        replicas: app.db.replicas().into_iter().map(Replica::from).collect(),
        errors: if admin.may(P::EventsRead) { Some(errors(&app).await?) } else { None },
    };
    Ok(Json(answer))
}

async fn stream(app: &App, events_per_second: f64) -> Result<OverviewStream, Error> {
    let status = app.stream.status();
    let stored = cursors::stored(&app.db, CURSOR_SOURCE).await?;
    let cursor = stored.map(|stored| Timestamp(stored.cursor));
    let seconds = |micros: i64| micros.max(0) as f64 / 1e6;
    let is_tracking = !app.registry.snapshot().tracked().is_empty();
    let has_servers = !app.config.indexing.jetstream_urls.is_empty();
    let is_idle = !is_tracking || !has_servers;
    let lag_seconds = match stored {
        _ if is_idle => None,
        // The other host committed it then.
        Some(stored) if status.standby => Some(seconds(stored.committed_at.0 - stored.cursor)),
        Some(_) if status.connected => status.lag.map(|lag| lag.as_secs_f64()),
        // Until a server answers, a quiet stream and one that is behind look the same.
        Some(stored) if status.stalled.is_some() => Some(seconds(app.clock.now().0 - stored.cursor)),
        Some(_) | None => None,
    };
    let (state, reason) = match status.stalled {
        Some(Stall::Broken { since }) => {
            ("broken", Some(format!("The stream broke at {since}: restart the server.")))
        }
        Some(Stall::Database { since }) => (
            "database_failing",
            Some(format!("Nothing could be stored since {since}: look at the database.")),
        ),
        Some(Stall::Unreadable { since }) => (
            "unreadable",
            Some(format!("The Jetstream server's frames can't be read since {since}: see the log.")),
        ),
        Some(Stall::Disconnected { since }) => {
            ("disconnected", Some(format!("No Jetstream server could be reached since {since}.")))
        }
        None if !has_servers => {
            ("idle", Some("No Jetstream server is configured (JETSTREAM_URL).".to_owned()))
        }
        None if !is_tracking => {
            ("idle", Some("No collection is indexed yet: upload a record lexicon.".to_owned()))
        }
        None if !status.connected && !status.standby => {
            ("connecting", Some("The server is connecting to a Jetstream server.".to_owned()))
        }
        None => match lag_seconds.filter(|lag| *lag > BEHIND_SECONDS) {
            Some(lag) => ("behind", Some(format!("The index is {lag:.0} seconds behind the stream."))),
            None => ("live", None),
        },
    };
    Ok(OverviewStream {
        state,
        reason,
        is_here: !status.standby,
        cursor,
        lag_seconds,
        last_event_at: status.last_event_at,
        events_per_second,
        servers: app.config.indexing.jetstream_urls.iter().map(|url| config::public_url(url)).collect(),
    })
}

async fn backfills(app: &App) -> Result<Vec<BackfillSummary>, Error> {
    let mut rows = backfill::list(&app.db).await?;
    rows.retain(|row| row.completed_at.is_none());
    let first = rows.into_iter().rev().take(MAX_BACKFILLS).map(|row| BackfillSummary {
        id: row.id,
        kind: row.kind,
        collection: row.collection,
        did: row.did,
        status: row.status,
        stage: row.stage,
        processed_repos: row.processed_repos,
        failed_repos: row.failed_repos,
        total_repos: row.total_repos,
        total_records: row.total_records,
        started_at: row.started_at,
    });
    Ok(first.collect())
}

async fn labelers(app: &App) -> Result<OverviewLabelers, Error> {
    let rows = labelers::list(&app.db).await?;
    let active = rows.iter().filter(|row| row.status == labelers::LabelerStatus::Active);
    let connected = active.clone().filter(|row| row.connection.is_some()).count();
    Ok(OverviewLabelers { active: active.count(), connected })
}

async fn errors(app: &App) -> Result<Vec<EventView>, Error> {
    app.events.flush().await;
    let filter = EventFilter { severities: vec![Severity::Error], ..EventFilter::default() };
    let rows = events::list(&app.db, &filter, MAX_ERRORS).await?;
    rows.into_iter().map(EventView::new).collect::<Result<_, _>>().map_err(Error::internal)
}
