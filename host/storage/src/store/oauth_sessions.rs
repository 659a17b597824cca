//! Stores OAuth sessions with users' PDSs, one per DPoP key. Secrets are sealed; this module never handles a plain
//! token.

use sqlx::AssertSqlSafe;

use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Did;

use super::revocations::{Window, enqueue};
use super::types::to_json_text;
use super::{Db, StoreError, on};

/// A session and its key, with everything that a call to its PDS needs.
#[derive(Clone, Debug, sqlx::FromRow)]
pub struct SessionRow {
    pub id: String,
    pub key_id: String,
    /// The API client that registered it; `None` for the instance's own logins.
    pub client_id: Option<String>,
    pub did: String,
    /// Space-separated.
    pub scopes: String,
    /// Origin of the PDS.
    pub pds: String,
    pub issuer: String,
    /// The `client_id` that this server uses at the authorization server.
    pub oauth_client_id: String,
    /// The key that client assertions are signed with; `None` for a client without one.
    pub assertion_kid: Option<String>,
    pub sealed: Vec<u8>,
    pub sealed_key: Vec<u8>,
    /// Whether there is a refresh token.
    pub refreshable: bool,
    pub expires_at: Option<Timestamp>,
    /// Incremented with every change of the tokens.
    pub version: i64,
    /// The current scopes of the session's client, space-separated; empty if the client is inactive. `None` without a
    /// client.
    pub client_scopes: Option<String>,
    /// The same for the client's parent; `None` without one.
    pub parent_scopes: Option<String>,
}

/// The content of a registration.
#[derive(Clone, Debug)]
pub struct NewSession<'a> {
    /// The id of the session, unless the key has a session already, whose id stays.
    pub id: &'a str,
    pub key_id: &'a str,
    pub client_id: Option<&'a str>,
    pub did: &'a str,
    pub scopes: &'a str,
    pub token_hash: &'a str,
    pub pds: &'a str,
    pub issuer: &'a str,
    pub oauth_client_id: &'a str,
    pub assertion_kid: Option<&'a str>,
    pub sealed: &'a [u8],
    pub refreshable: bool,
    pub expires_at: Option<Timestamp>,
}

/// The session of the key that a DPoP proof was made with. All fields are `None` while the key has no session.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct ProofSession {
    pub id: Option<String>,
    pub did: Option<String>,
    pub scopes: Option<String>,
    pub token_hash: Option<String>,
    pub refreshable: Option<bool>,
    pub expires_at: Option<Timestamp>,
}

/// A session and the PDS at which it was made.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct AccountSession {
    pub id: String,
    pub did: String,
    /// Origin of the PDS.
    pub pds: String,
}

/// A user's session under a client, shown as a device.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct DeviceRow {
    pub id: String,
    pub key_id: String,
    pub scopes: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

const COLUMNS: &str = "s.id, s.key_id, s.client_id, s.did, s.scopes, s.pds, s.issuer, s.oauth_client_id, \
     s.assertion_kid, s.sealed, k.sealed AS sealed_key, s.refreshable, s.expires_at, s.version, \
     CASE WHEN c.is_active THEN c.scopes WHEN c.id IS NOT NULL THEN '' END AS client_scopes, \
     CASE WHEN p.is_active THEN p.scopes WHEN p.id IS NOT NULL THEN '' END AS parent_scopes \
     FROM oauth_sessions s JOIN dpop_keys k ON k.id = s.key_id LEFT JOIN api_clients c ON c.id = s.client_id \
     LEFT JOIN api_clients p ON p.id = c.parent_client_id";

/// Stores the session of a key and binds the key to the account. If the key has a session already, that one keeps its
/// id and gets the new tokens. Returns the session's id; `None` when the key does not exist or is bound to another
/// account.
pub async fn register(
    db: &Db,
    session: &NewSession<'_>,
    now: Timestamp,
) -> Result<Option<String>, StoreError> {
    let bind = "UPDATE dpop_keys SET did = $2 WHERE id = $1 AND (did IS NULL OR did = $2)";
    let upsert = "INSERT INTO oauth_sessions (id, key_id, client_id, did, scopes, token_hash, pds, issuer, \
                    oauth_client_id, assertion_kid, sealed, refreshable, expires_at, version, created_at, updated_at) \
                VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, 1, $14, $14) \
                ON CONFLICT (key_id) DO UPDATE SET scopes = excluded.scopes, token_hash = excluded.token_hash, \
                    pds = excluded.pds, issuer = excluded.issuer, oauth_client_id = excluded.oauth_client_id, \
                    assertion_kid = excluded.assertion_kid, sealed = excluded.sealed, \
                    refreshable = excluded.refreshable, expires_at = excluded.expires_at, \
                    version = oauth_sessions.version + 1, lease_until = NULL, updated_at = excluded.updated_at \
                RETURNING id";
    on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        let bound = sqlx::query(bind).bind(session.key_id).bind(session.did).execute(&mut *tx).await?;
        if bound.rows_affected() == 0 {
            return Ok(None);
        }
        let id: String = sqlx::query_scalar(upsert)
            .bind(session.id)
            .bind(session.key_id)
            .bind(session.client_id)
            .bind(session.did)
            .bind(session.scopes)
            .bind(session.token_hash)
            .bind(session.pds)
            .bind(session.issuer)
            .bind(session.oauth_client_id)
            .bind(session.assertion_kid)
            .bind(session.sealed)
            .bind(session.refreshable)
            .bind(session.expires_at)
            .bind(now)
            .fetch_one(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(Some(id))
    })
}

/// The session of a client's key, by the key's JWK thumbprint; `None` when the client has no such key.
pub async fn by_thumbprint(
    db: &Db,
    client_id: &str,
    thumbprint: &str,
) -> Result<Option<ProofSession>, StoreError> {
    let sql = "SELECT s.id, s.did, s.scopes, s.token_hash, s.refreshable, s.expires_at \
               FROM dpop_keys k LEFT JOIN oauth_sessions s ON s.key_id = k.id \
               WHERE k.thumbprint = $1 AND k.client_id = $2";
    Ok(on!(db, reader, |pool| {
        sqlx::query_as(sql).bind(thumbprint).bind(client_id).fetch_optional(pool).await
    })?)
}

pub async fn get(db: &Db, id: &str) -> Result<Option<SessionRow>, StoreError> {
    let sql = format!("SELECT {COLUMNS} WHERE s.id = $1");
    Ok(on!(db, reader, |pool| sqlx::query_as(AssertSqlSafe(sql)).bind(id).fetch_optional(pool).await)?)
}

/// The most recently updated session of an account: of one API client, or without one, of the instance's own logins.
pub async fn newest(db: &Db, did: &str, client_id: Option<&str>) -> Result<Option<SessionRow>, StoreError> {
    // The instance's own sessions are logins only if they are a browser's; the others belong to linked repos.
    const LOGINS: &str = "s.client_id IS NULL AND $2 IS NULL \
                          AND EXISTS (SELECT 1 FROM web_sessions w WHERE w.oauth_session_id = s.id)";
    let condition = if client_id.is_some() { "s.client_id = $2" } else { LOGINS };
    let sql = format!(
        "SELECT {COLUMNS} WHERE s.did = $1 AND {condition} ORDER BY s.updated_at DESC, s.id DESC LIMIT 1"
    );
    Ok(on!(db, reader, |pool| {
        sqlx::query_as(AssertSqlSafe(sql)).bind(did).bind(client_id).fetch_optional(pool).await
    })?)
}

/// The instance's own sessions that began with one of its keys.
pub async fn of_own_key(db: &Db, kid: &str) -> Result<Vec<SessionRow>, StoreError> {
    let sql = format!("SELECT {COLUMNS} WHERE s.client_id IS NULL AND s.assertion_kid = $1");
    Ok(on!(db, reader, |pool| sqlx::query_as(AssertSqlSafe(sql)).bind(kid).fetch_all(pool).await)?)
}

/// The sessions of accounts, of API clients and of the instance.
pub async fn of_accounts(db: &Db, dids: &[Did]) -> Result<Vec<AccountSession>, StoreError> {
    let dids: Vec<&str> = dids.iter().map(Did::as_str).collect();
    Ok(match db {
        Db::Sqlite(db) => {
            let sql =
                "SELECT id, did, pds FROM oauth_sessions WHERE did IN (SELECT value FROM json_each($1))";
            sqlx::query_as(sql).bind(to_json_text(&dids)).fetch_all(&db.reader).await?
        }
        Db::Postgres(db) => {
            let sql = "SELECT id, did, pds FROM oauth_sessions WHERE did = ANY($1)";
            sqlx::query_as(sql).bind(dids).fetch_all(db.reader()).await?
        }
    })
}

/// The sessions of a user under a client, oldest first.
pub async fn devices(db: &Db, client_id: &str, did: &str) -> Result<Vec<DeviceRow>, StoreError> {
    let sql = "SELECT id, key_id, scopes, created_at, updated_at FROM oauth_sessions \
               WHERE client_id = $1 AND did = $2 ORDER BY created_at, id";
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).bind(client_id).bind(did).fetch_all(pool).await)?)
}

/// Takes the exclusive right to refresh the tokens of this version until `until`. `false` when another task or host has
/// it, or when the tokens have a newer version.
pub async fn lease(
    db: &Db,
    id: &str,
    version: i64,
    now: Timestamp,
    until: Timestamp,
) -> Result<bool, StoreError> {
    let sql = "UPDATE oauth_sessions SET lease_until = $4 \
               WHERE id = $1 AND version = $2 AND (lease_until IS NULL OR lease_until < $3)";
    let taken = on!(db, writer, |pool| {
        sqlx::query(sql).bind(id).bind(version).bind(now).bind(until).execute(pool).await?.rows_affected()
    });
    Ok(taken > 0)
}

/// Releases the right to refresh without storing new tokens.
pub async fn release(db: &Db, id: &str, version: i64) -> Result<(), StoreError> {
    let sql = "UPDATE oauth_sessions SET lease_until = NULL WHERE id = $1 AND version = $2";
    on!(db, writer, |pool| sqlx::query(sql).bind(id).bind(version).execute(pool).await.map(drop))?;
    Ok(())
}

/// Releases all rights to refresh that a killed server still holds. Only on SQLite, which has one server: on PostgreSQL
/// another host may be refreshing, and the rights expire.
pub async fn release_all(db: &Db) -> Result<(), StoreError> {
    if let Db::Sqlite(db) = db {
        let sql = "UPDATE oauth_sessions SET lease_until = NULL WHERE lease_until IS NOT NULL";
        sqlx::query(sql).execute(&db.writer).await?;
    }
    Ok(())
}

/// Replaces the tokens of a version with new ones. `false` when the stored tokens have another version.
pub async fn refreshed(
    db: &Db,
    id: &str,
    version: i64,
    sealed: &[u8],
    refreshable: bool,
    expires_at: Option<Timestamp>,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let sql = "UPDATE oauth_sessions SET sealed = $3, refreshable = $4, expires_at = $5, version = version + 1, \
                   lease_until = NULL, updated_at = $6 WHERE id = $1 AND version = $2";
    let written = on!(db, writer, |pool| {
        let query = sqlx::query(sql).bind(id).bind(version).bind(sealed).bind(refreshable).bind(expires_at);
        query.bind(now).execute(pool).await?.rows_affected()
    });
    Ok(written > 0)
}

/// Removes a session and its key, if its tokens have this version.
pub async fn delete_version(db: &Db, id: &str, version: i64) -> Result<bool, StoreError> {
    let sql = "DELETE FROM dpop_keys WHERE id IN \
               (SELECT key_id FROM oauth_sessions WHERE id = $1 AND version = $2)";
    let removed = on!(db, writer, |pool| {
        sqlx::query(sql).bind(id).bind(version).execute(pool).await?.rows_affected()
    });
    Ok(removed > 0)
}

/// Removes a session and its key, and queues its revocation. `false` when it does not exist.
pub async fn end(db: &Db, id: &str, window: Window) -> Result<bool, StoreError> {
    let queue = enqueue!("s.id = $3");
    let delete = "DELETE FROM dpop_keys WHERE id IN (SELECT key_id FROM oauth_sessions WHERE id = $1)";
    on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        let Window { due_at, give_up_at } = window;
        sqlx::query(queue).bind(due_at).bind(give_up_at).bind(id).execute(&mut *tx).await?;
        let removed = sqlx::query(delete).bind(id).execute(&mut *tx).await?.rows_affected();
        tx.commit().await?;
        Ok(removed > 0)
    })
}

/// Like [`end`], if the session was made at this PDS. Its linked repo becomes `needs_reauth`.
pub async fn end_at(db: &Db, id: &str, pds: &str, why: &str, window: Window) -> Result<bool, StoreError> {
    // `register` updates the key first, too: it waits here, or is seen by the statements below.
    let lock = "UPDATE dpop_keys SET did = did WHERE id = (SELECT key_id FROM oauth_sessions WHERE id = $1)";
    let mark = "UPDATE linked_repos SET status = 'needs_reauth', last_error = $3 WHERE status = 'active' \
                AND session_id = (SELECT id FROM oauth_sessions WHERE id = $1 AND pds = $2)";
    let queue = enqueue!("s.id = $3 AND s.pds = $4");
    let delete =
        "DELETE FROM dpop_keys WHERE id = (SELECT key_id FROM oauth_sessions WHERE id = $1 AND pds = $2)";
    on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        let Window { due_at, give_up_at } = window;
        sqlx::query(lock).bind(id).execute(&mut *tx).await?;
        sqlx::query(mark).bind(id).bind(pds).bind(why).execute(&mut *tx).await?;
        sqlx::query(queue).bind(due_at).bind(give_up_at).bind(id).bind(pds).execute(&mut *tx).await?;
        let removed = sqlx::query(delete).bind(id).bind(pds).execute(&mut *tx).await?.rows_affected();
        tx.commit().await?;
        Ok(removed > 0)
    })
}

/// The sessions of an account under a client beyond the `keep` most recently updated ones, which always include
/// `kept_id`.
pub async fn surplus(
    db: &Db,
    client_id: &str,
    did: &str,
    kept_id: &str,
    keep: i64,
) -> Result<Vec<String>, StoreError> {
    let sql = "SELECT id FROM oauth_sessions WHERE client_id = $1 AND did = $2 AND id <> $3 \
               ORDER BY updated_at DESC, id LIMIT $4 OFFSET $5";
    Ok(on!(db, reader, |pool| {
        let query = sqlx::query_scalar(sql).bind(client_id).bind(did).bind(kept_id);
        query.bind(SURPLUS_STEP).bind(keep - 1).fetch_all(pool).await
    })?)
}

/// Largest number of sessions that [`surplus`] returns: after the limit was lowered, several calls are needed.
const SURPLUS_STEP: i64 = 100;

/// The instance's own sessions from before `before` that neither a valid browser session nor a linked repo nor the
/// attached account uses: the browser session has expired, or the login was not completed. At most `max`.
pub async fn unused(db: &Db, now: Timestamp, before: Timestamp, max: u32) -> Result<Vec<String>, StoreError> {
    let sql = "SELECT s.id FROM oauth_sessions s WHERE s.client_id IS NULL AND s.created_at < $2 \
               AND NOT EXISTS (SELECT 1 FROM web_sessions w WHERE w.oauth_session_id = s.id AND w.expires_at > $1) \
               AND NOT EXISTS (SELECT 1 FROM linked_repos l WHERE l.session_id = s.id) \
               AND NOT EXISTS (SELECT 1 FROM service_identity i WHERE i.attached_session_id = s.id) LIMIT $3";
    Ok(on!(db, reader, |pool| {
        sqlx::query_scalar(sql).bind(now).bind(before).bind(i64::from(max)).fetch_all(pool).await
    })?)
}

/// Removes unusable sessions and their keys, at most `max`: those that expired before `expired` without a refresh
/// token, and those last updated before `idle`. Sessions of linked repos stay: their grants report the loss. Returns
/// how many.
pub async fn delete_unusable(
    db: &Db,
    expired: Timestamp,
    idle: Timestamp,
    max: u32,
) -> Result<u64, StoreError> {
    let sql = "DELETE FROM dpop_keys WHERE id IN (SELECT s.key_id FROM oauth_sessions s \
               WHERE ((s.refreshable = FALSE AND s.expires_at < $1) OR s.updated_at < $2) \
               AND NOT EXISTS (SELECT 1 FROM linked_repos l WHERE l.session_id = s.id) LIMIT $3)";
    Ok(on!(db, writer, |pool| {
        sqlx::query(sql).bind(expired).bind(idle).bind(i64::from(max)).execute(pool).await?.rows_affected()
    }))
}
