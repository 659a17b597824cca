//! How third parties see their API clients.

use serde::Serialize;

use crate::access::ClientUser;
use crate::app::App;
use crate::clock::Timestamp;
use crate::http::Error;
use crate::store::api_clients::{self, ApiClientRow};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClientView {
    id: String,
    client_key: String,
    name: String,
    client_id_url: String,
    client_uri: String,
    redirect_uris: Vec<String>,
    client_type: String,
    scopes: String,
    allowed_origins: Vec<String>,
    is_active: bool,
    created_at: Timestamp,
}

impl From<ApiClientRow> for ClientView {
    fn from(row: ApiClientRow) -> Self {
        Self {
            id: row.id,
            client_key: row.client_key,
            name: row.name,
            client_id_url: row.client_id_url,
            client_uri: row.client_uri,
            redirect_uris: row.redirect_uris,
            client_type: row.client_type,
            scopes: row.scopes,
            allowed_origins: row.allowed_origins,
            is_active: row.is_active,
            created_at: row.created_at,
        }
    }
}

/// A client of the caller's own.
///
/// # Errors
/// 404 for everybody else's.
pub(super) async fn owned(app: &App, caller: &ClientUser, id: &str) -> Result<ApiClientRow, Error> {
    let row = api_clients::get(&app.db, id).await?;
    row.filter(|row| row.owner_did.as_deref() == Some(caller.did.as_str()))
        .ok_or_else(|| Error::not_found("API client not found"))
}
