//! Spaces of other hosts whose changes this instance follows: the space rev of the last notice, and the position in the list
//! of repos.

use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Tid;

use super::super::{Db, StoreError, in_transaction, on, only_row};
use super::columns::{self, SpaceId};
use super::transaction::with_space;

/// A followed space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowRow {
    pub space: SpaceId,
    /// The highest space rev in a notice.
    pub seen_rev: Option<Tid>,
    /// The position up to which the list of repos was read: the cursor of the last page, as its host sent it.
    pub cursor: Option<String>,
    pub checked_at: Timestamp,
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

/// Begins to follow a space. Nothing changes when it is followed already. `false` when it does not exist, or was deleted.
pub async fn begin(db: &Db, space: SpaceId) -> Result<bool, StoreError> {
    let sql =
        "INSERT INTO space_follows (space_id, checked_at) VALUES ($1, 0) ON CONFLICT (space_id) DO NOTHING";
    with_space!(db, space, |tx, locked| {
        if locked.is_none() {
            return Ok(false);
        }
        sqlx::query(sql).bind(space).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(true)
    })
}

/// Ends following a space. `false` when it was not followed.
pub async fn end(db: &Db, space: SpaceId) -> Result<bool, StoreError> {
    let sql = "DELETE FROM space_follows WHERE space_id = $1";
    Ok(on!(db, writer, |pool| sqlx::query(sql).bind(space).execute(pool).await?.rows_affected() > 0))
}

pub async fn get(db: &Db, space: SpaceId) -> Result<Option<FollowRow>, StoreError> {
    let sql = "SELECT space_id, seen_rev, cursor, checked_at FROM space_follows WHERE space_id = $1";
    let row: Option<Raw> =
        on!(db, reader, |pool| sqlx::query_as(sql).bind(space).fetch_optional(pool).await)?;
    row.map(read).transpose()
}

/// Stores that a notice has arrived. `previous`: the space rev before it; `None` for the first write in the space.
pub async fn observe(
    db: &Db,
    space: SpaceId,
    rev: Tid,
    previous: Option<Tid>,
) -> Result<Observed, StoreError> {
    // The row stays locked after the first statement.
    let hold = "UPDATE space_follows SET seen_rev = seen_rev WHERE space_id = $1 RETURNING seen_rev";
    // A space with a gap is due until its list was read, also when this process ends before.
    let advance = "UPDATE space_follows SET seen_rev = $2, checked_at = CASE WHEN $3 THEN 0 ELSE checked_at END \
                   WHERE space_id = $1";
    on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        let rows: Vec<Option<String>> = sqlx::query_scalar(hold).bind(space).fetch_all(&mut *tx).await?;
        let Some(seen) = only_row(rows) else { return Ok(Observed::NotFollowed) };
        let seen = seen.map(|seen| columns::tid("space_follows.seen_rev", &seen)).transpose()?;
        if seen.is_some_and(|seen| seen >= rev) {
            return Ok(Observed::Old);
        }
        let is_gap = previous > seen;
        sqlx::query(advance).bind(space).bind(rev.to_string()).bind(is_gap).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(if is_gap { Observed::Gap } else { Observed::Next })
    })
}

/// Stores the position in the list of repos. `is_end`: the list was read to its end at `now`. Nothing changes when another host
/// has moved the position since it was `from`.
pub async fn advance(
    db: &Db,
    space: SpaceId,
    from: Option<&str>,
    cursor: Option<&str>,
    is_end: bool,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let sql = "UPDATE space_follows SET cursor = $3, checked_at = CASE WHEN $4 THEN $5 ELSE checked_at END \
               WHERE space_id = $1 AND (cursor = $2 OR cursor IS NULL AND $2 IS NULL)";
    let moved = in_transaction!(db, |tx| {
        let query = sqlx::query(sql).bind(space).bind(from).bind(cursor).bind(is_end).bind(now);
        query.execute(&mut *tx).await?.rows_affected()
    });
    Ok(moved > 0)
}

/// Followed spaces that were not checked since `before`, the longest unchecked first.
pub async fn due(db: &Db, before: Timestamp, max: u32) -> Result<Vec<FollowRow>, StoreError> {
    let sql = "SELECT space_id, seen_rev, cursor, checked_at FROM space_follows WHERE checked_at < $1 \
               ORDER BY checked_at, space_id LIMIT $2";
    let rows: Vec<Raw> = on!(db, reader, |pool| {
        sqlx::query_as(sql).bind(before).bind(i64::from(max)).fetch_all(pool).await
    })?;
    rows.into_iter().map(read).collect()
}

type Raw = (SpaceId, Option<String>, Option<String>, Timestamp);

fn read((space, seen_rev, cursor, checked_at): Raw) -> Result<FollowRow, StoreError> {
    let seen_rev = seen_rev.map(|rev| columns::tid("space_follows.seen_rev", &rev)).transpose()?;
    Ok(FollowRow { space, seen_rev, cursor, checked_at })
}
