//! Stores the instance's own keys. They are sealed; this module never handles a plain key.

use belvedere_base::clock::Timestamp;

use super::{Db, StoreError, on};

/// Stores `sealed` under `name` unless a key exists there, and returns the stored key: hosts that start at the same
/// time all get the same one.
pub async fn get_or_insert(
    db: &Db,
    name: &str,
    sealed: &[u8],
    now: Timestamp,
) -> Result<Vec<u8>, StoreError> {
    let sql = "INSERT INTO instance_keys (name, sealed, created_at) VALUES ($1, $2, $3) ON CONFLICT (name) DO NOTHING";
    on!(db, writer, |pool| sqlx::query(sql).bind(name).bind(sealed).bind(now).execute(pool).await.map(drop))?;
    get(db, name)
        .await?
        .ok_or_else(|| StoreError::Corrupt(format!("instance_keys.{name} is missing after its insertion")))
}

pub async fn get(db: &Db, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
    // From the writer, so that a key is visible that this host has just stored.
    let sql = "SELECT sealed FROM instance_keys WHERE name = $1";
    Ok(on!(db, writer, |pool| sqlx::query_scalar(sql).bind(name).fetch_optional(pool).await)?)
}
