//! `DELETE /admin/linked-repos/{id}`: the grant, its invites and its session. What was agreed to at the PDS stays there.

use std::sync::Arc;

use http::StatusCode;
use serde_json::json;

use crate::access::Admin;
use crate::app::App;
use crate::events::Event;
use crate::http::{Error, Request, Response, response};
use crate::store::linked_repos;

pub async fn handle(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    let id = request.param("id");
    if !linked_repos::delete(&app.db, id).await? {
        return Err(Error::not_found("linked repo not found"));
    }
    app.events.record(Event::LinkedRepoDeleted { actor: admin.did.to_string(), id: id.to_owned() });
    Ok(response::json(StatusCode::OK, &json!({ "deleted": true })))
}
