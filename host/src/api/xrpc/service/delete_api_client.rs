//! `POST /xrpc/dev.service.deleteApiClient`: the client, its keys and its sessions are gone. The sessions are revoked at
//! the authorization servers in the background.

use std::sync::Arc;

use http::StatusCode;
use serde::Deserialize;
use serde_json::json;

use super::view::owned;
use crate::access::ClientUser;
use crate::app::App;
use crate::app::Topic;
use crate::events::Event;
use crate::http::{Error, Request, Response, response};
use crate::store::api_clients;

#[derive(Deserialize)]
struct Body {
    id: String,
}

pub async fn handle(app: Arc<App>, caller: ClientUser, request: Request) -> Result<Response, Error> {
    caller.is_top_level()?;
    let Body { id } = request.json().map_err(|_| Error::bad_request("invalid request body"))?;
    owned(&app, &caller, &id).await?;
    let revocations = app.vault.revocations(&id).await?;
    api_clients::delete(&app.db, &id).await?;
    app.vault.revoke_all(revocations);
    app.changed(Topic::ApiClient(id.clone())).await?;
    app.events.record(Event::ApiClientDeleted { actor: caller.did.to_string(), id });
    Ok(response::json(StatusCode::OK, &json!({})))
}
