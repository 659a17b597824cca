//! `/admin/settings/xrpc-proxy`: configures which methods without a lexicon here are forwarded.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::access::Admin;
use crate::api::answer::{Empty, EmptyResult, Json, JsonResult};
use crate::api::input::WithBody;
use crate::app::App;
use belvedere_instance::events::Event;
use belvedere_instance::lexicons::ForwardingRules;
use belvedere_instance::lexicons::forwarding::{Mode, Routing, SETTING};
use belvedere_storage::store::settings;
use belvedere_web::http::{Error, Request};

/// `GET /admin/settings/xrpc-proxy`: which methods without a lexicon are forwarded, and where.
pub async fn get(app: Arc<App>, _admin: Admin, _request: Request) -> JsonResult<ForwardingRules> {
    Ok(Json(ForwardingRules::load(&app.db).await?))
}

/// `mode` and `nsids` are required: a list that is left out is more likely forgotten than meant to be empty.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct NewForwardingRules {
    mode: Mode,
    nsids: Vec<String>,
    routing: Option<Routing>,
}

/// `PUT /admin/settings/xrpc-proxy`: replaces these rules. Takes effect with the next call.
pub async fn put(app: Arc<App>, admin: Admin, request: WithBody<NewForwardingRules>) -> EmptyResult {
    let NewForwardingRules { mode, nsids, routing } = request.json()?;
    let rules = ForwardingRules { mode, nsids, routing: routing.unwrap_or_default() };
    let rules = rules.checked().map_err(|e| Error::bad_request(e.to_string()))?;
    let text = serde_json::to_string(&rules).map_err(Error::internal)?;
    settings::set(&app.db, SETTING, &text, app.clock.now()).await?;
    app.events.record(Event::SettingUpdated {
        actor: admin.did.to_string(),
        key: SETTING.to_owned(),
        detail: serde_json::json!({ "mode": rules.mode, "nsids": rules.nsids.len(), "routing": rules.routing }),
    });
    Ok(Empty)
}
