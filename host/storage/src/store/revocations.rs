//! Stores sessions that have ended here until they are revoked at their authorization servers. The statements that
//! delete sessions add them here in the same transaction ([`enqueue`]), so that no crash loses a revocation.

use belvedere_base::clock::Timestamp;

use super::{Db, StoreError, on};

/// A session to revoke, with everything that the revocation needs. Secrets are sealed.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct RevocationRow {
    /// The id that the session had.
    pub id: String,
    pub issuer: String,
    pub oauth_client_id: String,
    /// The key that client assertions are signed with; `None` for a client without one.
    pub assertion_kid: Option<String>,
    pub key_id: String,
    pub sealed: Vec<u8>,
    pub sealed_key: Vec<u8>,
    /// The key of `assertion_kid`, if it belongs to an API client.
    pub sealed_client_key: Option<Vec<u8>>,
    /// The number of attempts to revoke.
    pub attempts: i64,
    pub due_at: Timestamp,
    pub give_up_at: Timestamp,
}

/// The times of the first attempt of queued revocations and of the end of their repetition.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    pub due_at: Timestamp,
    pub give_up_at: Timestamp,
}

/// The statement that queues the sessions `s` which satisfy a condition. `$1` and `$2` are the [`Window`]. A session
/// that another host queues at the same time is queued once.
macro_rules! enqueue {
    ($condition:literal) => {
        concat!(
            "INSERT INTO revocations (id, client_id, issuer, oauth_client_id, assertion_kid, key_id, sealed, sealed_key, \
                 sealed_client_key, public_jwk, attempts, due_at, give_up_at) \
             SELECT s.id, s.client_id, s.issuer, s.oauth_client_id, s.assertion_kid, s.key_id, s.sealed, k.sealed, \
                 a.sealed, a.public_jwk, 0, $1, $2 \
             FROM oauth_sessions s JOIN dpop_keys k ON k.id = s.key_id \
             LEFT JOIN api_client_keys a ON a.client_id = s.client_id AND a.kid = s.assertion_kid \
             WHERE ",
            $condition,
            " ON CONFLICT (id) DO NOTHING"
        )
    };
}
pub(super) use enqueue;

/// Revocations that are due, the longest due first: at most `max`, and at most `of_issuer` of one authorization server,
/// so that many sessions of a slow server don't delay the others.
pub async fn due(
    db: &Db,
    now: Timestamp,
    max: u32,
    of_issuer: u32,
) -> Result<Vec<RevocationRow>, StoreError> {
    let sql = "SELECT id, issuer, oauth_client_id, assertion_kid, key_id, sealed, sealed_key, sealed_client_key, \
                   attempts, due_at, give_up_at FROM revocations WHERE id IN ( \
                   SELECT id FROM (SELECT id, due_at, row_number() OVER (PARTITION BY issuer ORDER BY due_at, id) AS n \
                       FROM revocations WHERE due_at <= $1) AS due \
                   WHERE n <= $3 ORDER BY due_at, id LIMIT $2) \
               ORDER BY due_at, id";
    Ok(on!(db, reader, |pool| {
        sqlx::query_as(sql).bind(now).bind(i64::from(max)).bind(i64::from(of_issuer)).fetch_all(pool).await
    })?)
}

/// Begins an attempt, after which the row is due at `until` unless the attempt ends earlier. `false` when another host
/// has begun one.
pub async fn begin(db: &Db, row: &RevocationRow, until: Timestamp) -> Result<bool, StoreError> {
    let sql = "UPDATE revocations SET attempts = attempts + 1, due_at = $3 WHERE id = $1 AND due_at = $2";
    let begun = on!(db, writer, |pool| {
        sqlx::query(sql).bind(&row.id).bind(row.due_at).bind(until).execute(pool).await?.rows_affected()
    });
    Ok(begun > 0)
}

/// Postpones a revocation whose attempt has failed.
pub async fn postpone(db: &Db, id: &str, until: Timestamp) -> Result<(), StoreError> {
    let sql = "UPDATE revocations SET due_at = $2 WHERE id = $1";
    on!(db, writer, |pool| sqlx::query(sql).bind(id).bind(until).execute(pool).await.map(drop))?;
    Ok(())
}

/// Removes a revocation: it is done, or given up.
pub async fn delete(db: &Db, id: &str) -> Result<(), StoreError> {
    let sql = "DELETE FROM revocations WHERE id = $1";
    on!(db, writer, |pool| sqlx::query(sql).bind(id).execute(pool).await.map(drop))?;
    Ok(())
}

/// Removes all but `keep` revocations, those that were tried most often first. Returns how many.
pub async fn prune(db: &Db, keep: i64) -> Result<u64, StoreError> {
    let count = "SELECT count(*) FROM revocations";
    let queued: i64 = on!(db, reader, |pool| sqlx::query_scalar(count).fetch_one(pool).await)?;
    if queued <= keep {
        return Ok(0);
    }
    let sql = "DELETE FROM revocations WHERE id IN ( \
                   SELECT id FROM revocations ORDER BY attempts DESC, due_at DESC, id DESC LIMIT $1)";
    Ok(on!(db, writer, |pool| sqlx::query(sql).bind(queued - keep).execute(pool).await?.rows_affected()))
}

/// The public keys, as JSON text, with which a client authenticates to revoke sessions: authorization servers fetch
/// them, although the client or the key is deleted.
pub async fn public_keys(db: &Db, client_id: &str, now: Timestamp) -> Result<Vec<String>, StoreError> {
    let sql = "SELECT DISTINCT public_jwk FROM revocations \
               WHERE client_id = $1 AND give_up_at > $2 AND public_jwk IS NOT NULL ORDER BY public_jwk";
    Ok(on!(db, reader, |pool| sqlx::query_scalar(sql).bind(client_id).bind(now).fetch_all(pool).await)?)
}
