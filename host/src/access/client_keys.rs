//! Keys with which an API client is confidential to authorization servers (`private_key_jwt`): we hold them, so that we
//! can refresh its sessions as well as it can.

use crate::app::App;
use crate::store::{StoreError, api_client_keys};

use super::ApiClient;

/// The key that a session registered now belongs to: the client's current one.
pub async fn pinned(app: &App, client: &ApiClient) -> Result<Option<String>, StoreError> {
    Ok(api_client_keys::current(&app.db, &client.id).await?.map(|key| key.kid))
}
