//! Stores DPoP keys, which the server creates for applications and for its own logins. Each key serves one session.

use belvedere_base::clock::Timestamp;

use super::{Db, StoreError, on};

#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct DpopKeyRow {
    /// The provision id.
    pub id: String,
    /// `None`: one of the instance's own logins.
    pub client_id: Option<String>,
    pub thumbprint: String,
    pub sealed: Vec<u8>,
    /// base64url of the SHA-256 of a verifier; public clients only.
    pub pkce_challenge: Option<String>,
    /// The account of the first session that was registered for the key.
    pub did: Option<String>,
    pub created_at: Timestamp,
}

pub async fn create(db: &Db, key: &DpopKeyRow) -> Result<(), StoreError> {
    let sql = "INSERT INTO dpop_keys (id, client_id, thumbprint, sealed, pkce_challenge, did, created_at) \
               VALUES ($1, $2, $3, $4, $5, $6, $7)";
    on!(db, writer, |pool| {
        sqlx::query(sql)
            .bind(&key.id)
            .bind(&key.client_id)
            .bind(&key.thumbprint)
            .bind(&key.sealed)
            .bind(&key.pkce_challenge)
            .bind(&key.did)
            .bind(key.created_at)
            .execute(pool)
            .await
            .map(drop)
    })?;
    Ok(())
}

pub async fn get(db: &Db, id: &str) -> Result<Option<DpopKeyRow>, StoreError> {
    let sql = "SELECT id, client_id, thumbprint, sealed, pkce_challenge, did, created_at FROM dpop_keys WHERE id = $1";
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).bind(id).fetch_optional(pool).await)?)
}

/// Removes keys created before `before` for which no session was ever registered, at most `max`. Returns how many.
pub async fn delete_unused(db: &Db, before: Timestamp, max: u32) -> Result<u64, StoreError> {
    let sql = "DELETE FROM dpop_keys WHERE id IN \
               (SELECT id FROM dpop_keys WHERE did IS NULL AND created_at < $1 LIMIT $2)";
    Ok(on!(db, writer, |pool| {
        sqlx::query(sql).bind(before).bind(i64::from(max)).execute(pool).await?.rows_affected()
    }))
}
