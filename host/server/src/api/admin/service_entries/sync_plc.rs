//! `/admin/service-entries/sync-plc`: brings the DID document at the PLC directory up to date with the service entries
//! and verification methods. An own did:plc takes one request; for an attached account its owner confirms the change
//! with a code.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::access::Admin;
use crate::api::answer::{Empty, EmptyResult};
use crate::api::input::WithBody;
use crate::app::App;
use belvedere_instance::events::Event;
use belvedere_instance::service_identity::Mode;
use belvedere_web::http::Request;

/// `POST /admin/service-entries/sync-plc`: updates the did:plc of the instance.
pub async fn handle(app: Arc<App>, admin: Admin, _request: Request) -> EmptyResult {
    app.identity_setup.sync(&app.service_identity, &app.identity_additions().await?).await?;
    app.core.resolver.invalidate(&app.service_identity.did()).await;
    Ok(synced(&app, &admin, Mode::DidPlc))
}

/// `POST /admin/service-entries/sync-plc/request`: lets the attached account's PDS send its owner a code.
pub async fn request(app: Arc<App>, _admin: Admin, _request: Request) -> EmptyResult {
    app.request_plc_code().await?;
    Ok(Empty)
}

/// The code that the owner of the attached account received.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct PlcCode {
    pub token: String,
}

/// `POST /admin/service-entries/sync-plc/submit`: updates the attached account's DID with that code.
pub async fn submit(app: Arc<App>, admin: Admin, request: WithBody<PlcCode>) -> EmptyResult {
    let PlcCode { token } = request.json()?;
    app.submit_plc_code(token.trim()).await?;
    Ok(synced(&app, &admin, Mode::AttachAccount))
}

fn synced(app: &App, admin: &Admin, mode: Mode) -> Empty {
    app.events.record(Event::PlcSynced { actor: admin.did.to_string(), mode: mode.as_str() });
    Empty
}
