//! Stores the sessions of logged-in browsers. The cookie contains a random id; only its hash is stored.

use belvedere_base::clock::Timestamp;

use super::{Db, StoreError, on};

#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct WebSessionRow {
    /// SHA-256 hex of the cookie's id.
    pub id: String,
    pub did: String,
    /// The OAuth session with the PDS that the login created.
    pub oauth_session_id: String,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    /// For a login with the attached account: the id of the user's session in the same browser, which it interrupts.
    pub returns_to: Option<String>,
    /// Such as "Firefox on Linux".
    pub device: Option<String>,
    /// The client's address, when the session was last used.
    pub address: Option<String>,
    /// `None` before the first use, and of sessions that are older than this column.
    pub last_used_at: Option<Timestamp>,
}

/// A browser's session for its user and for admins.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct BrowserRow {
    /// The id of the OAuth session, which is in no cookie.
    pub id: String,
    pub device: Option<String>,
    pub address: Option<String>,
    pub created_at: Timestamp,
    pub last_used_at: Option<Timestamp>,
    pub expires_at: Timestamp,
}

/// Sessions of a user that are shown or ended at once: a login ends those beyond 20.
const MAX_LISTED: i64 = 100;

pub async fn create(db: &Db, session: &WebSessionRow) -> Result<(), StoreError> {
    let sql = "INSERT INTO web_sessions \
                   (id, did, oauth_session_id, created_at, expires_at, returns_to, device, address, last_used_at) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    on!(db, writer, |pool| {
        sqlx::query(sql)
            .bind(&session.id)
            .bind(&session.did)
            .bind(&session.oauth_session_id)
            .bind(session.created_at)
            .bind(session.expires_at)
            .bind(&session.returns_to)
            .bind(&session.device)
            .bind(&session.address)
            .bind(session.last_used_at)
            .execute(pool)
            .await
            .map(drop)
    })?;
    Ok(())
}

/// `None` when the session does not exist or has expired, or its account is not a user. While there are no users, any
/// account's session is valid: the first account that logs in becomes a user. The session of an attached account is
/// valid as long as the user's that it interrupts.
pub async fn get(db: &Db, id: &str, now: Timestamp) -> Result<Option<WebSessionRow>, StoreError> {
    let sql = "SELECT id, did, oauth_session_id, created_at, expires_at, returns_to, device, address, last_used_at \
               FROM web_sessions w WHERE id = $1 AND expires_at > $2 AND (EXISTS (SELECT 1 FROM users u WHERE u.did = w.did) \
                   OR EXISTS (SELECT 1 FROM web_sessions o JOIN users u ON u.did = o.did \
                              WHERE o.id = w.returns_to AND o.expires_at > $2) \
                   OR NOT EXISTS (SELECT 1 FROM users))";
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).bind(id).bind(now).fetch_optional(pool).await)?)
}

/// The sessions of a user's browsers that have not expired, the latest used first.
pub async fn of_user(db: &Db, did: &str, now: Timestamp) -> Result<Vec<BrowserRow>, StoreError> {
    let sql = "SELECT oauth_session_id AS id, device, address, created_at, last_used_at, expires_at \
               FROM web_sessions WHERE did = $1 AND expires_at > $2 \
               ORDER BY coalesce(last_used_at, created_at) DESC, id LIMIT $3";
    Ok(on!(db, reader, |pool| {
        sqlx::query_as(sql).bind(did).bind(now).bind(MAX_LISTED).fetch_all(pool).await
    })?)
}

/// Notes that a session is in use by a client with this address.
pub async fn touch(db: &Db, id: &str, address: &str, now: Timestamp) -> Result<(), StoreError> {
    let sql = "UPDATE web_sessions SET last_used_at = $3, address = $2 WHERE id = $1";
    on!(db, writer, |pool| {
        sqlx::query(sql).bind(id).bind(address).bind(now).execute(pool).await.map(drop)
    })?;
    Ok(())
}

/// The OAuth sessions of a user's browsers beyond the `keep` latest logins, at most `max`.
pub async fn surplus(db: &Db, did: &str, keep: i64, max: u32) -> Result<Vec<String>, StoreError> {
    let sql = "SELECT oauth_session_id FROM web_sessions WHERE did = $1 \
               ORDER BY created_at DESC, id LIMIT $2 OFFSET $3";
    Ok(on!(db, reader, |pool| {
        sqlx::query_scalar(sql).bind(did).bind(i64::from(max)).bind(keep).fetch_all(pool).await
    })?)
}

/// Ends one browser's session. The session with the PDS stays.
pub async fn delete(db: &Db, id: &str) -> Result<(), StoreError> {
    let sql = "DELETE FROM web_sessions WHERE id = $1";
    on!(db, writer, |pool| sqlx::query(sql).bind(id).execute(pool).await.map(drop))?;
    Ok(())
}
