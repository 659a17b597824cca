//! Scripts, keyed by their trigger.

use crate::clock::Timestamp;

use super::{Db, Patch, StoreError};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptRow {
    /// The trigger, as `xrpc.query:com.example.list`.
    pub id: String,
    pub script_type: String,
    pub body: String,
    pub description: Option<String>,
    pub outbound_xrpcs: Option<Vec<String>>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

#[derive(Clone, Debug, Default)]
pub struct NewScript {
    pub id: String,
    pub script_type: String,
    pub body: String,
    pub description: Option<String>,
    pub outbound_xrpcs: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default)]
pub struct ScriptPatch {
    pub script_type: Option<String>,
    /// The body and the `outbound_xrpcs` derived from it.
    pub body: Option<(String, Option<Vec<String>>)>,
    pub description: Patch<String>,
}

/// By id; with `suffix` those whose id ends in `:<suffix>`.
pub async fn list(_db: &Db, _suffix: Option<&str>) -> Result<Vec<ScriptRow>, StoreError> {
    todo!()
}

pub async fn get(_db: &Db, _id: &str) -> Result<Option<ScriptRow>, StoreError> {
    todo!()
}

/// Creates or replaces; `created_at` survives a replacement. `true` when it was created.
pub async fn upsert(_db: &Db, _script: &NewScript, _now: Timestamp) -> Result<(ScriptRow, bool), StoreError> {
    todo!()
}

/// `None` when there is no such script.
pub async fn patch(
    _db: &Db,
    _id: &str,
    _patch: &ScriptPatch,
    _now: Timestamp,
) -> Result<Option<ScriptRow>, StoreError> {
    todo!()
}

pub async fn delete(_db: &Db, _id: &str) -> Result<bool, StoreError> {
    todo!()
}
