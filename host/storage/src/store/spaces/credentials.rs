//! Credentials that were issued here, so that they can be revoked, and those that another authority has revoked.

use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Did;

use super::super::{Db, StoreError, in_transaction, on};
use super::columns::SpaceId;
use super::transaction::with_space;

/// A credential that was revoked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, sqlx::FromRow)]
pub struct Revoked {
    pub space_id: SpaceId,
    pub jti: String,
}

/// The facts that decide whether a credential opens a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    pub is_hosted: bool,
    pub is_deleted: bool,
    /// Whether the credential was revoked.
    pub is_revoked: bool,
}

/// The depth is that of [`super::delegation`].
macro_rules! revoke_held {
    ($holders:literal) => {
        concat!(
            "WITH RECURSIVE open (id, depth) AS (SELECT CAST($1 AS BIGINT), 0 UNION SELECT m.space_id, open.depth + 1 \
                 FROM open JOIN space_members m ON m.target_id = open.id WHERE open.depth < 10) \
             UPDATE space_credentials SET revoked_at = $2 WHERE space_id IN (SELECT id FROM open) AND ",
            $holders,
            " AND revoked_at IS NULL AND expires_at > $2 AND NOT EXISTS (SELECT 1 FROM space_members m \
                 WHERE m.space_id = space_credentials.space_id AND m.member = space_credentials.did \
                     AND m.reads = 'everything') RETURNING space_id, jti"
        )
    };
}

/// Revokes the credentials that accounts may have through the members of a space (`$1`): in this space, and in those that
/// include its members. Credentials of accounts that may read everything as members of the credential's space stay. An
/// account that has its credential for another reason gets a new one. `$2`: now. `$3`: the account.
pub(super) const REVOKE_OF_ACCOUNT: &str = revoke_held!("did = $3");
/// The same for all accounts. `$3`: any text that is no DID.
pub(super) const REVOKE_OF_ALL: &str = revoke_held!("did <> $3");

/// Revokes all credentials of a space (`$1`) whose read policy becomes `$3`, or whose list of apps becomes `$4`, unless they are
/// this already; NULL for one that stays. `$2`: now. Run before the change, in its transaction.
pub(super) const REVOKE_OF_SETTINGS: &str = "UPDATE space_credentials SET revoked_at = $2 \
     WHERE space_id = $1 AND revoked_at IS NULL AND expires_at > $2 AND EXISTS (SELECT 1 FROM spaces s WHERE s.id = $1 \
         AND (s.read_policy <> coalesce($3, s.read_policy) OR s.app_access <> coalesce($4, s.app_access))) \
     RETURNING space_id, jti";

/// Stores a credential for an account. `false` when the space is deleted.
///
/// The caller must check the account's rights after that, and before the credential leaves the server. Then an account that
/// loses its rights meanwhile is refused, or its credential is found and revoked. Only if it loses them in another space, whose
/// members this one includes, at this very moment, it may keep the credential until it expires.
///
/// # Errors
/// [`StoreError::Conflict`] when its id was used before.
pub async fn issue(
    db: &Db,
    space: SpaceId,
    jti: &str,
    did: &Did,
    expires_at: Timestamp,
) -> Result<bool, StoreError> {
    let sql = "INSERT INTO space_credentials (space_id, jti, did, expires_at) VALUES ($1, $2, $3, $4)";
    // The removal of a member holds the space too: it does not overlook a credential that is stored at the same time.
    with_space!(db, space, |tx, locked| {
        if locked.is_none() {
            return Ok(false);
        }
        let query = sqlx::query(sql).bind(space).bind(jti).bind(did.as_str()).bind(expires_at);
        query.execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(true)
    })
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
