//! `GET /admin/checks`: checks everything that the server needs, as `belvedere doctor` does. Takes up to ten seconds.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use crate::access::Admin;
use crate::api::answer::{Json, JsonResult};
use crate::app::{App, existing_script_access};
use belvedere_base::clock::Timestamp;
use belvedere_instance::checks::{self, Check};
use belvedere_web::http::Request;

#[derive(Debug, Serialize, JsonSchema)]
pub struct CheckReport {
    ok: bool,
    checked_at: Timestamp,
    checks: Vec<CheckView>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Check")]
struct CheckView {
    /// The subject, such as `database`. Several checks may have the same one.
    id: &'static str,
    name: String,
    ok: bool,
    /// The state, or what to do.
    detail: String,
}

impl From<Check> for CheckView {
    fn from(check: Check) -> Self {
        let ok = check.result.is_ok();
        let (Ok(detail) | Err(detail)) = check.result;
        Self { id: check.id, name: check.name, ok, detail }
    }
}

pub async fn get(app: Arc<App>, _admin: Admin, _request: Request) -> JsonResult<CheckReport> {
    let (checked_at, found) = app.checks.get_or_run(&app.clock, async || run(&app).await).await;
    let checks: Vec<CheckView> = found.into_iter().map(CheckView::from).collect();
    let answer = CheckReport { ok: checks.iter().all(|check| check.ok), checked_at, checks };
    Ok(Json(answer))
}

async fn run(app: &App) -> Vec<Check> {
    let config = &app.config;
    let access = existing_script_access(&config.secrets, &config.database);
    let mut found = checks::configuration(config, &app.identity);
    found.push(checks::secrets(config, &access));
    let url = config.database.redacted_url();
    let net = app.core.net.trusted();
    let (database, network) = tokio::join!(
        checks::of_open(&app.db, &url, config.database.max_connections, true),
        checks::network(config, &net),
    );
    found.extend(database);
    found.extend(checks::replicas(app.db.replicas()));
    found.extend(checks::nodes(app.db.nodes()));
    // It was opened at the start, or the server would not run.
    found.push(Check::new("script_engine", "script engine", Ok("ready".to_owned())));
    found.extend(network);
    found
}
