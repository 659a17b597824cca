//! How the admin API shows an API client. The secret is never among the fields.

use serde::Serialize;

use crate::clock::Timestamp;
use crate::store::api_clients::ApiClientRow;

#[derive(Debug, Serialize)]
pub(super) struct ClientView {
    id: String,
    client_key: String,
    name: String,
    client_id_url: String,
    client_uri: String,
    redirect_uris: Vec<String>,
    scopes: String,
    client_type: String,
    allowed_origins: Vec<String>,
    rate_limit_capacity: Option<i64>,
    rate_limit_refill_rate: Option<f64>,
    is_active: bool,
    created_by: String,
    parent_client_id: Option<String>,
    owner_did: Option<String>,
    created_at: Timestamp,
    updated_at: Timestamp,
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
            scopes: row.scopes,
            client_type: row.client_type,
            allowed_origins: row.allowed_origins,
            rate_limit_capacity: row.rate_limit_capacity,
            rate_limit_refill_rate: row.rate_limit_refill_rate,
            is_active: row.is_active,
            created_by: row.created_by,
            parent_client_id: row.parent_client_id,
            owner_did: row.owner_did,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}
