//! API clients: who may call XRPC. One level of nesting: a child has a parent, a parent has none.

use crate::clock::Timestamp;

use super::{Db, Patch, StoreError};

#[derive(Clone, Debug, PartialEq)]
pub struct ApiClientRow {
    pub id: String,
    pub client_key: String,
    /// SHA-256 hex; `None` for public clients.
    pub client_secret_hash: Option<String>,
    pub name: String,
    pub client_id_url: String,
    pub client_uri: String,
    pub redirect_uris: Vec<String>,
    /// `confidential` or `public`.
    pub client_type: String,
    /// Space-separated.
    pub scopes: String,
    pub allowed_origins: Vec<String>,
    /// `None`: the instance default.
    pub rate_limit_capacity: Option<i64>,
    /// Tokens per second; `None`: the instance default.
    pub rate_limit_refill_rate: Option<f64>,
    pub is_active: bool,
    /// DID of the user that made it.
    pub created_by: String,
    pub parent_client_id: Option<String>,
    pub owner_did: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// Only what is `Some` or not [`Patch::Keep`] changes.
#[derive(Clone, Debug, Default)]
pub struct ApiClientPatch {
    pub name: Option<String>,
    pub client_uri: Option<String>,
    pub redirect_uris: Option<Vec<String>>,
    pub scopes: Option<String>,
    pub allowed_origins: Patch<Vec<String>>,
    pub rate_limit_capacity: Patch<i64>,
    pub rate_limit_refill_rate: Patch<f64>,
    /// `false` also deactivates the children; `true` does not bring them back.
    pub is_active: Option<bool>,
}

/// Newest first; with `parent_id` the children of that client.
pub async fn list(_db: &Db, _parent_id: Option<&str>) -> Result<Vec<ApiClientRow>, StoreError> {
    todo!()
}

/// Clients owned by a user (third-party management), newest first.
pub async fn list_owned(_db: &Db, _owner_did: &str) -> Result<Vec<ApiClientRow>, StoreError> {
    todo!()
}

pub async fn get(_db: &Db, _id: &str) -> Result<Option<ApiClientRow>, StoreError> {
    todo!()
}

/// Active or not: the caller looks at `is_active`.
pub async fn get_by_key(_db: &Db, _client_key: &str) -> Result<Option<ApiClientRow>, StoreError> {
    todo!()
}

/// [`StoreError::Conflict`] when `client_id_url` (or the key) is taken.
pub async fn create(_db: &Db, _client: &ApiClientRow) -> Result<(), StoreError> {
    todo!()
}

/// `None` when there is no such client.
pub async fn update(
    _db: &Db,
    _id: &str,
    _patch: &ApiClientPatch,
    _now: Timestamp,
) -> Result<Option<ApiClientRow>, StoreError> {
    todo!()
}

/// Removes a client and its children; the keys of all that went, for caches.
pub async fn delete(_db: &Db, _id: &str) -> Result<Vec<String>, StoreError> {
    todo!()
}
