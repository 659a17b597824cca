//! Keys with which API clients authenticate to authorization servers.

use crate::clock::Timestamp;

use super::{Db, StoreError, on};

#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct ClientKeyRow {
    pub kid: String,
    pub client_id: String,
    pub sealed: Vec<u8>,
    /// JSON text.
    pub public_jwk: String,
    /// `current`, or `retiring`: published, and used for the sessions that began with it.
    pub status: String,
    pub created_at: Timestamp,
}

macro_rules! select {
    ($tail:literal) => {
        concat!("SELECT kid, client_id, sealed, public_jwk, status, created_at FROM api_client_keys ", $tail)
    };
}

/// Makes a key the current one, unless the client has one. `false` then.
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
