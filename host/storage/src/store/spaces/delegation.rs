//! The rights of an account in a space through all its memberships, direct and through other spaces.
//!
//! A space includes the members of others, whose members may be those of further ones. The rights through such a chain are those
//! that every member in it has: a space that may only read passes on no right to write.

use std::collections::BTreeMap;

use belvedere_protocol::atproto::Did;
use belvedere_protocol::spaces::access::MemberAccess;

use super::super::types::{json_rows, to_json_text};
use super::super::{Db, StoreError, on};
use super::columns::{self, SpaceId};
use super::members::MAX_DELEGATIONS;

/// Steps from a space to one whose members it includes. Further ones are ignored.
const MAX_DEPTH: u32 = 10;
/// Spaces that are looked at for one space: itself, and as many as it may include directly. Further ones are ignored: of those
/// with more steps first, then of those that were created later.
const MAX_SPACES: usize = 1 + MAX_DELEGATIONS as usize;

macro_rules! ids {
    ($backend:ident) => {
        concat!("(SELECT CAST(value ->> 0 AS BIGINT) FROM ", json_rows!($backend, "$1"), ")")
    };
}

macro_rules! memberships {
    ($backend:ident) => {
        concat!(
            "SELECT space_id, target_id, reads, writes FROM space_members WHERE member = $2 AND target_id IS NULL \
                 AND space_id IN ",
            ids!($backend),
            " UNION ALL SELECT m.space_id, m.target_id, m.reads, m.writes FROM space_members m \
                 JOIN spaces s ON s.id = m.target_id AND s.deleted_at IS NULL \
                 WHERE m.target_id IS NOT NULL AND m.space_id IN ",
            ids!($backend),
            " ORDER BY target_id, space_id"
        )
    };
}

macro_rules! members_of {
    ($backend:ident) => {
        concat!(
            "SELECT space_id, member, reads, writes FROM space_members WHERE target_id IS NULL AND space_id IN ",
            ids!($backend),
            " AND member IN (SELECT DISTINCT member FROM space_members WHERE target_id IS NULL AND space_id IN ",
            ids!($backend),
            " AND member > $2 ORDER BY member LIMIT $3) ORDER BY member"
        )
    };
}

/// The rights that pass through both of two memberships.
fn through(outer: MemberAccess, inner: MemberAccess) -> MemberAccess {
    MemberAccess { reads: outer.reads.min(inner.reads), writes: outer.writes && inner.writes }
}

/// The rights of an account; `None` when it is no member.
pub async fn access(db: &Db, space: SpaceId, did: &Did) -> Result<Option<MemberAccess>, StoreError> {
    Ok(walk(db, space, did.as_str()).await?.found)
}

/// A page of all accounts that are members, with their rights, sorted by DID. `after`: the last DID of the page before.
pub async fn page(
    db: &Db,
    space: SpaceId,
    after: &str,
    limit: u32,
) -> Result<Vec<(Did, MemberAccess)>, StoreError> {
    let reached = walk(db, space, "").await?.reached;
    let sql = match db {
        Db::Sqlite(_) => members_of!(sqlite),
        Db::Postgres(_) => members_of!(postgres),
    };
    let ids = ids(reached.keys());
    let rows: Vec<(SpaceId, String, String, bool)> = on!(db, reader, |pool| {
        sqlx::query_as(sql).bind(&ids).bind(after).bind(i64::from(limit)).fetch_all(pool).await
    })?;
    let mut members: Vec<(Did, MemberAccess)> = Vec::new();
    for (space, member, reads, writes) in rows {
        let Some(limits) = reached.get(&space) else { continue };
        let rights = through(*limits, columns::access(&reads, writes)?);
        match members.last_mut() {
            Some((did, known)) if did.as_str() == member => *known = known.union(rights),
            _ => members.push((columns::did("space_members.member", &member)?, rights)),
        }
    }
    Ok(members)
}

/// The spaces whose members a space includes, itself first, and one member.
struct Walk {
    /// For each space the rights that pass through it.
    reached: BTreeMap<SpaceId, MemberAccess>,
    found: Option<MemberAccess>,
}

/// A membership: of the account, or of the space in `target_id`.
#[derive(sqlx::FromRow)]
struct Row {
    space_id: SpaceId,
    target_id: Option<SpaceId>,
    reads: String,
    writes: bool,
}

/// Takes one statement for each step: one for a space that includes no others, or gives the member all rights itself.
async fn walk(db: &Db, space: SpaceId, member: &str) -> Result<Walk, StoreError> {
    let mut walk = Walk { reached: BTreeMap::from([(space, MemberAccess::CREATOR)]), found: None };
    let mut frontier = vec![space];
    for depth in 0..=MAX_DEPTH {
        let rows = memberships(db, &frontier, member).await?;
        frontier.clear();
        for row in rows {
            let Some(limits) = walk.reached.get(&row.space_id) else { continue };
            let rights = through(*limits, columns::access(&row.reads, row.writes)?);
            let Some(target) = row.target_id else {
                walk.found = Some(walk.found.map_or(rights, |found| found.union(rights)));
                continue;
            };
            // No further step reads the members of this one.
            if depth == MAX_DEPTH {
                continue;
            }
            let known = walk.reached.get(&target).copied();
            let wider = known.map_or(rights, |known| known.union(rights));
            // A space that was reached before is looked at again only if more rights pass through it now.
            if known != Some(wider) && (known.is_some() || walk.reached.len() < MAX_SPACES) {
                walk.reached.insert(target, wider);
                frontier.push(target);
            }
        }
        // Further steps only narrow rights: they add nothing if the account has those that pass through here.
        let adds = |rights: &MemberAccess| walk.found.is_none_or(|found| found.union(*rights) != found);
        if !frontier.iter().filter_map(|space| walk.reached.get(space)).any(adds) {
            break;
        }
    }
    Ok(walk)
}

async fn memberships(db: &Db, spaces: &[SpaceId], member: &str) -> Result<Vec<Row>, StoreError> {
    let sql = match db {
        Db::Sqlite(_) => memberships!(sqlite),
        Db::Postgres(_) => memberships!(postgres),
    };
    let ids = ids(spaces);
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).bind(&ids).bind(member).fetch_all(pool).await)?)
}

/// The JSON list of lists for [`json_rows`].
fn ids<'a>(spaces: impl IntoIterator<Item = &'a SpaceId>) -> String {
    to_json_text(&spaces.into_iter().map(|space| [space.0]).collect::<Vec<_>>())
}
