//! Admin users and their permissions.

use crate::clock::Timestamp;

use super::{Db, StoreError};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserRow {
    pub id: String,
    pub did: String,
    pub is_super: bool,
    /// Permission names, sorted.
    pub permissions: Vec<String>,
    pub created_at: Timestamp,
    pub last_used_at: Option<Timestamp>,
}

/// Creates the first user as super user; `false` when there is any user already. One conditional insert: of two
/// concurrent calls exactly one wins.
pub async fn bootstrap(
    _db: &Db,
    _id: &str,
    _did: &str,
    _permissions: &[&str],
    _now: Timestamp,
) -> Result<bool, StoreError> {
    todo!()
}

pub async fn get_by_did(_db: &Db, _did: &str) -> Result<Option<UserRow>, StoreError> {
    todo!()
}

pub async fn get(_db: &Db, _id: &str) -> Result<Option<UserRow>, StoreError> {
    todo!()
}

/// Oldest first.
pub async fn list(_db: &Db) -> Result<Vec<UserRow>, StoreError> {
    todo!()
}

/// Sets `last_used_at`.
pub async fn touch(_db: &Db, _id: &str, _now: Timestamp) -> Result<(), StoreError> {
    todo!()
}

/// An ordinary user. [`StoreError::Conflict`] when the DID is a user already.
pub async fn create(
    _db: &Db,
    _id: &str,
    _did: &str,
    _permissions: &[&str],
    _now: Timestamp,
) -> Result<UserRow, StoreError> {
    todo!()
}

/// Grants, then revokes. `None` when there is no such user, or it is the super user.
pub async fn set_permissions(
    _db: &Db,
    _id: &str,
    _grant: &[&str],
    _revoke: &[&str],
) -> Result<Option<UserRow>, StoreError> {
    todo!()
}

/// Removes a user with its permissions, and revokes its keys. `false` when there is none, or it is super.
pub async fn delete(_db: &Db, _id: &str, _now: Timestamp) -> Result<bool, StoreError> {
    todo!()
}

/// Moves the super flag. `false` when `from` is not super or `to` is not there; then nothing changed.
pub async fn transfer_super(_db: &Db, _from: &str, _to: &str) -> Result<bool, StoreError> {
    todo!()
}
