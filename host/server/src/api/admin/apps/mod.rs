//! `/admin/apps`: the apps that this instance serves: their lexicons, what runs for them, and who calls them
//! (docs/adr/0150).

mod usage;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::usage::AppUsage;
use crate::access::Admin;
use crate::api::answer::{Json, JsonResult};
use crate::api::input::WithQuery;
use crate::app::App;
use belvedere_base::clock::Timestamp;
use belvedere_instance::history::kept_seconds;
use belvedere_storage::store::metric_resolution::Resolution;
use belvedere_web::fair_share::Tenant;
use belvedere_web::http::Error;

const DEFAULT_HOURS: i64 = 24;
/// Hours of a period at most: steps are kept for so long.
const MAX_HOURS: i64 = kept_seconds(Resolution::FiveMinutes) / 3_600;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct AppsQuery {
    /// Hours until now in which calls and runs are counted, 1 to 168. 24 if absent.
    #[schemars(with = "Option<u32>")]
    hours: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Apps {
    /// The time from which calls are counted.
    since: Timestamp,
    apps: Vec<AppSummary>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct AppSummary {
    /// The first two segments of the NSIDs of its lexicons.
    app: String,
    lexicons: usize,
    scripts: usize,
    views: usize,
    records: u64,
    calls: u64,
    /// Those that this server failed to answer (5xx).
    errors: u64,
    /// API clients that called it.
    clients: usize,
}

/// `GET /admin/apps`: the apps of which this instance has a lexicon or a script, by name.
pub async fn list(app: Arc<App>, admin: Admin, request: WithQuery<AppsQuery>) -> JsonResult<Apps> {
    let period = period(&app, request.parameters()?)?;
    let apps = read(&app, &admin, period).await?.into_iter().map(AppSummary::of).collect();
    Ok(Json(Apps { since: period.0, apps }))
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct AppDetails {
    app: String,
    /// The time from which calls and runs are counted.
    since: Timestamp,
    #[serde(flatten)]
    usage: AppUsage,
}

/// `GET /admin/apps/{app}`: one app with its lexicons, scripts and callers.
pub async fn get(app: Arc<App>, admin: Admin, request: WithQuery<AppsQuery>) -> JsonResult<AppDetails> {
    let (name, period) = (request.param("app"), period(&app, request.parameters()?)?);
    let found = read(&app, &admin, period).await?.into_iter().find(|(app, _)| app == name);
    let (app, usage) = found.ok_or_else(|| {
        Error::not_found(
            "no lexicon or script belongs to this app: its name is the first two segments of their NSIDs",
        )
    })?;
    Ok(Json(AppDetails { app, since: period.0, usage }))
}

fn period(app: &App, query: AppsQuery) -> Result<(Timestamp, Timestamp), Error> {
    let hours = query.hours.map_or(Ok(DEFAULT_HOURS), |text| text.parse());
    let hours = hours.ok().filter(|hours| (1..=MAX_HOURS).contains(hours));
    let hours =
        hours.ok_or_else(|| Error::bad_request(format!("hours must be a number from 1 to {MAX_HOURS}")))?;
    let now = app.clock.now();
    Ok((now.plus_seconds(-3_600 * hours), now))
}

async fn read(
    app: &App,
    admin: &Admin,
    period: (Timestamp, Timestamp),
) -> Result<Vec<(String, AppUsage)>, Error> {
    // A client sees its own calls at once.
    app.flush_history().await?;
    let _permit = app.db.scan_permit(&Tenant::of_did(admin.did.as_str())).await?;
    Ok(usage::read(app, period).await?.into_iter().collect())
}

impl AppSummary {
    fn of((app, usage): (String, AppUsage)) -> Self {
        Self {
            app,
            lexicons: usage.lexicons.len(),
            scripts: usage.scripts.iter().filter(|script| !script.is_view).count(),
            views: usage.scripts.iter().filter(|script| script.is_view).count(),
            records: usage.lexicons.iter().filter_map(|lexicon| lexicon.records).sum(),
            calls: usage.lexicons.iter().map(|lexicon| lexicon.calls).sum(),
            errors: usage.lexicons.iter().map(|lexicon| lexicon.errors).sum(),
            clients: usage.clients.iter().filter(|client| client.is_client).count(),
        }
    }
}
