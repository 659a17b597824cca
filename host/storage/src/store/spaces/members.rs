//! The members of a space: accounts, and other spaces whose members are members too.

use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Did;
use belvedere_protocol::spaces::SpaceUri;
use belvedere_protocol::spaces::access::{MemberAccess, Readable};

use super::super::{Db, StoreError, intern, on, only_row};
use super::columns::{self, SpaceId};
use super::credentials::{REVOKE_OF_ACCOUNT, REVOKE_OF_ALL, Revoked};
use super::transaction::with_space;

/// Other spaces whose members one space includes. A check of access may read them all.
pub const MAX_DELEGATIONS: i64 = 100;

/// A member.
#[derive(Clone, Copy, Debug)]
pub enum Member<'a> {
    Account(&'a Did),
    /// All members of another space that this database knows.
    MembersOf(&'a SpaceUri, SpaceId),
}

impl Member<'_> {
    fn text(self) -> String {
        match self {
            Self::Account(did) => did.to_string(),
            Self::MembersOf(uri, _) => uri.to_string(),
        }
    }

    fn target(self) -> Option<SpaceId> {
        match self {
            Self::Account(_) => None,
            Self::MembersOf(_, id) => Some(id),
        }
    }
}

/// A row of the list of members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberRow {
    /// A DID, or the address of a space.
    pub member: String,
    pub is_delegation: bool,
    pub access: MemberAccess,
    pub granted_by: String,
    pub created_at: Timestamp,
}

/// The result of [`put`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Put {
    /// With the credentials that were revoked because the member does not give the right to read everything, here and in
    /// spaces that include the members of this one.
    Stored { revoked: Vec<Revoked> },
    /// It is a member already, and [`IfMember::Keep`] was given.
    IsMember,
    /// There is no such space, or it was deleted.
    NoSpace,
    /// The space includes [`MAX_DELEGATIONS`] others.
    TooManyDelegations,
}

/// The effect of [`put`] on one that is a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfMember {
    Keep,
    Replace,
}

macro_rules! insert {
    ($conflict:literal) => {
        concat!(
            "INSERT INTO space_members (space_id, member, target_id, reads, writes, granted_by, created_at, updated_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $7) ON CONFLICT (space_id, member) ",
            $conflict
        )
    };
}

/// Adds a member, or replaces its rights. `granted_by`: the DID of the administrator.
pub async fn put(
    db: &Db,
    space: SpaceId,
    member: Member<'_>,
    access: MemberAccess,
    granted_by: &Did,
    if_member: IfMember,
    now: Timestamp,
) -> Result<Put, StoreError> {
    if let Member::Account(did) = member {
        // So that the stream reports when the account is deleted.
        intern::did_ids(db, std::iter::once(did)).await?;
    }
    let count =
        "SELECT count(*) FROM space_members WHERE space_id = $1 AND target_id IS NOT NULL AND member <> $2";
    let sql = match if_member {
        IfMember::Keep => insert!("DO NOTHING"),
        IfMember::Replace => insert!(
            "DO UPDATE SET target_id = excluded.target_id, reads = excluded.reads, writes = excluded.writes, \
                 granted_by = excluded.granted_by, updated_at = excluded.updated_at"
        ),
    };
    let text = member.text();
    with_space!(db, space, |tx, locked| {
        if locked.is_none() {
            return Ok(Put::NoSpace);
        }
        if member.target().is_some() {
            let others: i64 = sqlx::query_scalar(count).bind(space).bind(&text).fetch_one(&mut *tx).await?;
            if others >= MAX_DELEGATIONS {
                return Ok(Put::TooManyDelegations);
            }
        }
        let stored = sqlx::query(sql)
            .bind(space)
            .bind(&text)
            .bind(member.target())
            .bind(access.reads.as_str())
            .bind(access.writes)
            .bind(granted_by.as_str())
            .bind(now)
            .execute(&mut *tx)
            .await?;
        if stored.rows_affected() == 0 {
            return Ok(Put::IsMember);
        }
        let revoked: Vec<Revoked> = if access.reads == Readable::Everything {
            Vec::new()
        } else {
            let sql = if member.target().is_some() { REVOKE_OF_ALL } else { REVOKE_OF_ACCOUNT };
            sqlx::query_as(sql).bind(space).bind(now).bind(&text).fetch_all(&mut *tx).await?
        };
        tx.commit().await?;
        Ok(Put::Stored { revoked })
    })
}

/// Removes a member and revokes the credentials that accounts have through it, here and in spaces that include the members of
/// this one. Returns these; `None` when it is no member.
pub async fn remove(
    db: &Db,
    space: SpaceId,
    member: &str,
    now: Timestamp,
) -> Result<Option<Vec<Revoked>>, StoreError> {
    let sql = "DELETE FROM space_members WHERE space_id = $1 AND member = $2 RETURNING target_id";
    with_space!(db, space, |tx, locked| {
        if locked.is_none() {
            return Ok(None);
        }
        let removed = sqlx::query_scalar(sql).bind(space).bind(member).fetch_all(&mut *tx).await?;
        let Some(target): Option<Option<SpaceId>> = only_row(removed) else { return Ok(None) };
        let revoke = if target.is_some() { REVOKE_OF_ALL } else { REVOKE_OF_ACCOUNT };
        let revoked = sqlx::query_as(revoke).bind(space).bind(now).bind(member).fetch_all(&mut *tx).await?;
        tx.commit().await?;
        Ok(Some(revoked))
    })
}

/// A page of the rows of a space in the order of their text: spaces come before accounts. `after`: the last member of the
/// page before.
pub async fn page(db: &Db, space: SpaceId, after: &str, limit: u32) -> Result<Vec<MemberRow>, StoreError> {
    let sql = "SELECT member, target_id, reads, writes, granted_by, created_at FROM space_members \
               WHERE space_id = $1 AND member > $2 ORDER BY member LIMIT $3";
    let rows: Vec<(String, Option<i64>, String, bool, String, Timestamp)> = on!(db, reader, |pool| {
        sqlx::query_as(sql).bind(space).bind(after).bind(i64::from(limit)).fetch_all(pool).await
    })?;
    let row = |(member, target, reads, writes, granted_by, created_at): (_, Option<i64>, String, _, _, _)| {
        let access = columns::access(&reads, writes)?;
        Ok(MemberRow { member, is_delegation: target.is_some(), access, granted_by, created_at })
    };
    rows.into_iter().map(row).collect()
}
