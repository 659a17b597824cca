//! `/oauth/sessions/{did}/devices`: lists and ends the sessions of a user's devices.

use std::sync::Arc;

use http::StatusCode;
use serde::Serialize;

use crate::access::{SessionAccess, scopes};
use crate::api::oauth::sessions::did;
use crate::app::App;
use belvedere_base::clock::Timestamp;
use belvedere_instance::events::Event;
use belvedere_storage::store::oauth_sessions;
use belvedere_web::http::{Error, Request, Response, response};

#[derive(Serialize)]
struct Device {
    id: String,
    dpop_key_id: String,
    scopes: Vec<String>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

/// `GET /oauth/sessions/{did}/devices`: the user's sessions under the client, oldest first.
pub async fn list(app: Arc<App>, caller: SessionAccess, request: Request) -> Result<Response, Error> {
    let did = did(&request)?;
    caller.check_access_to(&did)?;
    let rows = oauth_sessions::devices(&app.db, &caller.client().id, did.as_str()).await?;
    let mut devices = Vec::with_capacity(rows.len());
    for row in rows {
        let left = scopes::remaining(&app.access, caller.client(), &row.scopes).await?;
        devices.push(Device {
            id: row.id,
            dpop_key_id: row.key_id,
            scopes: left.split_ascii_whitespace().map(str::to_owned).collect(),
            created_at: row.created_at,
            updated_at: row.updated_at,
        });
    }
    Ok(response::json(StatusCode::OK, &devices))
}

/// `DELETE /oauth/sessions/{did}/devices/{session_id}`: logs out one of the user's devices.
pub async fn delete(app: Arc<App>, caller: SessionAccess, request: Request) -> Result<Response, Error> {
    let did = did(&request)?;
    caller.check_access_to(&did)?;
    let id = request.param("session_id");
    let client = caller.client();
    let devices = oauth_sessions::devices(&app.db, &client.id, did.as_str()).await?;
    let known = devices.iter().any(|device| device.id == id);
    if !known || !app.sessions.vault.end(id).await? {
        return Err(Error::not_found("DPoP session not found"));
    }
    app.events.record(Event::DpopDeviceDeleted {
        did: did.to_string(),
        client_key: client.key.clone(),
        session_id: id.to_owned(),
    });
    Ok(response::empty(StatusCode::NO_CONTENT))
}
