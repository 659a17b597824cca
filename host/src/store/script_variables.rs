//! Script variables. What is stored is sealed; this room never sees a value.

use crate::clock::Timestamp;

use super::{Db, StoreError, on};

#[derive(Clone, Debug, sqlx::FromRow)]
pub struct VariableRow {
    pub key: String,
    pub sealed: Vec<u8>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// All of them, by key.
pub async fn list(db: &Db) -> Result<Vec<VariableRow>, StoreError> {
    let sql = "SELECT key, sealed, created_at, updated_at FROM script_variables ORDER BY key";
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).fetch_all(pool).await)?)
}

/// Creates or replaces one, unless it would be a new one beyond `most`; `false` then.
pub async fn upsert(
    db: &Db,
    key: &str,
    sealed: &[u8],
    most: i64,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let sql = "INSERT INTO script_variables (key, sealed, created_at, updated_at) \
               SELECT $1, $2, $3, $3 WHERE (SELECT count(*) FROM script_variables WHERE key <> $1) < $4 \
               ON CONFLICT (key) DO UPDATE SET sealed = excluded.sealed, updated_at = excluded.updated_at";
    let written = on!(db, writer, |pool| {
        sqlx::query(sql).bind(key).bind(sealed).bind(now).bind(most).execute(pool).await?.rows_affected()
    });
    Ok(written > 0)
}

/// `false` when there was none.
pub async fn delete(db: &Db, key: &str) -> Result<bool, StoreError> {
    let sql = "DELETE FROM script_variables WHERE key = $1";
    let gone = on!(db, writer, |pool| sqlx::query(sql).bind(key).execute(pool).await?.rows_affected());
    Ok(gone > 0)
}
