//! `/admin/settings/xrpc-proxy`: configures which methods without a lexicon here are forwarded.

use std::sync::Arc;

use http::StatusCode;
use serde::Deserialize;

use crate::access::Admin;
use crate::app::App;
use belvedere_instance::events::Event;
use belvedere_instance::lexicons::ForwardingRules;
use belvedere_instance::lexicons::forwarding::{Mode, Routing, SETTING};
use belvedere_storage::store::settings;
use belvedere_web::http::{Error, Request, Response, response};

/// `GET /admin/settings/xrpc-proxy`
pub async fn get(app: Arc<App>, _admin: Admin, _request: Request) -> Result<Response, Error> {
    let rules = ForwardingRules::load(&app.db).await?;
    Ok(response::json(StatusCode::OK, &rules))
}

/// `mode` and `nsids` are required: a list that is left out is more likely forgotten than meant to be empty.
#[derive(Deserialize)]
struct Body {
    mode: Mode,
    nsids: Vec<String>,
    routing: Option<Routing>,
}

/// `PUT /admin/settings/xrpc-proxy`: takes effect with the next call.
pub async fn put(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    let Body { mode, nsids, routing } = request.json()?;
    let rules = ForwardingRules { mode, nsids, routing: routing.unwrap_or_default() };
    let rules = rules.checked().map_err(|e| Error::bad_request(e.to_string()))?;
    let text = serde_json::to_string(&rules).map_err(Error::internal)?;
    settings::set(&app.db, SETTING, &text, app.clock.now()).await?;
    app.events.record(Event::SettingUpdated {
        actor: admin.did.to_string(),
        key: SETTING.to_owned(),
        detail: serde_json::json!({ "mode": rules.mode, "nsids": rules.nsids.len(), "routing": rules.routing }),
    });
    Ok(response::empty(StatusCode::NO_CONTENT))
}
