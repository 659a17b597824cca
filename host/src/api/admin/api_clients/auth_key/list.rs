//! `GET /admin/api-clients/{id}/auth-keys`: all keys, with the sessions that began with them.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};

use super::client;
use crate::access::Admin;
use crate::app::App;
use crate::http::{Error, Request, Response, response};
use crate::store::api_client_keys;

pub async fn handle(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let client = client(&app, request.param("id")).await?;
    let keys = api_client_keys::in_use(&app.db, &client.id).await?;
    let keys: Vec<Value> = keys
        .into_iter()
        .map(|key| {
            json!({ "kid": key.kid, "status": key.status, "created_at": key.created_at,
                "session_count": key.session_count })
        })
        .collect();
    Ok(response::json(StatusCode::OK, &json!({ "keys": keys })))
}
