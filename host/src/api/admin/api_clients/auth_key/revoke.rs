//! `DELETE /admin/api-clients/{id}/auth-key/{kid}` and `DELETE …/auth-keys`: a key that got out must not be good for
//! anything any more. Sessions that began with it can't be refreshed without, and go too.

use std::sync::Arc;

use http::StatusCode;
use serde_json::json;

use super::client;
use crate::access::Admin;
use crate::app::App;
use crate::http::{Error, Request, Response, response};
use crate::store::api_client_keys;

pub async fn one(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let client = client(&app, request.param("id")).await?;
    let (keys, sessions) = api_client_keys::revoke(&app.db, &client.id, Some(request.param("kid"))).await?;
    if keys == 0 {
        return Err(Error::not_found("the client has no key of this kid"));
    }
    Ok(response::json(StatusCode::OK, &json!({ "revoked": keys, "sessions_destroyed": sessions })))
}

pub async fn all(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let client = client(&app, request.param("id")).await?;
    let (keys, sessions) = api_client_keys::revoke(&app.db, &client.id, None).await?;
    Ok(response::json(StatusCode::OK, &json!({ "revoked": keys, "sessions_destroyed": sessions })))
}
