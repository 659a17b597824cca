//! Instance settings stored by admins; they win over the environment.

use crate::clock::Timestamp;

use super::{Db, StoreError};

/// Key and value pairs by key.
pub async fn list(_db: &Db) -> Result<Vec<(String, String)>, StoreError> {
    todo!()
}

pub async fn get(_db: &Db, _key: &str) -> Result<Option<String>, StoreError> {
    todo!()
}

pub async fn set(_db: &Db, _key: &str, _value: &str, _now: Timestamp) -> Result<(), StoreError> {
    todo!()
}

/// `false` when there was no stored value.
pub async fn delete(_db: &Db, _key: &str) -> Result<bool, StoreError> {
    todo!()
}
