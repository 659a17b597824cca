//! Credentials that were issued here, so that they can be revoked, and those that another authority has revoked.

use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Did;

use super::super::{Db, StoreError, in_transaction, on};
use super::columns::SpaceId;

/// Revokes the credentials of an account (`$2`) in a space (`$1`) that have not expired at a time (`$3`).
pub(super) const REVOKE: &str = "UPDATE space_credentials SET revoked_at = $3 \
     WHERE space_id = $1 AND did = $2 AND revoked_at IS NULL AND expires_at > $3 RETURNING jti";

/// Stores a credential for an account. The caller checks its rights after that and before the credential leaves the server: a
/// member that is removed in between is either found missing, or its credential is revoked.
///
/// # Errors
/// [`StoreError::Conflict`] when its id was used before.
pub async fn issue(
    db: &Db,
    space: SpaceId,
    jti: &str,
    did: &Did,
    expires_at: Timestamp,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO space_credentials (space_id, jti, did, expires_at) VALUES ($1, $2, $3, $4)";
    on!(db, writer, |pool| {
        sqlx::query(sql)
            .bind(space)
            .bind(jti)
            .bind(did.as_str())
            .bind(expires_at)
            .execute(pool)
            .await
            .map(drop)
    })?;
    Ok(())
}

/// Revokes the credentials of an account that have not expired. Returns their ids.
pub async fn revoke_of(
    db: &Db,
    space: SpaceId,
    did: &Did,
    now: Timestamp,
) -> Result<Vec<String>, StoreError> {
    Ok(on!(db, writer, |pool| {
        sqlx::query_scalar(REVOKE).bind(space).bind(did.as_str()).bind(now).fetch_all(pool).await?
    }))
}

macro_rules! revoke {
    ($later:literal) => {
        concat!(
            "INSERT INTO space_credentials (space_id, jti, expires_at, revoked_at) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (space_id, jti) DO UPDATE SET expires_at = ",
            $later,
            "(space_credentials.expires_at, excluded.expires_at), \
                 revoked_at = coalesce(space_credentials.revoked_at, excluded.revoked_at)"
        )
    };
}

/// Stores that the authority of a space has revoked credentials, until `keep_until` at least: longer than any of them lasts.
pub async fn revoke(
    db: &Db,
    space: SpaceId,
    jtis: &[String],
    now: Timestamp,
    keep_until: Timestamp,
) -> Result<(), StoreError> {
    let later = match db {
        Db::Sqlite(_) => revoke!("max"),
        Db::Postgres(_) => revoke!("greatest"),
    };
    in_transaction!(db, |tx| {
        for jti in jtis {
            let query = sqlx::query(later).bind(space).bind(jti).bind(keep_until).bind(now);
            query.execute(&mut *tx).await?;
        }
    });
    Ok(())
}

/// Whether a credential was revoked.
pub async fn is_revoked(db: &Db, space: SpaceId, jti: &str) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM space_credentials WHERE space_id = $1 AND jti = $2 AND revoked_at IS NOT NULL)";
    Ok(on!(db, reader, |pool| sqlx::query_scalar(sql).bind(space).bind(jti).fetch_one(pool).await)?)
}

/// Removes credentials that expired before `before`, at most `max` per call. Returns how many.
pub async fn prune(db: &Db, before: Timestamp, max: u32) -> Result<u64, StoreError> {
    let sql = "DELETE FROM space_credentials WHERE (space_id, jti) IN \
               (SELECT space_id, jti FROM space_credentials WHERE expires_at < $1 LIMIT $2)";
    Ok(on!(db, writer, |pool| {
        sqlx::query(sql).bind(before).bind(i64::from(max)).execute(pool).await?.rows_affected()
    }))
}
