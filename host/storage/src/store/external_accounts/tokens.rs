//! Replaces tokens. One host at a time refreshes those of an account, because a service may accept a refresh token once.

use belvedere_base::clock::Timestamp;

use super::super::{Db, StoreError, on};

/// Refreshed tokens. `None` in `refresh_token`, `token_type` or `scope` keeps the stored value.
#[derive(Clone, Copy, Debug)]
pub struct NewTokens<'a> {
    pub access_token: &'a [u8],
    pub refresh_token: Option<&'a [u8]>,
    pub token_type: &'a str,
    pub scope: Option<&'a str>,
    pub expires_at: Option<Timestamp>,
}

/// Takes the exclusive right to refresh the tokens of this version until `until`. `false` when another task or host has
/// it, when the tokens have a newer version, or when the account is not linked any more.
pub async fn lease_refresh(
    db: &Db,
    id: &str,
    version: i64,
    now: Timestamp,
    until: Timestamp,
) -> Result<bool, StoreError> {
    let sql = "UPDATE external_accounts SET refresh_until = $4 WHERE id = $1 AND version = $2 AND status = 'linked' \
               AND (refresh_until IS NULL OR refresh_until < $3)";
    let taken = on!(db, writer, |pool| {
        sqlx::query(sql).bind(id).bind(version).bind(now).bind(until).execute(pool).await?.rows_affected()
    });
    Ok(taken > 0)
}

/// Releases the right to refresh without storing new tokens.
pub async fn release_refresh(db: &Db, id: &str, version: i64) -> Result<(), StoreError> {
    let sql = "UPDATE external_accounts SET refresh_until = NULL WHERE id = $1 AND version = $2";
    on!(db, writer, |pool| sqlx::query(sql).bind(id).bind(version).execute(pool).await.map(drop))?;
    Ok(())
}

/// Replaces the tokens of a version with new ones, also those of an account that is being unlinked, so that the new ones
/// are revoked. `false` when the stored tokens have another version.
pub async fn refreshed(
    db: &Db,
    id: &str,
    version: i64,
    new: &NewTokens<'_>,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let sql = "UPDATE external_accounts SET access_token = $3, refresh_token = coalesce($4, refresh_token), \
                   token_type = $5, scope = coalesce($6, scope), expires_at = $7, version = version + 1, \
                   refresh_until = NULL, updated_at = $8 WHERE id = $1 AND version = $2";
    let written = on!(db, writer, |pool| {
        let query = sqlx::query(sql).bind(id).bind(version).bind(new.access_token).bind(new.refresh_token);
        let query = query.bind(new.token_type).bind(new.scope).bind(new.expires_at).bind(now);
        query.execute(pool).await?.rows_affected()
    });
    Ok(written > 0)
}

/// Stores that the service no longer accepts the tokens of this version. `false` when it was stored before, or the tokens
/// have another version.
pub async fn expire(db: &Db, id: &str, version: i64, now: Timestamp) -> Result<bool, StoreError> {
    let sql = "UPDATE external_accounts SET status = 'expired', refresh_until = NULL, updated_at = $3 \
               WHERE id = $1 AND version = $2 AND status = 'linked'";
    let written = on!(db, writer, |pool| {
        sqlx::query(sql).bind(id).bind(version).bind(now).execute(pool).await?.rows_affected()
    });
    Ok(written > 0)
}
