//! `PUT /admin/api-clients/{id}`: change what is sent, leave the rest. Deactivating reaches the children too.

use std::sync::Arc;

use http::StatusCode;
use serde::Deserialize;

use crate::access::Admin;
use crate::api::clients::check;
use crate::app::App;
use crate::app::Topic;
use crate::events::Event;
use crate::http::{Error, Request, Response, response};
use crate::store::Patch;
use crate::store::api_clients::{self, ApiClientPatch};

#[derive(Deserialize)]
struct Body {
    name: Option<String>,
    client_uri: Option<String>,
    redirect_uris: Option<Vec<String>>,
    scopes: Option<String>,
    #[serde(default)]
    allowed_origins: Patch<Vec<String>>,
    /// Null goes back to the instance's default; so does the next.
    #[serde(default)]
    rate_limit_capacity: Patch<i64>,
    #[serde(default)]
    rate_limit_refill_rate: Patch<f64>,
    is_active: Option<bool>,
}

pub async fn handle(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    let id = request.param("id");
    let body: Body = request.json()?;
    check_body(&body)?;
    let patch = ApiClientPatch {
        name: body.name,
        client_uri: body.client_uri,
        redirect_uris: body.redirect_uris,
        scopes: body.scopes,
        allowed_origins: body.allowed_origins,
        rate_limit_capacity: body.rate_limit_capacity,
        rate_limit_refill_rate: body.rate_limit_refill_rate,
        is_active: body.is_active,
    };
    api_clients::update(&app.db, id, &patch, app.clock.now())
        .await?
        .ok_or_else(|| Error::not_found("api client not found"))?;
    app.changed(Topic::ApiClient(id.to_owned())).await?;
    app.events.record(Event::ApiClientUpdated { actor: admin.did.to_string(), id: id.to_owned() });
    Ok(response::empty(StatusCode::NO_CONTENT))
}

fn check_body(body: &Body) -> Result<(), Error> {
    body.name.as_deref().map_or(Ok(()), |name| check::text("name", name))?;
    body.client_uri.as_deref().map_or(Ok(()), |uri| check::web_url("client_uri", uri))?;
    body.redirect_uris.as_deref().map_or(Ok(()), check::redirect_uris)?;
    body.scopes.as_deref().map_or(Ok(()), check::scopes)?;
    if let Patch::Set(origins) = &body.allowed_origins {
        check::origins(origins)?;
    }
    if let Patch::Set(capacity) = body.rate_limit_capacity {
        check::capacity(capacity)?;
    }
    if let Patch::Set(rate) = body.rate_limit_refill_rate {
        check::refill_rate(rate)?;
    }
    Ok(())
}
