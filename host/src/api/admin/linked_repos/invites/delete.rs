//! `DELETE /admin/linked-repos/{id}/invites/{invite_id}`

use std::sync::Arc;

use http::StatusCode;
use serde_json::json;

use crate::access::Admin;
use crate::app::App;
use crate::http::{Error, Request, Response, response};
use crate::store::linked_repos;

pub async fn handle(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let (id, invite, now) = (request.param("id"), request.param("invite_id"), app.clock.now());
    if !linked_repos::revoke_invite(&app.db, id, invite, now).await? {
        return Err(Error::not_found("invite not found"));
    }
    Ok(response::json(StatusCode::OK, &json!({ "revoked": true })))
}
