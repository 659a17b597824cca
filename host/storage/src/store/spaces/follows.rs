//! Spaces of other hosts whose changes this instance follows (docs/adr/0115-spaces-copies-of-other-hosts.md): the accounts for whom
//! it does so, the space rev of the last notice, and the position in the list of repos.

use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::{Did, Tid};

use super::super::{Db, StoreError, in_transaction, intern, on, only_row};
use super::attempts::{Attempts, attempts};
use super::columns::{self, SpaceId};
use super::transaction::with_space;
use super::writers::{Listed, upsert_listed};

/// A followed space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowRow {
    pub space: SpaceId,
    /// The position up to which the list of repos was read: the cursor of the last page, as its host sent it.
    pub cursor: Option<String>,
    /// The time at which the list was last read from its start.
    pub listed_at: Timestamp,
    /// Whether the list was read to its end, and each repo in it was read or has failed, at some time.
    pub is_complete: bool,
    /// The time until which the host of the space sends notices.
    pub registered_until: Timestamp,
    pub check_at: Timestamp,
    pub failures: i64,
}

/// The relation of a notice to those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observed {
    /// No notice is missing.
    Next,
    /// Notices are missing: the list of repos has what they said.
    Gap,
    /// It is not newer than the last one.
    Old,
    /// The space is not followed.
    NotFollowed,
}

const CHECKS: Attempts = attempts!("space_follows", "check_at", "''");

/// Whether the list takes the repos of further authors. A page may exceed 10,000.
const HAS_ROOM: &str = "SELECT count(*) < 10000 FROM space_writers WHERE space_id = $1";
/// The same for one author.
const HAS_ROOM_FOR: &str = "SELECT EXISTS (SELECT 1 FROM space_writers WHERE space_id = $1 AND author = $2) \
                            OR (SELECT count(*) FROM space_writers WHERE space_id = $1) < 10000";

/// Follows a space of another host for an account. Nothing changes when it does already. `false` when the space does not exist, was
/// deleted, or is hosted here.
pub async fn begin(db: &Db, space: SpaceId, did: &Did) -> Result<bool, StoreError> {
    let follow = "INSERT INTO space_follows (space_id, listed_at, is_complete, registered_until, check_at, failures) \
                  VALUES ($1, 0, $2, 0, 0, 0) ON CONFLICT (space_id) DO NOTHING";
    let follower = "INSERT INTO space_followers (space_id, did, refused_at) VALUES ($1, $2, 0) \
                    ON CONFLICT (space_id, did) DO NOTHING";
    // So that the stream reports when the account is deleted.
    intern::did_ids(db, std::iter::once(did)).await?;
    with_space!(db, space, |tx, locked| {
        if locked.is_none_or(|space| space.is_hosted) {
            return Ok(false);
        }
        sqlx::query(follow).bind(space).bind(false).execute(&mut *tx).await?;
        sqlx::query(follower).bind(space).bind(did.as_str()).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(true)
    })
}

/// Ends following a space for an account. Without any account left it is not followed, and its copies are removed by
/// [`super::copies::purge`]. `false` when it was not followed for this one.
pub async fn end(db: &Db, space: SpaceId, did: &Did) -> Result<bool, StoreError> {
    let leave = "DELETE FROM space_followers WHERE space_id = $1 AND did = $2";
    let is_followed = "SELECT count(*) FROM space_followers WHERE space_id = $1";
    with_space!(db, space, |tx, _locked| {
        let query = sqlx::query(leave).bind(space).bind(did.as_str());
        let left = query.execute(&mut *tx).await?.rows_affected() > 0;
        let others: i64 = sqlx::query_scalar(is_followed).bind(space).fetch_one(&mut *tx).await?;
        if others == 0 {
            for sql in OF_FOLLOWED {
                sqlx::query(sql).bind(space).execute(&mut *tx).await?;
            }
        }
        tx.commit().await?;
        Ok(left)
    })
}

/// Deletes the rows that exist only while a space of another host is followed.
pub(super) const OF_FOLLOWED: [&str; 3] = [
    "DELETE FROM space_followers WHERE space_id = $1",
    "DELETE FROM space_follows WHERE space_id = $1",
    "DELETE FROM space_writers WHERE space_id = $1 \
         AND space_id IN (SELECT id FROM spaces WHERE id = $1 AND NOT is_hosted)",
];

/// Ends following a space for all accounts.
pub async fn end_all(db: &Db, space: SpaceId) -> Result<(), StoreError> {
    with_space!(db, space, |tx, _locked| {
        for sql in OF_FOLLOWED {
            sqlx::query(sql).bind(space).execute(&mut *tx).await?;
        }
        tx.commit().await?;
        Ok(())
    })
}

/// The accounts for whom a space is followed, at most `max`: those first that its host has not refused lately.
pub async fn followers(db: &Db, space: SpaceId, max: u32) -> Result<Vec<Did>, StoreError> {
    let sql = "SELECT did FROM space_followers WHERE space_id = $1 ORDER BY refused_at, did LIMIT $2";
    let dids: Vec<String> = on!(db, reader, |pool| {
        sqlx::query_scalar(sql).bind(space).bind(i64::from(max)).fetch_all(pool).await
    })?;
    dids.iter().map(|did| columns::did("space_followers.did", did)).collect()
}

/// Stores that the host of a space has refused a credential to a follower.
pub async fn refused(db: &Db, space: SpaceId, did: &Did, now: Timestamp) -> Result<(), StoreError> {
    let sql = "UPDATE space_followers SET refused_at = $3 WHERE space_id = $1 AND did = $2";
    on!(db, writer, |pool| {
        sqlx::query(sql).bind(space).bind(did.as_str()).bind(now).execute(pool).await.map(drop)
    })?;
    Ok(())
}

/// The number of spaces that are followed for an account.
pub async fn count_of(db: &Db, did: &Did) -> Result<u64, StoreError> {
    let sql = "SELECT count(*) FROM space_followers WHERE did = $1";
    let count: i64 =
        on!(db, reader, |pool| sqlx::query_scalar(sql).bind(did.as_str()).fetch_one(pool).await)?;
    Ok(count.max(0) as u64)
}

macro_rules! select {
    ($tail:literal) => {
        concat!(
            "SELECT f.space_id, f.cursor, f.listed_at, f.is_complete, f.registered_until, f.check_at, f.failures \
             FROM space_follows f ",
            $tail
        )
    };
}

/// A space, if it is followed for an account.
pub async fn of(db: &Db, space: SpaceId, did: &Did) -> Result<Option<FollowRow>, StoreError> {
    let sql =
        select!("JOIN space_followers m ON m.space_id = f.space_id WHERE f.space_id = $1 AND m.did = $2");
    let row: Option<Raw> = on!(db, reader, |pool| {
        sqlx::query_as(sql).bind(space).bind(did.as_str()).fetch_optional(pool).await
    })?;
    Ok(row.map(read))
}

/// Stores that a notice has arrived, and the state of its repo if it is newer than the last one. `previous`: the space rev
/// before it; `None` for the first write in the space.
pub async fn observe(
    db: &Db,
    space: SpaceId,
    listed: &Listed,
    previous: Option<Tid>,
    now: Timestamp,
) -> Result<Observed, StoreError> {
    // The row stays locked after the first statement.
    let hold = "UPDATE space_follows SET seen_rev = seen_rev WHERE space_id = $1 RETURNING seen_rev";
    // A space with a gap is due until its list was read, also when this process ends before.
    let advance = "UPDATE space_follows SET seen_rev = $2, check_at = CASE WHEN $3 THEN 0 ELSE check_at END \
                   WHERE space_id = $1";
    intern::did_ids(db, std::iter::once(&listed.author)).await?;
    on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        let rows: Vec<Option<String>> = sqlx::query_scalar(hold).bind(space).fetch_all(&mut *tx).await?;
        let Some(seen) = only_row(rows) else { return Ok(Observed::NotFollowed) };
        let seen = seen.map(|seen| columns::tid("space_follows.seen_rev", &seen)).transpose()?;
        let rev = listed.space_rev;
        if seen.is_some_and(|seen| seen >= rev) {
            return Ok(Observed::Old);
        }
        let is_gap = previous > seen;
        let has_room = sqlx::query_scalar(HAS_ROOM_FOR).bind(space).bind(listed.author.as_str());
        let has_room: bool = has_room.fetch_one(&mut *tx).await?;
        upsert_listed!(tx, space, listed, has_room, now);
        sqlx::query(advance).bind(space).bind(rev.to_string()).bind(is_gap).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(if is_gap { Observed::Gap } else { Observed::Next })
    })
}

/// Stores a page of the list of repos, and the position after it. Nothing changes, and the result is `false`, when another host
/// has moved the position since it was `from`, or the space is not followed.
pub async fn store_page(
    db: &Db,
    space: SpaceId,
    page: &[Listed],
    (from, cursor): (Option<&str>, Option<&str>),
    now: Timestamp,
) -> Result<bool, StoreError> {
    let advance = "UPDATE space_follows SET cursor = $3 \
                   WHERE space_id = $1 AND (cursor = $2 OR cursor IS NULL AND $2 IS NULL)";
    let has_room: bool =
        on!(db, reader, |pool| sqlx::query_scalar(HAS_ROOM).bind(space).fetch_one(pool).await)?;
    // Otherwise only the entries of authors are stored that were interned before.
    if has_room {
        intern::did_ids(db, page.iter().map(|listed| &listed.author)).await?;
    }
    Ok(in_transaction!(db, |tx| {
        let moved = sqlx::query(advance).bind(space).bind(from).bind(cursor).execute(&mut *tx).await?;
        let moved = moved.rows_affected() > 0;
        if moved {
            for listed in page {
                upsert_listed!(tx, space, listed, has_room, now);
            }
        }
        moved
    }))
}

/// Reads the list from its start again.
pub async fn restart(db: &Db, space: SpaceId, now: Timestamp) -> Result<(), StoreError> {
    let sql = "UPDATE space_follows SET cursor = NULL, listed_at = $2 WHERE space_id = $1";
    on!(db, writer, |pool| sqlx::query(sql).bind(space).bind(now).execute(pool).await.map(drop))?;
    Ok(())
}

/// Stores that the list was read to its end, which is at `cursor`. The space is complete when there was a copy of each repo once, or an
/// attempt has failed, and the list has room for more: otherwise some may be missing. A copy that is not up to date counts: in
/// a busy space there always is one. Returns whether no repo is left that was never tried; `false` when the list was read further
/// meanwhile.
pub async fn complete(db: &Db, space: SpaceId, cursor: Option<&str>) -> Result<bool, StoreError> {
    macro_rules! is_tried {
        () => {
            "NOT EXISTS (SELECT 1 FROM space_writers w WHERE w.space_id = $1 AND w.pull_at IS NOT NULL AND w.failures = 0 \
                 AND NOT EXISTS (SELECT 1 FROM space_repos r WHERE r.space_id = w.space_id AND r.author = w.author))"
        };
    }
    let sql = concat!(
        "UPDATE space_follows SET is_complete = (is_complete OR ",
        is_tried!(),
        ") AND (SELECT count(*) < 10000 FROM space_writers WHERE space_id = $1) \
         WHERE space_id = $1 AND (cursor = $2 OR cursor IS NULL AND $2 IS NULL) RETURNING is_complete OR ",
        is_tried!()
    );
    let rows: Vec<bool> =
        on!(db, writer, |pool| sqlx::query_scalar(sql).bind(space).bind(cursor).fetch_all(pool).await)?;
    Ok(only_row(rows).unwrap_or_default())
}

/// Stores the time until which the host of the space sends notices.
pub async fn registered(db: &Db, space: SpaceId, until: Timestamp) -> Result<(), StoreError> {
    let sql = "UPDATE space_follows SET registered_until = $2 WHERE space_id = $1";
    on!(db, writer, |pool| sqlx::query(sql).bind(space).bind(until).execute(pool).await.map(drop))?;
    Ok(())
}

/// Followed spaces whose next check is due, the longest due first.
pub async fn due(db: &Db, now: Timestamp, max: u32) -> Result<Vec<FollowRow>, StoreError> {
    let sql = select!("WHERE f.check_at <= $1 ORDER BY f.check_at, f.space_id LIMIT $2");
    let rows: Vec<Raw> =
        on!(db, reader, |pool| sqlx::query_as(sql).bind(now).bind(i64::from(max)).fetch_all(pool).await)?;
    Ok(rows.into_iter().map(read).collect())
}

/// Begins a check. `false` when another host has begun one.
pub async fn begin_check(db: &Db, row: &FollowRow, until: Timestamp) -> Result<bool, StoreError> {
    CHECKS.begin(db, (row.space, ""), row.check_at, until).await
}

/// Ends the check that [`begin_check`] has begun with `until`, unless the space has become due meanwhile.
pub async fn end_check(
    db: &Db,
    space: SpaceId,
    until: Timestamp,
    has_failed: bool,
    next: Timestamp,
) -> Result<(), StoreError> {
    CHECKS.end(db, (space, ""), until, has_failed, Some(next)).await
}

type Raw = (SpaceId, Option<String>, Timestamp, bool, Timestamp, Timestamp, i64);

fn read((space, cursor, listed_at, is_complete, registered_until, check_at, failures): Raw) -> FollowRow {
    FollowRow { space, cursor, listed_at, is_complete, registered_until, check_at, failures }
}
