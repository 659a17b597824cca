//! `/admin/api-clients/{id}/auth-key`: keys with which a client authenticates to authorization servers.

pub mod create;
pub mod get;
pub mod list;
pub mod recheck;
pub mod revoke;
pub mod rotate;

use serde::Serialize;

use crate::access::client_keys;
use crate::app::App;
use crate::http::Error;
use crate::store::api_client_keys;
use crate::store::api_clients::{self, ApiClientRow};

/// A client's current key, and whether the client's metadata lets it count.
#[derive(Serialize)]
struct KeyView {
    kid: String,
    jwks_uri: String,
    /// Null when the metadata can't be read now.
    confidential: Option<bool>,
}

async fn client(app: &App, id: &str) -> Result<ApiClientRow, Error> {
    let row = api_clients::get(&app.db, id).await?;
    row.ok_or_else(|| Error::not_found("api client not found"))
}

async fn view(app: &App, client: &ApiClientRow) -> Result<KeyView, Error> {
    let key = api_client_keys::current(&app.db, &client.id).await?;
    let key = key.ok_or_else(|| Error::not_found("the client has no key"))?;
    let confidential = app.access.client_keys.verdict(&app.access, &client.id, &client.client_id_url).await;
    Ok(KeyView { kid: key.kid, jwks_uri: client_keys::jwks_uri(&app.access, &client.id), confidential })
}
