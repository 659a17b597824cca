//! `GET /oauth/sessions/{did}/devices`: the user's sessions under the client, oldest first.

use std::sync::Arc;

use http::StatusCode;
use serde::Serialize;

use crate::access::Holder;
use crate::api::failed;
use crate::api::oauth::sessions::did;
use crate::app::App;
use crate::clock::Timestamp;
use crate::http::{Error, Request, Response, response};
use crate::store::oauth_sessions;

#[derive(Serialize)]
struct Device<'a> {
    id: &'a str,
    dpop_key_id: &'a str,
    scopes: Vec<&'a str>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

pub async fn handle(app: Arc<App>, holder: Holder, request: Request) -> Result<Response, Error> {
    let did = did(&request)?;
    holder.may_see(&did)?;
    let rows = oauth_sessions::devices(&app.db, &holder.client().id, did.as_str()).await.map_err(failed)?;
    let devices: Vec<Device<'_>> = rows
        .iter()
        .map(|row| Device {
            id: &row.id,
            dpop_key_id: &row.key_id,
            scopes: row.scopes.split_ascii_whitespace().collect(),
            created_at: row.created_at,
            updated_at: row.updated_at,
        })
        .collect();
    Ok(response::json(StatusCode::OK, &devices))
}
