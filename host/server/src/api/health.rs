//! `/health`, `/livez`, `/readyz`: reports health to people, the process's supervisor and the load balancer.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use serde::Serialize;

use crate::app::App;
use belvedere_instance::config::backfill::CATCH_UP;
use belvedere_instance::indexing::Stall;
use belvedere_storage::store::gaps::OpenGap;
use belvedere_storage::store::nodes::NodeStatus;
use belvedere_web::http::{Error, Request, Response, response};

/// `GET /health`: always `ok`, without any check (service.md).
pub async fn health(_app: Arc<App>, _request: Request) -> Result<Response, Error> {
    Ok(response::text(StatusCode::OK, Bytes::from_static(b"ok")))
}

/// `GET /livez`: 200 unless something has happened that only a restart fixes.
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
    /// Never failed: names the gaps of the stream that the index has not caught up with yet.
    catch_up: Check,
    /// Never failed: labels that are stored stay in force.
    labelers: Check,
    /// Never failed: names the nodes of a database in shards whose collections can't be read. All other collections can.
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes: Option<Check>,
    /// Failed while the server finishes its last requests before a shutdown.
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

    fn ok_with(reason: impl Into<String>) -> Self {
        Self { ok: true, reason: Some(reason.into()) }
    }

    fn failed(reason: impl Into<String>) -> Self {
        Self { ok: false, reason: Some(reason.into()) }
    }
}

/// `GET /readyz`: 200 when requests can be served in full, otherwise 503 with the reasons. Recovers without a restart.
pub async fn readyz(app: Arc<App>, _request: Request) -> Result<Response, Error> {
    let found = app.readiness.check(&app.db, app.clock.now()).await;
    let accepting = if app.lifecycle.drain.is_cancelled() {
        Check::failed("the server is shutting down")
    } else {
        Check::OK
    };
    let nodes = app.db.nodes();
    let lost: Vec<&NodeStatus> = nodes.iter().filter(|node| node.is_lost).collect();
    let checks = Checks {
        database: found.database.into(),
        migrations: found.migrations.into(),
        stream: stream(&app, !nodes.is_empty()),
        catch_up: catch_up(&found.gaps, app.settings.catches_up()),
        labelers: labelers(&app),
        nodes: (!nodes.is_empty()).then(|| describe_nodes(&lost)),
        accepting,
    };
    let ready =
        [&checks.database, &checks.migrations, &checks.stream, &checks.accepting].iter().all(|c| c.ok);
    let (code, status) =
        if ready { (StatusCode::OK, "ready") } else { (StatusCode::SERVICE_UNAVAILABLE, "not ready") };
    Ok(response::json(code, &Report { status, checks }))
}

impl From<Result<(), String>> for Check {
    fn from(result: Result<(), String>) -> Self {
        result.map_or_else(Self::failed, |()| Self::OK)
    }
}

fn catch_up(gaps: &[OpenGap], is_enabled: bool) -> Check {
    let describe = |gap: &OpenGap| {
        let OpenGap { reason, from, to, job } = gap;
        let reason = reason.as_str();
        let action = match job {
            Some(job) => format!("backfill {job} reads what has changed"),
            None if is_enabled => "a backfill will read what has changed".to_owned(),
            None => format!("nothing reads what has changed, because {} is false", CATCH_UP.key()),
        };
        format!("events from {from} to {to} may be missing ({reason}); {action}")
    };
    match gaps {
        [] => Check::OK,
        gaps => Check::ok_with(gaps.iter().map(describe).collect::<Vec<_>>().join(". ")),
    }
}

/// `in_shards`: the stream may wait for a node while the host answers for all others.
fn stream(app: &App, in_shards: bool) -> Check {
    let status = app.stream.status();
    match status.stalled {
        None if status.standby => Check::ok_with("another host follows the stream"),
        None => Check::OK,
        Some(Stall::Database { since }) if in_shards => {
            Check::ok_with(format!("nothing could be committed since {since}"))
        }
        Some(Stall::Database { since }) => Check::failed(format!("nothing could be committed since {since}")),
        Some(Stall::Broken { since }) => Check::failed(format!("the stream broke at {since}: restart")),
        Some(Stall::Unreadable { since }) => {
            Check::failed(format!("the server's frames can't be read since {since}: see the log"))
        }
        Some(Stall::Disconnected { since }) => {
            Check::failed(format!("not connected to a Jetstream server since {since}"))
        }
    }
}

fn describe_nodes(lost: &[&NodeStatus]) -> Check {
    let describe = |NodeStatus { server, shards, .. }: &&NodeStatus| {
        format!(
            "{} is lost: the collections of its {} shards can't be read or written",
            server.server,
            shards.len()
        )
    };
    match lost {
        [] => Check::OK,
        lost => Check::ok_with(lost.iter().map(describe).collect::<Vec<_>>().join(". ")),
    }
}

fn labelers(app: &App) -> Check {
    let status = app.labelers.status();
    if !status.leading {
        return Check::ok_with("another host follows the labelers");
    }
    let missing = status.active.saturating_sub(status.connected);
    if missing == 0 {
        return Check::OK;
    }
    Check::ok_with(format!(
        "{missing} of {} labelers are not connected; GET /admin/labelers says why",
        status.active
    ))
}
