//! `GET /admin/linked-repos/{id}/invites`: those that are still good.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};

use crate::access::Admin;
use crate::api::admin::linked_repos::grant;
use crate::app::App;
use crate::http::{Error, Request, Response, response};
use crate::store::linked_repos;

pub async fn handle(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let grant = grant(&app, request.param("id")).await?;
    let rows = linked_repos::invites(&app.db, &grant.id, app.clock.now()).await?;
    let invites: Vec<Value> =
        rows.iter().map(|row| json!({ "invite_id": row.id, "expires_at": row.expires_at })).collect();
    Ok(response::json(StatusCode::OK, &json!({ "invites": invites })))
}
