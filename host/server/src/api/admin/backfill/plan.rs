//! `GET /admin/backfill/plan`: what a backfill is expected to cost. Starts nothing.

use std::sync::Arc;

use http::header::RETRY_AFTER;
use http::{HeaderValue, StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::nsid;
use super::account;
use crate::access::Admin;
use crate::api::answer::{Json, JsonResult};
use crate::api::input::WithQuery;
use crate::app::App;
use belvedere_instance::backfill::{Plan, Planner};
use belvedere_protocol::atproto::Nsid;
use belvedere_web::http::Error;

/// Time before a client whose plan was refused may try again, in seconds: most plans take less.
const RETRY_SECONDS: HeaderValue = HeaderValue::from_static("10");

#[derive(Debug, Serialize, JsonSchema)]
pub struct BackfillPlan {
    #[schemars(extend("items" = { "type": "string", "format": "nsid" }))]
    collections: Vec<String>,
    #[serde(flatten)]
    plan: Plan,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct PlanQuery {
    #[schemars(extend("format" = "nsid"))]
    collection: Option<String>,
    did: Option<String>,
}

pub async fn handle(app: Arc<App>, _admin: Admin, request: WithQuery<PlanQuery>) -> JsonResult<BackfillPlan> {
    let query = request.parameters()?;
    let collections = collections(&app, query.collection)?;
    let did = match query.did {
        Some(text) => Some(account(&app, &text).await?),
        None => None,
    };
    let _permit = app.backfills.permit_for_plan().ok_or_else(|| {
        Error::new(StatusCode::TOO_MANY_REQUESTS, "other plans are being made; try again in a few seconds")
            .with_header(RETRY_AFTER, RETRY_SECONDS)
    })?;
    let planner = Planner {
        db: app.db.clone(),
        net: app.core.net.clone(),
        resolver: app.core.resolver.clone(),
        clock: app.clock.clone(),
        relay_url: app.config.indexing.relay_url.clone(),
        settings: app.settings.backfill(),
    };
    let plan = planner.plan(&collections, did).await;
    let plan = plan.map_err(|why| Error::new(StatusCode::BAD_GATEWAY, why))?;
    let collections = collections.iter().map(Nsid::to_string).collect();
    Ok(Json(BackfillPlan { collections, plan }))
}

/// The collections that the backfill would read.
fn collections(app: &App, name: Option<String>) -> Result<Vec<Nsid>, Error> {
    let snapshot = app.registry.snapshot();
    let Some(name) = name else {
        let none = || Error::bad_request("no record lexicon is uploaded, so there is nothing to read");
        return Some(snapshot.tracked().to_vec()).filter(|all| !all.is_empty()).ok_or_else(none);
    };
    // The plan of a collection helps to decide whether to upload its lexicon.
    Ok(vec![nsid::parse("collection", &name)?])
}
