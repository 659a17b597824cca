//! Stores the keys with which API clients authenticate to authorization servers.

use schemars::JsonSchema;
use serde::Serialize;

use belvedere_base::clock::Timestamp;

use super::revocations::{Window, enqueue};
use super::{Db, StoreError, on};

#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct ClientKeyRow {
    pub kid: String,
    pub client_id: String,
    pub sealed: Vec<u8>,
    /// JSON text.
    pub public_jwk: String,
    /// `current`, or `retiring`: still published and used for the sessions that began with it.
    pub status: String,
    pub created_at: Timestamp,
}

macro_rules! select {
    ($tail:literal) => {
        concat!("SELECT kid, client_id, sealed, public_jwk, status, created_at FROM api_client_keys ", $tail)
    };
}

/// Stores a client's current key; `false` when the client has one already.
pub async fn create(db: &Db, key: &ClientKeyRow) -> Result<bool, StoreError> {
    let sql = "INSERT INTO api_client_keys (kid, client_id, sealed, public_jwk, status, created_at) \
               VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING";
    let made = on!(db, writer, |pool| {
        sqlx::query(sql)
            .bind(&key.kid)
            .bind(&key.client_id)
            .bind(&key.sealed)
            .bind(&key.public_jwk)
            .bind(&key.status)
            .bind(key.created_at)
            .execute(pool)
            .await?
            .rows_affected()
    });
    Ok(made > 0)
}

/// The keys of a client, newest first.
pub async fn list(db: &Db, client_id: &str) -> Result<Vec<ClientKeyRow>, StoreError> {
    let sql = select!("WHERE client_id = $1 ORDER BY created_at DESC, kid DESC");
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).bind(client_id).fetch_all(pool).await)?)
}

pub async fn get(db: &Db, client_id: &str, kid: &str) -> Result<Option<ClientKeyRow>, StoreError> {
    let sql = select!("WHERE client_id = $1 AND kid = $2");
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).bind(client_id).bind(kid).fetch_optional(pool).await)?)
}

pub async fn current(db: &Db, client_id: &str) -> Result<Option<ClientKeyRow>, StoreError> {
    let sql = select!("WHERE client_id = $1 AND status = 'current'");
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).bind(client_id).fetch_optional(pool).await)?)
}

/// A key and the number of sessions that began with it.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow, Serialize, JsonSchema)]
pub struct KeyUse {
    pub kid: String,
    pub status: String,
    pub created_at: Timestamp,
    pub session_count: i64,
}

/// The keys of a client with their numbers of sessions, newest first.
pub async fn in_use(db: &Db, client_id: &str) -> Result<Vec<KeyUse>, StoreError> {
    let sql = "SELECT kid, status, created_at, (SELECT count(*) FROM oauth_sessions s \
                   WHERE s.client_id = k.client_id AND s.assertion_kid = k.kid) AS session_count \
               FROM api_client_keys k WHERE client_id = $1 ORDER BY created_at DESC, kid DESC";
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).bind(client_id).fetch_all(pool).await)?)
}

/// Makes a key the current one; the previous key stays in use for its sessions.
pub async fn rotate(db: &Db, key: &ClientKeyRow) -> Result<(), StoreError> {
    let retire = "UPDATE api_client_keys SET status = 'retiring' WHERE client_id = $1 AND status = 'current'";
    let insert = "INSERT INTO api_client_keys (kid, client_id, sealed, public_jwk, status, created_at) \
                  VALUES ($1, $2, $3, $4, 'current', $5)";
    on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        sqlx::query(retire).bind(&key.client_id).execute(&mut *tx).await?;
        let query = sqlx::query(insert).bind(&key.kid).bind(&key.client_id).bind(&key.sealed);
        query.bind(&key.public_jwk).bind(key.created_at).execute(&mut *tx).await?;
        tx.commit().await?;
    });
    Ok(())
}

/// Removes one or all keys of a client, and the sessions that began with them, which can't be refreshed without the
/// key; queues the revocation of these sessions. Returns the numbers of removed keys and sessions.
pub async fn revoke(
    db: &Db,
    client_id: &str,
    kid: Option<&str>,
    window: Window,
) -> Result<(u64, u64), StoreError> {
    let queue = enqueue!("s.client_id = $3 AND a.kid IS NOT NULL AND ($4 IS NULL OR a.kid = $4)");
    let sessions = "DELETE FROM dpop_keys WHERE id IN (SELECT key_id FROM oauth_sessions \
                        WHERE client_id = $1 AND assertion_kid IN (SELECT kid FROM api_client_keys \
                            WHERE client_id = $1 AND ($2 IS NULL OR kid = $2)))";
    let keys = "DELETE FROM api_client_keys WHERE client_id = $1 AND ($2 IS NULL OR kid = $2)";
    Ok(on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        let Window { due_at, give_up_at } = window;
        let queue = sqlx::query(queue).bind(due_at).bind(give_up_at).bind(client_id).bind(kid);
        queue.execute(&mut *tx).await?;
        let sessions = sqlx::query(sessions).bind(client_id).bind(kid).execute(&mut *tx).await?;
        let keys = sqlx::query(keys).bind(client_id).bind(kid).execute(&mut *tx).await?;
        tx.commit().await?;
        (keys.rows_affected(), sessions.rows_affected())
    }))
}

/// Removes retiring keys that no session uses. Returns how many.
pub async fn delete_retired(db: &Db) -> Result<u64, StoreError> {
    let sql = "DELETE FROM api_client_keys WHERE status = 'retiring' AND NOT EXISTS \
               (SELECT 1 FROM oauth_sessions s WHERE s.assertion_kid = api_client_keys.kid)";
    Ok(on!(db, writer, |pool| sqlx::query(sql).execute(pool).await?.rows_affected()))
}
