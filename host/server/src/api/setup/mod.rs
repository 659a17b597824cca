//! `/api/setup/*`: sets up the identity of the instance step by step (admin-api.md §10). Once the set-up is complete, the
//! steps are refused; `PUT /admin/service-identity` opens it again.

pub mod attach_auth;
pub mod identity;
pub mod plc;
pub mod resolve;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use crate::access::Admin;
use crate::api::answer::{Empty, EmptyResult, Json, JsonResult};
use crate::app::{App, Topic};
use belvedere_instance::events::Event;
use belvedere_instance::service_identity::Mode;
use belvedere_storage::store::service_identity::{self, IdentityRow};
use belvedere_web::http::{Error, Request};

#[derive(Debug, Serialize, JsonSchema)]
pub struct SetupStatus {
    identity_mode: Option<String>,
    identity_configured: bool,
    plc_verified: Option<bool>,
    setup_complete: bool,
}

/// `GET /api/setup/status`: how far the set-up of the identity is. For every authenticated account.
pub async fn status(app: Arc<App>, request: Request) -> JsonResult<SetupStatus> {
    app.access.authenticated(&request).await?;
    let row = service_identity::get(&app.db).await?;
    let mode = row.as_ref().and_then(|row| Mode::parse(&row.mode));
    let is_configured = row.as_ref().is_some_and(|row| match mode {
        Some(Mode::DidWeb) => row.signing_key.is_some(),
        Some(Mode::DidPlc | Mode::AttachAccount) => row.did.is_some(),
        Some(Mode::NotExposed) => true,
        None => false,
    });
    let additions = app.identity_additions().await?;
    let published = app.identity_setup.is_published(&app.service_identity, &additions).await;
    Ok(Json(SetupStatus {
        identity_configured: is_configured,
        plc_verified: published,
        setup_complete: row.as_ref().is_some_and(|row| row.setup_complete),
        identity_mode: row.map(|row| row.mode),
    }))
}

/// `POST /api/setup/complete`: ends the set-up.
pub async fn complete(app: Arc<App>, _admin: Admin, _request: Request) -> EmptyResult {
    require_open(&app).await?;
    if !service_identity::complete(&app.db, app.clock.now()).await? {
        return Err(Error::bad_request("choose an identity first: POST /api/setup/identity"));
    }
    app.changed(Topic::ServiceIdentity).await?;
    app.events.record(Event::SetupCompleted {});
    Ok(Empty)
}

/// The identity, `None` before the first step.
///
/// # Errors
/// 403 when the set-up is complete.
async fn require_open(app: &App) -> Result<Option<IdentityRow>, Error> {
    let row = service_identity::get(&app.db).await?;
    if row.as_ref().is_some_and(|row| row.setup_complete) {
        return Err(Error::forbidden("the set-up is complete: PUT /admin/service-identity begins a new one"));
    }
    Ok(row)
}
