//! Stores script variables. Values are sealed; this module never handles a plain value.

use belvedere_base::clock::Timestamp;

use super::{Db, StoreError, on};

#[derive(Clone, Debug, sqlx::FromRow)]
pub struct VariableRow {
    pub key: String,
    pub sealed: Vec<u8>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// All variables, sorted by key.
pub async fn list(db: &Db) -> Result<Vec<VariableRow>, StoreError> {
    let sql = "SELECT key, sealed, created_at, updated_at FROM script_variables ORDER BY key";
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).fetch_all(pool).await)?)
}

/// Creates or replaces a variable; `false` when there are `max` others already.
pub async fn upsert(db: &Db, key: &str, sealed: &[u8], max: i64, now: Timestamp) -> Result<bool, StoreError> {
    let sql = "INSERT INTO script_variables (key, sealed, created_at, updated_at) \
               SELECT $1, $2, $3, $3 WHERE (SELECT count(*) FROM script_variables WHERE key <> $1) < $4 \
               ON CONFLICT (key) DO UPDATE SET sealed = excluded.sealed, updated_at = excluded.updated_at";
    let written = on!(db, writer, |pool| {
        sqlx::query(sql).bind(key).bind(sealed).bind(now).bind(max).execute(pool).await?.rows_affected()
    });
    Ok(written > 0)
}

/// `false` when the variable does not exist.
pub async fn delete(db: &Db, key: &str) -> Result<bool, StoreError> {
    let sql = "DELETE FROM script_variables WHERE key = $1";
    let removed = on!(db, writer, |pool| sqlx::query(sql).bind(key).execute(pool).await?.rows_affected());
    Ok(removed > 0)
}
