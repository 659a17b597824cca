//! `/api/setup/plc/*`: publishes the identity at the PLC directory, as a new did:plc or in the document of the attached
//! account.

use std::sync::Arc;

use http::StatusCode;
use serde::Deserialize;
use serde_json::json;

use super::require_open;
use crate::access::Admin;
use crate::app::{App, Topic};
use belvedere_instance::events::Event;
use belvedere_web::http::{Error, Request, Response, response};

/// `POST /api/setup/plc/register`
pub async fn register(app: Arc<App>, admin: Admin, _request: Request) -> Result<Response, Error> {
    require_open(&app).await?;
    let did = app.identity_setup.register(&app.service_identity).await?;
    app.changed(Topic::ServiceIdentity).await?;
    let event = Event::ServiceIdentityRegistered { actor: admin.did.to_string(), did: did.to_string() };
    app.events.record(event);
    Ok(response::json(StatusCode::OK, &json!({ "did": did.as_str() })))
}

/// `POST /api/setup/plc/request`: the account's PDS sends its owner a code.
pub async fn request(app: Arc<App>, _admin: Admin, _request: Request) -> Result<Response, Error> {
    require_open(&app).await?;
    app.request_plc_code().await?;
    Ok(response::empty(StatusCode::NO_CONTENT))
}

#[derive(Deserialize)]
struct Body {
    token: String,
}

/// `POST /api/setup/plc/submit`
pub async fn submit(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    let Body { token } = request.json()?;
    require_open(&app).await?;
    app.submit_plc_code(token.trim()).await?;
    let did = app.service_identity.did().to_string();
    let event = Event::ServiceIdentityRegistered { actor: admin.did.to_string(), did };
    app.events.record(event);
    Ok(response::empty(StatusCode::NO_CONTENT))
}
