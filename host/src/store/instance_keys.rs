//! Keys that the instance made for itself. What is stored is sealed; this room never sees a key.

use crate::clock::Timestamp;

use super::{Db, StoreError, on};

/// Keeps `sealed` under `name` unless there is one already, and gives what is kept: of several hosts that start at
/// once, all get the same.
pub async fn keep(db: &Db, name: &str, sealed: &[u8], now: Timestamp) -> Result<Vec<u8>, StoreError> {
    let sql = "INSERT INTO instance_keys (name, sealed, created_at) VALUES ($1, $2, $3) ON CONFLICT (name) DO NOTHING";
    on!(db, writer, |pool| sqlx::query(sql).bind(name).bind(sealed).bind(now).execute(pool).await.map(drop))?;
    get(db, name).await?.ok_or_else(|| StoreError::Corrupt(format!("instance_keys.{name} vanished")))
}

pub async fn get(db: &Db, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
    // From the writer: what this host has just kept must be seen.
    let sql = "SELECT sealed FROM instance_keys WHERE name = $1";
    Ok(on!(db, writer, |pool| sqlx::query_scalar(sql).bind(name).fetch_optional(pool).await)?)
}
