//! Stores admin API keys: only the SHA-256 hash of each, in hex.

use belvedere_base::clock::Timestamp;

use super::types::{JsonText, to_json_text};
use super::users::{self, UserRow};
use super::{Db, StoreError, on};

#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct ApiKeyRow {
    pub id: String,
    pub user_id: String,
    pub name: String,
    pub key_prefix: String,
    #[sqlx(try_from = "JsonText<Vec<String>>")]
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

macro_rules! select {
    ($tail:literal) => {
        concat!(
            "SELECT id, user_id, name, key_prefix, permissions, created_at, last_used_at, revoked_at FROM api_keys ",
            $tail
        )
    };
}

pub async fn create(db: &Db, key: &NewApiKey<'_>, now: Timestamp) -> Result<ApiKeyRow, StoreError> {
    let sql = "INSERT INTO api_keys (id, user_id, name, key_prefix, key_hash, permissions, created_at) \
               VALUES ($1, $2, $3, $4, $5, $6, $7)";
    on!(db, writer, |pool| {
        sqlx::query(sql)
            .bind(key.id)
            .bind(key.user_id)
            .bind(key.name)
            .bind(key.key_prefix)
            .bind(key.key_hash)
            .bind(to_json_text(key.permissions))
            .bind(now)
            .execute(pool)
            .await
            .map(drop)
    })?;
    Ok(ApiKeyRow {
        id: key.id.to_owned(),
        user_id: key.user_id.to_owned(),
        name: key.name.to_owned(),
        key_prefix: key.key_prefix.to_owned(),
        permissions: key.permissions.iter().map(|&p| p.to_owned()).collect(),
        created_at: now,
        last_used_at: None,
        revoked_at: None,
    })
}

/// A user's keys, newest first, revoked ones included.
pub async fn list_of(db: &Db, user_id: &str) -> Result<Vec<ApiKeyRow>, StoreError> {
    let sql = select!("WHERE user_id = $1 ORDER BY created_at DESC, id DESC");
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).bind(user_id).fetch_all(pool).await)?)
}

/// `false` when the key does not exist, is revoked already, or belongs to another user.
pub async fn revoke(db: &Db, id: &str, user_id: &str, now: Timestamp) -> Result<bool, StoreError> {
    let sql = "UPDATE api_keys SET revoked_at = $3 WHERE id = $1 AND user_id = $2 AND revoked_at IS NULL";
    let revoked = on!(db, writer, |pool| {
        sqlx::query(sql).bind(id).bind(user_id).bind(now).execute(pool).await?.rows_affected()
    });
    Ok(revoked > 0)
}

/// The key and its user; `None` for unknown and for revoked keys.
pub async fn find_by_hash(db: &Db, hash: &str) -> Result<Option<(ApiKeyRow, UserRow)>, StoreError> {
    let sql = select!("WHERE key_hash = $1 AND revoked_at IS NULL");
    let key: Option<ApiKeyRow> =
        on!(db, reader, |pool| sqlx::query_as(sql).bind(hash).fetch_optional(pool).await)?;
    let Some(key) = key else { return Ok(None) };
    Ok(users::get(db, &key.user_id).await?.map(|user| (key, user)))
}

/// Sets `last_used_at`.
pub async fn touch(db: &Db, id: &str, now: Timestamp) -> Result<(), StoreError> {
    let sql = "UPDATE api_keys SET last_used_at = $2 WHERE id = $1";
    on!(db, writer, |pool| sqlx::query(sql).bind(id).bind(now).execute(pool).await.map(drop))?;
    Ok(())
}
