//! `DELETE /admin/api-clients/{id}`: the client and its children are gone at once. Their sessions are revoked at the
//! authorization servers in the background.

use std::sync::Arc;

use http::StatusCode;

use crate::access::Admin;
use crate::app::App;
use crate::app::Topic;
use crate::events::Event;
use crate::http::{Error, Request, Response, response};
use crate::store::api_clients;

pub async fn handle(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    let id = request.param("id");
    let revocations = app.vault.revocations(id).await?;
    if api_clients::delete(&app.db, id).await?.is_empty() {
        return Err(Error::not_found("api client not found"));
    }
    app.vault.revoke_all(revocations);
    app.changed(Topic::ApiClient(id.to_owned())).await?;
    app.events.record(Event::ApiClientDeleted { actor: admin.did.to_string(), id: id.to_owned() });
    Ok(response::empty(StatusCode::NO_CONTENT))
}
