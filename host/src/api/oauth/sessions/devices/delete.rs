//! `DELETE /oauth/sessions/{did}/devices/{session_id}`: log out one of the user's devices.

use std::sync::Arc;

use http::StatusCode;

use crate::access::Holder;
use crate::api::oauth::sessions::did;
use crate::app::App;
use crate::events::Event;
use crate::http::{Error, Request, Response, response};
use crate::store::oauth_sessions;

pub async fn handle(app: Arc<App>, holder: Holder, request: Request) -> Result<Response, Error> {
    let did = did(&request)?;
    holder.may_see(&did)?;
    let id = request.param("session_id");
    let client = holder.client();
    let devices = oauth_sessions::devices(&app.db, &client.id, did.as_str()).await?;
    let known = devices.iter().any(|device| device.id == id);
    if !known || !app.vault.end(id).await? {
        return Err(Error::not_found("DPoP session not found"));
    }
    app.events.record(Event::DpopDeviceDeleted {
        did: did.to_string(),
        client_key: client.key.clone(),
        session_id: id.to_owned(),
    });
    Ok(response::empty(StatusCode::NO_CONTENT))
}
