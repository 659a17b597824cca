//! `GET /admin/api-keys`: the caller's own keys, newest first, revoked ones included.

use std::sync::Arc;

use http::StatusCode;
use serde::Serialize;

use crate::access::Admin;
use crate::app::App;
use crate::clock::Timestamp;
use crate::http::{Error, Request, Response, response};
use crate::store::api_keys::{self, ApiKeyRow};

#[derive(Serialize)]
struct KeyView {
    id: String,
    name: String,
    key_prefix: String,
    permissions: Vec<String>,
    created_at: Timestamp,
    last_used_at: Option<Timestamp>,
    revoked_at: Option<Timestamp>,
}

impl From<ApiKeyRow> for KeyView {
    fn from(row: ApiKeyRow) -> Self {
        Self {
            id: row.id,
            name: row.name,
            key_prefix: row.key_prefix,
            permissions: row.permissions,
            created_at: row.created_at,
            last_used_at: row.last_used_at,
            revoked_at: row.revoked_at,
        }
    }
}

pub async fn handle(app: Arc<App>, admin: Admin, _request: Request) -> Result<Response, Error> {
    let rows = api_keys::list_of(&app.db, &admin.user_id).await?;
    let keys: Vec<KeyView> = rows.into_iter().map(KeyView::from).collect();
    Ok(response::json(StatusCode::OK, &keys))
}
