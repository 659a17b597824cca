//! `/admin/service-entries/sync-plc`: brings the DID document at the PLC directory up to date with the service entries
//! and verification methods. An own did:plc takes one request; for an attached account its owner confirms the change
//! with a code.

use std::sync::Arc;

use http::StatusCode;
use serde::Deserialize;

use crate::access::Admin;
use crate::app::App;
use belvedere_instance::events::Event;
use belvedere_instance::service_identity::Mode;
use belvedere_web::http::{Error, Request, Response, response};

/// `POST /admin/service-entries/sync-plc`
pub async fn handle(app: Arc<App>, admin: Admin, _request: Request) -> Result<Response, Error> {
    app.identity_setup.sync(&app.service_identity, &app.more_identity_keys()).await?;
    app.core.resolver.invalidate(&app.service_identity.did()).await;
    Ok(synced(&app, &admin, Mode::DidPlc))
}

/// `POST /admin/service-entries/sync-plc/request`
pub async fn request(app: Arc<App>, _admin: Admin, _request: Request) -> Result<Response, Error> {
    app.request_plc_code().await?;
    Ok(response::empty(StatusCode::NO_CONTENT))
}

#[derive(Deserialize)]
struct Body {
    token: String,
}

/// `POST /admin/service-entries/sync-plc/submit`
pub async fn submit(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    let Body { token } = request.json()?;
    app.submit_plc_code(token.trim()).await?;
    Ok(synced(&app, &admin, Mode::AttachAccount))
}

fn synced(app: &App, admin: &Admin, mode: Mode) -> Response {
    let event = Event::PlcSynced { actor: admin.did.to_string(), mode: mode.as_str() };
    app.events.record(event);
    response::empty(StatusCode::NO_CONTENT)
}
