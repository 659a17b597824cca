//! Invites to a space. Accepting one counts a use and adds the member, or does neither.

use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Did;
use belvedere_protocol::spaces::access::MemberAccess;

use super::super::{Db, StoreError, in_transaction, intern, on};
use super::columns::{self, SpaceId};
use super::transaction::with_space;

/// An invite that is about to be made.
#[derive(Clone, Copy, Debug)]
pub struct NewInvite<'a> {
    pub id: &'a str,
    /// SHA-256 of the token.
    pub token_hash: &'a [u8; 32],
    pub access: MemberAccess,
    /// `None`: any number.
    pub max_uses: Option<i64>,
    /// `None`: never.
    pub expires_at: Option<Timestamp>,
    pub created_by: &'a Did,
}

/// An invite in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InviteRow {
    pub id: String,
    pub access: MemberAccess,
    pub max_uses: Option<i64>,
    pub uses: i64,
    pub expires_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
    pub created_by: String,
    pub created_at: Timestamp,
}

/// The result of accepting an invite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    Joined {
        space: SpaceId,
        access: MemberAccess,
    },
    /// No invite has this token, or its space was deleted.
    Unknown,
    Revoked,
    Expired,
    UsedUp,
    /// The account is a member already. The invite was not used.
    IsMember,
}

/// Stores an invite. `false` when the space is deleted.
///
/// # Errors
/// [`StoreError::Conflict`] when an invite has the same id or token.
pub async fn create(
    db: &Db,
    space: SpaceId,
    invite: &NewInvite<'_>,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let sql = "INSERT INTO space_invites (id, space_id, token_hash, reads, writes, max_uses, uses, expires_at, created_by, \
                   created_at) VALUES ($2, $1, $3, $4, $5, $6, 0, $7, $8, $9)";
    with_space!(db, space, |tx, locked| {
        if locked.is_none() {
            return Ok(false);
        }
        sqlx::query(sql)
            .bind(space)
            .bind(invite.id)
            .bind(invite.token_hash.as_slice())
            .bind(invite.access.reads.as_str())
            .bind(invite.access.writes)
            .bind(invite.max_uses)
            .bind(invite.expires_at)
            .bind(invite.created_by.as_str())
            .bind(now)
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(true)
    })
}

/// Accepts the invite with a token for an account, which becomes a member.
pub async fn accept(
    db: &Db,
    token_hash: &[u8; 32],
    did: &Did,
    now: Timestamp,
) -> Result<Accepted, StoreError> {
    // So that the stream reports when the account is deleted.
    intern::did_ids(db, std::iter::once(did)).await?;
    // The row stays locked, so that further uses are counted one after the other.
    let use_it = "UPDATE space_invites SET uses = uses + 1 \
                  WHERE token_hash = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $2) \
                      AND (max_uses IS NULL OR uses < max_uses) \
                      AND EXISTS (SELECT 1 FROM spaces s WHERE s.id = space_id AND s.deleted_at IS NULL) \
                  RETURNING space_id, reads, writes, created_by";
    let join = "INSERT INTO space_members (space_id, member, reads, writes, granted_by, created_at, updated_at) \
                VALUES ($1, $2, $3, $4, $5, $6, $6) ON CONFLICT (space_id, member) DO NOTHING";
    on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        let used: Option<(SpaceId, String, bool, String)> =
            sqlx::query_as(use_it).bind(token_hash.as_slice()).bind(now).fetch_optional(&mut *tx).await?;
        let Some((space, reads, writes, created_by)) = used else {
            drop(tx);
            return refusal(db, token_hash, now).await;
        };
        let joined = sqlx::query(join)
            .bind(space)
            .bind(did.as_str())
            .bind(&reads)
            .bind(writes)
            .bind(&created_by)
            .bind(now)
            .execute(&mut *tx)
            .await?;
        if joined.rows_affected() == 0 {
            return Ok(Accepted::IsMember);
        }
        tx.commit().await?;
        Ok(Accepted::Joined { space, access: columns::access(&reads, writes)? })
    })
}

/// The reason why an invite can't be used.
async fn refusal(db: &Db, token_hash: &[u8; 32], now: Timestamp) -> Result<Accepted, StoreError> {
    let sql = "SELECT i.revoked_at IS NOT NULL, i.expires_at IS NOT NULL AND i.expires_at <= $2 FROM space_invites i \
               JOIN spaces s ON s.id = i.space_id AND s.deleted_at IS NULL WHERE i.token_hash = $1";
    let found: Option<(bool, bool)> = on!(db, reader, |pool| {
        sqlx::query_as(sql).bind(token_hash.as_slice()).bind(now).fetch_optional(pool).await
    })?;
    Ok(match found {
        None => Accepted::Unknown,
        Some((true, _)) => Accepted::Revoked,
        Some((false, true)) => Accepted::Expired,
        Some((false, false)) => Accepted::UsedUp,
    })
}

/// Revokes an invite of a space, also again. `false` when the space has no such invite.
pub async fn revoke(db: &Db, space: SpaceId, id: &str, now: Timestamp) -> Result<bool, StoreError> {
    let sql =
        "UPDATE space_invites SET revoked_at = coalesce(revoked_at, $3) WHERE id = $2 AND space_id = $1";
    Ok(on!(db, writer, |pool| {
        sqlx::query(sql).bind(space).bind(id).bind(now).execute(pool).await?.rows_affected() > 0
    }))
}

/// A page of the invites of a space, newest first. `before`: the last one of the page before.
pub async fn page(
    db: &Db,
    space: SpaceId,
    before: Option<(Timestamp, &str)>,
    limit: u32,
) -> Result<Vec<InviteRow>, StoreError> {
    let sql = "SELECT id, reads, writes, max_uses, uses, expires_at, revoked_at, created_by, created_at \
               FROM space_invites WHERE space_id = $1 AND (created_at, id) < ($2, $3) \
               ORDER BY created_at DESC, id DESC LIMIT $4";
    let (before, id) = before.unwrap_or((Timestamp(i64::MAX), ""));
    let rows: Vec<Raw> = on!(db, reader, |pool| {
        sqlx::query_as(sql).bind(space).bind(before).bind(id).bind(i64::from(limit)).fetch_all(pool).await
    })?;
    rows.into_iter().map(Raw::read).collect()
}

#[derive(sqlx::FromRow)]
struct Raw {
    id: String,
    reads: String,
    writes: bool,
    max_uses: Option<i64>,
    uses: i64,
    expires_at: Option<Timestamp>,
    revoked_at: Option<Timestamp>,
    created_by: String,
    created_at: Timestamp,
}

impl Raw {
    fn read(self) -> Result<InviteRow, StoreError> {
        Ok(InviteRow {
            access: columns::access(&self.reads, self.writes)?,
            id: self.id,
            max_uses: self.max_uses,
            uses: self.uses,
            expires_at: self.expires_at,
            revoked_at: self.revoked_at,
            created_by: self.created_by,
            created_at: self.created_at,
        })
    }
}

/// The attempts that an account may make.
#[derive(Clone, Copy, Debug)]
pub struct AttemptLimit {
    pub attempts: i64,
    pub seconds: i64,
}

/// Counts an attempt of an account to accept an invite. `false` when it has made too many.
pub async fn attempt(db: &Db, did: &Did, limit: AttemptLimit, now: Timestamp) -> Result<bool, StoreError> {
    let sql = "INSERT INTO space_invite_attempts (did, attempts, resets_at) VALUES ($1, 1, $3) \
               ON CONFLICT (did) DO UPDATE SET \
                   attempts = CASE WHEN space_invite_attempts.resets_at <= $2 THEN 1 \
                       ELSE space_invite_attempts.attempts + 1 END, \
                   resets_at = CASE WHEN space_invite_attempts.resets_at <= $2 THEN excluded.resets_at \
                       ELSE space_invite_attempts.resets_at END \
               RETURNING attempts";
    let attempts: i64 = in_transaction!(db, |tx| {
        let query = sqlx::query_scalar(sql).bind(did.as_str()).bind(now);
        query.bind(now.plus_seconds(limit.seconds)).fetch_one(&mut *tx).await?
    });
    Ok(attempts <= limit.attempts)
}

/// Removes counts of attempts that start from zero again, at most `max` per call. Returns how many.
pub async fn prune_attempts(db: &Db, now: Timestamp, max: u32) -> Result<u64, StoreError> {
    let sql = "DELETE FROM space_invite_attempts WHERE did IN \
               (SELECT did FROM space_invite_attempts WHERE resets_at <= $1 LIMIT $2)";
    Ok(on!(db, writer, |pool| {
        sqlx::query(sql).bind(now).bind(i64::from(max)).execute(pool).await?.rows_affected()
    }))
}
