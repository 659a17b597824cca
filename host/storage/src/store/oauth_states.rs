//! Stores pending OAuth flows, by the hash of their `state`. Each can be taken once.

use belvedere_base::clock::Timestamp;

use super::{Db, StoreError, on, only_row};

/// A new flow.
#[derive(Clone, Copy, Debug)]
pub struct NewState<'a> {
    pub id: &'a str,
    pub sealed: &'a [u8],
    pub expires_at: Timestamp,
    /// The tenant that started the flow.
    pub sender: &'a str,
    /// The host of the authorization server, as a tenant.
    pub target: &'a str,
}

/// Limits on the number of pending flows.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Per sender; further flows are refused.
    pub of_sender: i64,
    /// Per target; a further flow evicts the oldest.
    pub of_target: i64,
    /// In total; a further flow evicts the oldest.
    pub all: i64,
}

/// Largest number of flows that one new flow evicts per bound. More than one exceed a bound only after it was lowered
/// or when several hosts wrote at the same time.
const MAX_EVICTED: i64 = 100;

/// Stores a flow; `false` when its sender has too many pending flows. Hosts that write at the same time may exceed a
/// bound by one flow each.
pub async fn put(db: &Db, state: &NewState<'_>, bounds: &Bounds, now: Timestamp) -> Result<bool, StoreError> {
    let insert = "INSERT INTO oauth_states (id, sealed, expires_at, sender, target) \
                  SELECT $1, $2, $3, $4, $5 \
                  WHERE (SELECT count(*) FROM oauth_states WHERE sender = $4 AND expires_at > $6) < $7";
    let of_target = "DELETE FROM oauth_states WHERE id IN (SELECT id FROM oauth_states WHERE target = $1 \
                     ORDER BY expires_at DESC, id LIMIT $2 OFFSET $3)";
    let all = "DELETE FROM oauth_states WHERE id IN (SELECT id FROM oauth_states \
               ORDER BY expires_at DESC, id LIMIT $1 OFFSET $2)";
    on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        let put = sqlx::query(insert)
            .bind(state.id)
            .bind(state.sealed)
            .bind(state.expires_at)
            .bind(state.sender)
            .bind(state.target)
            .bind(now)
            .bind(bounds.of_sender)
            .execute(&mut *tx)
            .await?;
        if put.rows_affected() == 0 {
            return Ok(false);
        }
        sqlx::query(of_target)
            .bind(state.target)
            .bind(MAX_EVICTED)
            .bind(bounds.of_target)
            .execute(&mut *tx)
            .await?;
        sqlx::query(all).bind(MAX_EVICTED).bind(bounds.all).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(true)
    })
}

/// Number of pending flows of a sender.
pub async fn count_of_sender(db: &Db, sender: &str, now: Timestamp) -> Result<i64, StoreError> {
    let sql = "SELECT count(*) FROM oauth_states WHERE sender = $1 AND expires_at > $2";
    Ok(on!(db, reader, |pool| sqlx::query_scalar(sql).bind(sender).bind(now).fetch_one(pool).await)?)
}

/// Removes a flow and returns its content; `None` when it does not exist or has expired.
pub async fn take(db: &Db, id: &str, now: Timestamp) -> Result<Option<Vec<u8>>, StoreError> {
    let sql = "DELETE FROM oauth_states WHERE id = $1 AND expires_at > $2 RETURNING sealed";
    Ok(on!(db, writer, |pool| sqlx::query_scalar(sql)
        .bind(id)
        .bind(now)
        .fetch_all(pool)
        .await
        .map(only_row))?)
}

/// Removes expired flows. Returns how many.
pub async fn prune(db: &Db, now: Timestamp) -> Result<u64, StoreError> {
    let sql = "DELETE FROM oauth_states WHERE expires_at <= $1";
    Ok(on!(db, writer, |pool| sqlx::query(sql).bind(now).execute(pool).await?.rows_affected()))
}
