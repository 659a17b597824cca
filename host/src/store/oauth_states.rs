//! OAuth flows under way, by the hash of their `state`. Each is taken once.

use crate::clock::Timestamp;

use super::{Db, StoreError, on};

pub async fn put(db: &Db, id: &str, sealed: &[u8], expires_at: Timestamp) -> Result<(), StoreError> {
    let sql = "INSERT INTO oauth_states (id, sealed, expires_at) VALUES ($1, $2, $3)";
    on!(db, writer, |pool| {
        sqlx::query(sql).bind(id).bind(sealed).bind(expires_at).execute(pool).await.map(drop)
    })?;
    Ok(())
}

/// Takes a flow out; `None` when there is none, or it has expired.
pub async fn take(db: &Db, id: &str, now: Timestamp) -> Result<Option<Vec<u8>>, StoreError> {
    let sql = "DELETE FROM oauth_states WHERE id = $1 AND expires_at > $2 RETURNING sealed";
    Ok(on!(db, writer, |pool| sqlx::query_scalar(sql).bind(id).bind(now).fetch_optional(pool).await)?)
}

/// Forgets flows that nobody came back from. Returns how many.
pub async fn prune(db: &Db, now: Timestamp) -> Result<u64, StoreError> {
    let sql = "DELETE FROM oauth_states WHERE expires_at <= $1";
    Ok(on!(db, writer, |pool| sqlx::query(sql).bind(now).execute(pool).await?.rows_affected()))
}
