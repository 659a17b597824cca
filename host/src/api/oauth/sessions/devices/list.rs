//! `GET /oauth/sessions/{did}/devices`: the user's sessions under the client, oldest first.

use std::sync::Arc;

use http::StatusCode;
use serde::Serialize;

use crate::access::{Holder, scopes};
use crate::api::oauth::sessions::did;
use crate::app::App;
use crate::clock::Timestamp;
use crate::http::{Error, Request, Response, response};
use crate::store::oauth_sessions;

#[derive(Serialize)]
struct Device {
    id: String,
    dpop_key_id: String,
    scopes: Vec<String>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

pub async fn handle(app: Arc<App>, holder: Holder, request: Request) -> Result<Response, Error> {
    let did = did(&request)?;
    holder.may_see(&did)?;
    let rows = oauth_sessions::devices(&app.db, &holder.client().id, did.as_str()).await?;
    let mut devices = Vec::with_capacity(rows.len());
    for row in rows {
        let left = scopes::left(&app.access, holder.client(), &row.scopes).await?;
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
