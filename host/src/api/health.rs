//! `/health`, `/livez`, `/readyz`: for people, for the process's supervisor, for the load balancer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::StatusCode;
use serde::Serialize;
use tokio::sync::Mutex;

use crate::app::App;
use crate::http::{Error, Request, Response, response};
use crate::indexing::Stall;
use crate::store::health::Unhealthy;

/// A database that takes longer than this to answer serves nobody in time either.
const DATABASE_TIME: Duration = Duration::from_secs(2);

/// How long a look at the database counts. Anybody may ask, and however often they do, the database is read and written
/// once in this time.
const FRESH: Duration = Duration::from_secs(2);

/// `GET /health`: `ok`, and nothing is looked at (service.md).
pub async fn health(_app: Arc<App>, _request: Request) -> Result<Response, Error> {
    Ok(response::text(StatusCode::OK, Bytes::from_static(b"ok")))
}

/// `GET /livez`: 200 while nothing has happened that only a restart cures.
pub async fn livez(app: Arc<App>, request: Request) -> Result<Response, Error> {
    match app.stream.status().stalled {
        Some(Stall::Broken { .. }) => {
            Err(Error::new(StatusCode::SERVICE_UNAVAILABLE, "the stream is broken: restart"))
        }
        _ => health(app, request).await,
    }
}

#[derive(Serialize)]
struct Report {
    status: &'static str,
    checks: Checks,
}

#[derive(Serialize)]
struct Checks {
    database: Check,
    migrations: Check,
    stream: Check,
    /// False while the server finishes its last requests.
    accepting: Check,
}

#[derive(Clone, Debug, Serialize)]
struct Check {
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl Check {
    const OK: Self = Self { ok: true, reason: None };

    fn but(reason: impl Into<String>) -> Self {
        Self { ok: true, reason: Some(reason.into()) }
    }

    fn failed(reason: impl Into<String>) -> Self {
        Self { ok: false, reason: Some(reason.into()) }
    }
}

/// What is known of the database.
#[derive(Debug, Default)]
pub struct Readiness {
    /// All migrations were applied: while this process runs they stay so.
    migrated: AtomicBool,
    last: Mutex<Option<(Instant, Database)>>,
}

/// The checks of the database and its migrations.
#[derive(Clone, Debug)]
struct Database(Check, Check);

/// `GET /readyz`: 200 when requests can be served in full, else 503 with the reasons. Recovers by itself.
pub async fn readyz(app: Arc<App>, _request: Request) -> Result<Response, Error> {
    let Database(database, migrations) = database(&app).await;
    let accepting = if app.lifecycle.drain.is_cancelled() {
        Check::failed("the server is shutting down")
    } else {
        Check::OK
    };
    let checks = Checks { database, migrations, stream: stream(&app), accepting };
    let ready =
        [&checks.database, &checks.migrations, &checks.stream, &checks.accepting].iter().all(|c| c.ok);
    let (code, status) =
        if ready { (StatusCode::OK, "ready") } else { (StatusCode::SERVICE_UNAVAILABLE, "not ready") };
    Ok(response::json(code, &Report { status, checks }))
}

/// The last look at the database, or a new one; callers that come meanwhile wait for it.
async fn database(app: &App) -> Database {
    let mut last = app.readiness.last.lock().await;
    if let Some((at, known)) = &*last
        && at.elapsed() < FRESH
    {
        return known.clone();
    }
    let found = tokio::time::timeout(DATABASE_TIME, look(app)).await.unwrap_or_else(|_| {
        Database(Check::failed("the database does not answer in time"), Check::failed("unknown"))
    });
    *last = Some((Instant::now(), found.clone()));
    found
}

async fn look(app: &App) -> Database {
    if let Err(error) = app.db.check_readable().await {
        return Database(unhealthy(&error), Check::failed("unknown"));
    }
    let migrations = migrations(app).await;
    if !migrations.ok {
        return Database(Check::OK, migrations);
    }
    let database = match app.db.check_writable(app.clock.now()).await {
        Ok(()) => Check::OK,
        Err(error) => unhealthy(&error),
    };
    Database(database, migrations)
}

/// What exactly failed is in the log: the answer is for everybody to read.
fn unhealthy(error: &Unhealthy) -> Check {
    tracing::warn!(%error, cause = ?std::error::Error::source(error), "the database is not healthy");
    Check::failed(error.to_string())
}

async fn migrations(app: &App) -> Check {
    if app.readiness.migrated.load(Ordering::Relaxed) {
        return Check::OK;
    }
    match app.db.pending_migrations().await {
        Ok(0) => {
            app.readiness.migrated.store(true, Ordering::Relaxed);
            Check::OK
        }
        Ok(count) => {
            Check::failed(format!("{count} migrations have not been applied: run belvedere migrate"))
        }
        Err(error) => {
            tracing::warn!(%error, "the migrations can't be looked up");
            Check::failed("unknown")
        }
    }
}

fn stream(app: &App) -> Check {
    let status = app.stream.status();
    match status.stalled {
        None if status.standby => Check::but("another host follows the stream"),
        None => Check::OK,
        Some(Stall::Database { since }) => Check::failed(format!("nothing could be committed since {since}")),
        Some(Stall::Broken { since }) => Check::failed(format!("the stream broke at {since}: restart")),
        Some(Stall::Disconnected { since }) => Check::failed(format!("no Jetstream server since {since}")),
    }
}
