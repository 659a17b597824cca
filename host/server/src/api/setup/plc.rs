//! `/api/setup/plc/*`: publishes the identity at the PLC directory, as a new did:plc or in the document of the attached
//! account.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::require_open;
use crate::access::Admin;
use crate::api::admin::service_entries::sync_plc::PlcCode;
use crate::api::answer::{Empty, EmptyResult, Json, JsonResult};
use crate::api::input::WithBody;
use crate::app::{App, Topic};
use belvedere_instance::events::Event;
use belvedere_protocol::atproto::Did;
use belvedere_web::http::Request;

/// `POST /api/setup/plc/register`: registers a did:plc.
pub async fn register(app: Arc<App>, admin: Admin, _request: Request) -> JsonResult<RegisteredDid> {
    require_open(&app).await?;
    let did = app.identity_setup.register(&app.service_identity).await?;
    app.changed(Topic::ServiceIdentity).await?;
    let event = Event::ServiceIdentityRegistered { actor: admin.did.to_string(), did: did.to_string() };
    app.events.record(event);
    Ok(Json(RegisteredDid { did }))
}

/// `POST /api/setup/plc/request`: lets the attached account's PDS send its owner a code.
pub async fn request(app: Arc<App>, _admin: Admin, _request: Request) -> EmptyResult {
    require_open(&app).await?;
    app.request_plc_code().await?;
    Ok(Empty)
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct RegisteredDid {
    did: Did,
}

/// `POST /api/setup/plc/submit`: updates the attached account's DID with that code.
pub async fn submit(app: Arc<App>, admin: Admin, request: WithBody<PlcCode>) -> EmptyResult {
    let PlcCode { token } = request.json()?;
    require_open(&app).await?;
    app.submit_plc_code(token.trim()).await?;
    let did = app.service_identity.did().to_string();
    app.events.record(Event::ServiceIdentityRegistered { actor: admin.did.to_string(), did });
    Ok(Empty)
}
