//! Stores the instance settings that admins change; they take precedence over environment variables.

use belvedere_base::clock::Timestamp;

use super::{Db, StoreError, on};

/// All settings as key and value, sorted by key, except the key `except`, whose value may be large.
pub async fn list(db: &Db, except: &str) -> Result<Vec<(String, String)>, StoreError> {
    let sql = "SELECT key, value FROM settings WHERE key <> $1 ORDER BY key";
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).bind(except).fetch_all(pool).await)?)
}

pub async fn get(db: &Db, key: &str) -> Result<Option<String>, StoreError> {
    let sql = "SELECT value FROM settings WHERE key = $1";
    Ok(on!(db, reader, |pool| sqlx::query_scalar(sql).bind(key).fetch_optional(pool).await)?)
}

/// The time at which a value was stored; `None` when there is none. For values that are large.
pub async fn stored_at(db: &Db, key: &str) -> Result<Option<Timestamp>, StoreError> {
    let sql = "SELECT updated_at FROM settings WHERE key = $1";
    Ok(on!(db, reader, |pool| sqlx::query_scalar(sql).bind(key).fetch_optional(pool).await)?)
}

pub async fn set(db: &Db, key: &str, value: &str, now: Timestamp) -> Result<(), StoreError> {
    let sql = "INSERT INTO settings (key, value, updated_at) VALUES ($1, $2, $3) \
               ON CONFLICT (key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at";
    on!(db, writer, |pool| sqlx::query(sql).bind(key).bind(value).bind(now).execute(pool).await.map(drop))?;
    Ok(())
}

/// `false` when no value was stored.
pub async fn delete(db: &Db, key: &str) -> Result<bool, StoreError> {
    let sql = "DELETE FROM settings WHERE key = $1";
    let removed = on!(db, writer, |pool| sqlx::query(sql).bind(key).execute(pool).await?.rows_affected());
    Ok(removed > 0)
}
