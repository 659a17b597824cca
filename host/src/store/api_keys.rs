//! Admin API keys. Only the SHA-256 hex of a key is stored.

use crate::clock::Timestamp;

use super::users::UserRow;
use super::{Db, StoreError};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKeyRow {
    pub id: String,
    pub user_id: String,
    pub name: String,
    pub key_prefix: String,
    pub permissions: Vec<String>,
    pub created_at: Timestamp,
    pub last_used_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
}

#[derive(Clone, Debug)]
pub struct NewApiKey<'a> {
    pub id: &'a str,
    pub user_id: &'a str,
    pub name: &'a str,
    pub key_prefix: &'a str,
    /// SHA-256 of the whole key, hex.
    pub key_hash: &'a str,
    pub permissions: &'a [&'a str],
}

pub async fn create(_db: &Db, _key: &NewApiKey<'_>, _now: Timestamp) -> Result<ApiKeyRow, StoreError> {
    todo!()
}

/// A user's keys, newest first, revoked ones included.
pub async fn list_of(_db: &Db, _user_id: &str) -> Result<Vec<ApiKeyRow>, StoreError> {
    todo!()
}

/// `false` when it is absent, already revoked, or another user's.
pub async fn revoke(_db: &Db, _id: &str, _user_id: &str, _now: Timestamp) -> Result<bool, StoreError> {
    todo!()
}

/// The key and its user; `None` for unknown and for revoked keys.
pub async fn find_by_hash(_db: &Db, _hash: &str) -> Result<Option<(ApiKeyRow, UserRow)>, StoreError> {
    todo!()
}

/// Sets `last_used_at`.
pub async fn touch(_db: &Db, _id: &str, _now: Timestamp) -> Result<(), StoreError> {
    todo!()
}
