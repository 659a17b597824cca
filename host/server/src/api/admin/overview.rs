//! `GET /admin/overview`: what the server does now, in one answer.

use std::sync::Arc;

use http::StatusCode;
use serde::Serialize;

use super::events::EventView;
use crate::access::{Admin, Permission as P};
use crate::app::App;
use belvedere_base::clock::Timestamp;
use belvedere_instance::config;
use belvedere_instance::history::{Recent, STEP_SECONDS};
use belvedere_instance::indexing::{CURSOR_SOURCE, Stall};
use belvedere_storage::store::dead_letters::{self, LetterFilter};
use belvedere_storage::store::events::{self, EventFilter, Severity};
use belvedere_storage::store::gaps::{self, OpenGap};
use belvedere_storage::store::jobs::{self, JobCounts};
use belvedere_storage::store::replicas::ReplicaStatus;
use belvedere_storage::store::{backfill, cursors, labelers, records};
use belvedere_web::http::{Error, Request, Response, response};

/// From when on the index is called behind: below it a query sees what its user has just written.
const BEHIND_SECONDS: f64 = 60.0;

/// The period of the rates, in seconds.
const RATE_SECONDS: i64 = 2 * STEP_SECONDS;

/// Seconds before the present for which ended jobs are counted.
const JOB_SECONDS: i64 = 86_400;

/// Backfills that are listed.
const MAX_BACKFILLS: usize = 10;

/// Errors that are listed.
const MAX_ERRORS: u32 = 10;

#[derive(Serialize)]
struct Answer {
    version: &'static str,
    started_at: Timestamp,
    records: Records,
    stream: Stream,
    gaps: Vec<Gap>,
    requests: Requests,
    backfills: Option<Vec<Backfill>>,
    jobs: Option<Jobs>,
    dead_letters: Option<i64>,
    labelers: Option<Labelers>,
    replicas: Vec<Replica>,
    errors: Option<Vec<EventView>>,
}

#[derive(Serialize)]
struct Records {
    total: u64,
    invalid: u64,
    collections: usize,
}

#[derive(Serialize)]
struct Stream {
    state: &'static str,
    /// A sentence, for every state but `live`.
    reason: Option<String>,
    /// False while another host follows the stream.
    is_here: bool,
    cursor: Option<Timestamp>,
    lag_seconds: Option<f64>,
    last_event_at: Option<Timestamp>,
    events_per_second: f64,
    servers: Vec<String>,
}

#[derive(Serialize)]
struct Gap {
    reason: &'static str,
    from: Timestamp,
    to: Timestamp,
    job_id: Option<String>,
}

#[derive(Serialize)]
struct Requests {
    per_second: f64,
    errors_per_second: f64,
    /// Null without requests.
    mean_ms: Option<f64>,
}

#[derive(Serialize)]
struct Backfill {
    id: String,
    kind: String,
    collection: Option<String>,
    did: Option<String>,
    status: &'static str,
    stage: &'static str,
    processed_repos: Option<i64>,
    failed_repos: Option<i64>,
    total_repos: Option<i64>,
    total_records: Option<i64>,
    started_at: Option<Timestamp>,
}

#[derive(Serialize)]
struct Jobs {
    pending: i64,
    running: i64,
    paused: i64,
    /// Within the last day.
    failed: i64,
}

#[derive(Serialize)]
struct Labelers {
    active: usize,
    connected: usize,
}

/// The replica's state on this host.
#[derive(Serialize)]
struct Replica {
    server: String,
    in_use: bool,
    /// The reason why it is not used.
    reason: Option<String>,
    lag_seconds: Option<f64>,
    replayed_at: Option<Timestamp>,
    reads: u64,
    repeated_reads: u64,
}

impl From<ReplicaStatus> for Replica {
    fn from(status: ReplicaStatus) -> Self {
        let ReplicaStatus { server, unused, lag, replayed_at, reads, repeated } = status;
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

pub async fn get(app: Arc<App>, admin: Admin, _request: Request) -> Result<Response, Error> {
    app.flush_history().await?;
    let recent = Recent::read(&app.db, app.clock.now(), RATE_SECONDS).await?;
    let counts = records::collection_counts(&app.db).await?;
    let gap = |OpenGap { reason, from, to, job }| Gap { reason: reason.as_str(), from, to, job_id: job };
    let answer = Answer {
        version: env!("CARGO_PKG_VERSION"),
        started_at: app.started_at,
        records: Records {
            total: counts.iter().map(|counted| counted.records).sum(),
            invalid: counts.iter().map(|counted| counted.invalid).sum(),
            collections: app.registry.snapshot().tracked().len(),
        },
        stream: stream(&app, recent.events_per_second).await?,
        gaps: gaps::open(&app.db).await?.into_iter().map(gap).collect(),
        requests: Requests {
            per_second: recent.requests_per_second,
            errors_per_second: recent.errors_per_second,
            mean_ms: recent.mean_ms,
        },
        backfills: if admin.may(P::BackfillRead) { Some(backfills(&app).await?) } else { None },
        jobs: if admin.may(P::JobsRead) { Some(jobs(&app).await?) } else { None },
        dead_letters: if admin.may(P::DeadLettersRead) {
            let open = LetterFilter { resolved: Some(false), ..LetterFilter::default() };
            Some(dead_letters::count(&app.db, &open).await?)
        } else {
            None
        },
        labelers: if admin.may(P::LabelersRead) { Some(labelers(&app).await?) } else { None },
        replicas: app.db.replicas().into_iter().map(Replica::from).collect(),
        errors: if admin.may(P::EventsRead) { Some(errors(&app).await?) } else { None },
    };
    Ok(response::json(StatusCode::OK, &answer))
}

async fn stream(app: &App, events_per_second: f64) -> Result<Stream, Error> {
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
        Some(stored) => Some(seconds(app.clock.now().0 - stored.cursor)),
        None => None,
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
    Ok(Stream {
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

async fn backfills(app: &App) -> Result<Vec<Backfill>, Error> {
    let mut rows = backfill::list(&app.db).await?;
    rows.retain(|row| row.completed_at.is_none());
    let first = rows.into_iter().rev().take(MAX_BACKFILLS).map(|row| Backfill {
        id: row.id,
        kind: row.kind,
        collection: row.collection,
        did: row.did,
        status: row.status.as_str(),
        stage: row.stage.as_str(),
        processed_repos: row.processed_repos,
        failed_repos: row.failed_repos,
        total_repos: row.total_repos,
        total_records: row.total_records,
        started_at: row.started_at,
    });
    Ok(first.collect())
}

async fn jobs(app: &App) -> Result<Jobs, Error> {
    let since = app.clock.now().plus_seconds(-JOB_SECONDS);
    let JobCounts { pending, running, paused, failed } = jobs::counts(&app.db, since).await?;
    Ok(Jobs { pending, running, paused, failed })
}

async fn labelers(app: &App) -> Result<Labelers, Error> {
    let rows = labelers::list(&app.db).await?;
    let active = rows.iter().filter(|row| row.status == labelers::LabelerStatus::Active);
    let connected = active.clone().filter(|row| row.connection.is_some()).count();
    Ok(Labelers { active: active.count(), connected })
}

async fn errors(app: &App) -> Result<Vec<EventView>, Error> {
    app.events.flush().await;
    let filter = EventFilter { severities: vec![Severity::Error], ..EventFilter::default() };
    let rows = events::list(&app.db, &filter, MAX_ERRORS).await?;
    rows.into_iter().map(EventView::new).collect::<Result<_, _>>().map_err(Error::internal)
}
