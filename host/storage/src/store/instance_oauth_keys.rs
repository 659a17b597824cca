//! Stores the keys with which the instance authenticates to authorization servers. They are sealed; this module never
//! handles a plain key.

use belvedere_base::clock::Timestamp;

use super::{Db, StoreError, on};

/// `status` of the key for new sessions.
pub const CURRENT: &str = "current";
/// `status` of a key that is unusable, and published only until its sessions are ended.
pub const REVOKED: &str = "revoked";

#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct InstanceKeyRow {
    pub kid: String,
    pub sealed: Vec<u8>,
    /// JSON text.
    pub public_jwk: String,
    /// `current`, `retiring` (in use for the sessions that began with it) or `revoked`.
    pub status: String,
    pub created_at: Timestamp,
    /// The time at which it ceased to be the current one.
    pub retired_at: Option<Timestamp>,
    /// The instance's sessions that began with it.
    pub session_count: i64,
}

/// The instance's own sessions, as opposed to those of API clients, that began with a key `k`.
macro_rules! sessions_of_key {
    ($select:literal) => {
        concat!($select, " FROM oauth_sessions s WHERE s.client_id IS NULL AND s.assertion_kid = k.kid")
    };
}

/// Revocations that authenticate with a key `k`.
macro_rules! revocations_of_key {
    () => {
        "SELECT 1 FROM revocations r WHERE r.client_id IS NULL AND r.assertion_kid = k.kid"
    };
}

macro_rules! select {
    ($tail:literal) => {
        concat!(
            "SELECT kid, sealed, public_jwk, status, created_at, retired_at, (",
            sessions_of_key!("SELECT count(*)"),
            ") AS session_count FROM instance_oauth_keys k ",
            $tail
        )
    };
}

/// Newest first.
pub async fn list(db: &Db) -> Result<Vec<InstanceKeyRow>, StoreError> {
    let sql = select!("ORDER BY created_at DESC, kid DESC");
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).fetch_all(pool).await)?)
}

pub async fn get(db: &Db, kid: &str) -> Result<Option<InstanceKeyRow>, StoreError> {
    let sql = select!("WHERE kid = $1");
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).bind(kid).fetch_optional(pool).await)?)
}

/// Stores the first key; does nothing when there is one.
pub async fn create_first(
    db: &Db,
    (kid, sealed, public_jwk): (&str, &[u8], &str),
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO instance_oauth_keys (kid, sealed, public_jwk, status, created_at) \
               SELECT $1, $2, $3, 'current', $4 WHERE NOT EXISTS (SELECT 1 FROM instance_oauth_keys) \
               ON CONFLICT DO NOTHING";
    on!(db, writer, |pool| {
        let query = sqlx::query(sql).bind(kid).bind(sealed).bind(public_jwk).bind(now);
        query.execute(pool).await.map(drop)
    })?;
    Ok(())
}

/// Makes a key the current one; the previous key stays in use for its sessions.
/// [`StoreError::Conflict`] when another host rotates at the same time.
pub async fn rotate(
    db: &Db,
    (kid, sealed, public_jwk): (&str, &[u8], &str),
    now: Timestamp,
) -> Result<(), StoreError> {
    let retire =
        "UPDATE instance_oauth_keys SET status = 'retiring', retired_at = $1 WHERE status = 'current'";
    let insert = "INSERT INTO instance_oauth_keys (kid, sealed, public_jwk, status, created_at) \
                  VALUES ($1, $2, $3, 'current', $4)";
    on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        sqlx::query(retire).bind(now).execute(&mut *tx).await?;
        let query = sqlx::query(insert).bind(kid).bind(sealed).bind(public_jwk).bind(now);
        query.execute(&mut *tx).await?;
        tx.commit().await?;
    });
    Ok(())
}

/// Makes a retiring key unusable. `false` when there is no such key, or it is not retiring.
pub async fn revoke(db: &Db, kid: &str) -> Result<bool, StoreError> {
    let sql = "UPDATE instance_oauth_keys SET status = 'revoked' WHERE kid = $1 AND status = 'retiring'";
    Ok(on!(db, writer, |pool| sqlx::query(sql).bind(kid).execute(pool).await?.rows_affected()) > 0)
}

/// Removes a revoked key, unless sessions that began with it have yet to be revoked.
pub async fn delete_revoked(db: &Db, kid: &str) -> Result<(), StoreError> {
    let sql = concat!(
        "DELETE FROM instance_oauth_keys AS k WHERE kid = $1 AND status = 'revoked' AND NOT EXISTS (",
        sessions_of_key!("SELECT 1"),
        ") AND NOT EXISTS (",
        revocations_of_key!(),
        ")"
    );
    on!(db, writer, |pool| sqlx::query(sql).bind(kid).execute(pool).await.map(drop))?;
    Ok(())
}

/// Removes keys that were retired before `before` and that no session uses. Returns how many.
pub async fn delete_unused(db: &Db, before: Timestamp) -> Result<u64, StoreError> {
    let sql = concat!(
        "DELETE FROM instance_oauth_keys AS k WHERE status <> 'current' AND retired_at < $1 AND NOT EXISTS (",
        sessions_of_key!("SELECT 1"),
        ") AND NOT EXISTS (",
        revocations_of_key!(),
        ")"
    );
    Ok(on!(db, writer, |pool| sqlx::query(sql).bind(before).execute(pool).await?.rows_affected()))
}

/// The instance's own sessions whose key is gone. They end when their tokens have to be renewed.
pub async fn count_orphaned(db: &Db) -> Result<i64, StoreError> {
    let sql = "SELECT count(*) FROM oauth_sessions s WHERE s.client_id IS NULL AND s.assertion_kid IS NOT NULL \
               AND NOT EXISTS (SELECT 1 FROM instance_oauth_keys k WHERE k.kid = s.assertion_kid)";
    Ok(on!(db, reader, |pool| sqlx::query_scalar(sql).fetch_one(pool).await)?)
}
