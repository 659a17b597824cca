//! `/health`, `/livez`, `/readyz`: for people, for the process's supervisor, for the load balancer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use serde::Serialize;

use crate::app::App;
use crate::http::{Error, Request, Response, response};
use crate::indexing::Stall;

/// A database that takes longer than this to answer serves nobody in time either.
const DATABASE_TIME: Duration = Duration::from_secs(2);

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
struct Readiness {
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

#[derive(Serialize)]
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

/// Remembers that all migrations were applied: while this process runs they stay so.
#[derive(Debug, Default)]
pub struct Migrated(AtomicBool);

/// `GET /readyz`: 200 when requests can be served in full, else 503 with the reasons. Recovers by itself.
pub async fn readyz(app: Arc<App>, _request: Request) -> Result<Response, Error> {
    let (database, migrations) = match tokio::time::timeout(DATABASE_TIME, database(&app)).await {
        Ok(checks) => checks,
        Err(_) => (Check::failed("the database does not answer in time"), Check::failed("unknown")),
    };
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
    Ok(response::json(code, &Readiness { status, checks }))
}

async fn database(app: &App) -> (Check, Check) {
    // What exactly failed is in the log: the answer is for everybody to read.
    if let Err(error) = app.db.ping().await {
        tracing::warn!(%error, "the database does not answer");
        return (Check::failed("the database can't be reached"), Check::failed("unknown"));
    }
    if app.migrated.0.load(Ordering::Relaxed) {
        return (Check::OK, Check::OK);
    }
    let migrations = match app.db.pending_migrations().await {
        Ok(0) => {
            app.migrated.0.store(true, Ordering::Relaxed);
            Check::OK
        }
        Ok(count) => {
            Check::failed(format!("{count} migrations have not been applied: run belvedere migrate"))
        }
        Err(error) => {
            tracing::warn!(%error, "the migrations can't be looked up");
            Check::failed("unknown")
        }
    };
    (Check::OK, migrations)
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
