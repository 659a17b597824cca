//! The list of repos of a space: those that its host has seen a tracked write of, wherever they are.

use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::{Did, Tid};

use super::super::{Db, StoreError, intern, on};
use super::columns::{self, SpaceId};
use super::revs::next_rev;
use super::transaction::with_space;

/// A repo in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriterRow {
    pub author: Did,
    /// The rev of the repo.
    pub rev: Tid,
    /// The digest of its records.
    pub hash: [u8; 32],
    /// The space rev of its last tracked write.
    pub space_rev: Tid,
}

/// The place of a tracked write in the order of the space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tracked {
    pub space_rev: Tid,
    /// The space rev before; `None` for the first write.
    pub previous: Option<Tid>,
}

/// The result of [`track`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Track {
    Stored(Tracked),
    /// The rev is not newer than the stored one, so nothing has changed.
    Stale,
    /// There is no such space, it was deleted, or another host has it.
    NoSpace,
}

/// Stores a tracked write in a transaction that holds the space: the entry of the list, the space rev, and the notices.
macro_rules! store_tracked {
    ($tx:ident, $space:expr, $author:expr, $rev:expr, $hash:expr, $tracked:expr, $now:expr) => {{
        let (rev, hash, tracked) = ($rev.to_string(), &$hash[..], $tracked);
        sqlx::query($crate::store::spaces::writers::UPSERT)
            .bind($space)
            .bind($author.as_str())
            .bind(&rev)
            .bind(hash)
            .bind(tracked.space_rev.to_string())
            .bind($now)
            .execute(&mut *$tx)
            .await?;
        let advance = "UPDATE spaces SET rev = $2 WHERE id = $1";
        sqlx::query(advance).bind($space).bind(tracked.space_rev.to_string()).execute(&mut *$tx).await?;
        sqlx::query($crate::store::spaces::deliveries::ENQUEUE)
            .bind($space)
            .bind($author.as_str())
            .bind(&rev)
            .bind(hash)
            .bind(tracked.space_rev.to_string())
            .bind(tracked.previous.map(|previous| previous.to_string()))
            .bind($now)
            .execute(&mut *$tx)
            .await?;
    }};
}
pub(super) use store_tracked;

pub(super) const UPSERT: &str = "INSERT INTO space_writers (space_id, author, rev, hash, space_rev, updated_at) \
     VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (space_id, author) DO UPDATE SET rev = excluded.rev, \
         hash = excluded.hash, space_rev = excluded.space_rev, updated_at = excluded.updated_at";

/// Selects the listed rev of a repo.
pub(super) const SELECT_REV: &str = "SELECT rev FROM space_writers WHERE space_id = $1 AND author = $2";

/// Stores the state of a repo of another host, as its notice says, and queues notices for the registered services. The caller
/// has checked that the author is a writer, and that the rev is not of the future.
pub async fn track(
    db: &Db,
    space: SpaceId,
    author: &Did,
    rev: Tid,
    hash: [u8; 32],
    now: Timestamp,
) -> Result<Track, StoreError> {
    // So that the stream reports when the account is deleted.
    intern::did_ids(db, std::iter::once(author)).await?;
    with_space!(db, space, |tx, locked| {
        let Some(locked) = locked.filter(|locked| locked.is_hosted) else { return Ok(Track::NoSpace) };
        let listed: Option<String> =
            sqlx::query_scalar(SELECT_REV).bind(space).bind(author.as_str()).fetch_optional(&mut *tx).await?;
        if listed.is_some_and(|listed| listed >= rev.to_string()) {
            return Ok(Track::Stale);
        }
        let tracked = Tracked { space_rev: next_rev(locked.rev, now)?, previous: locked.rev };
        store_tracked!(tx, space, author, rev, hash, tracked, now);
        tx.commit().await?;
        Ok(Track::Stored(tracked))
    })
}

macro_rules! select {
    ($tail:literal) => {
        concat!(
            "SELECT w.author, w.rev, w.hash, w.space_rev FROM space_writers w WHERE w.space_id = $1 ",
            $tail
        )
    };
}

type Row = (String, String, Vec<u8>, String);

fn read((author, rev, hash, space_rev): Row) -> Result<WriterRow, StoreError> {
    Ok(WriterRow {
        author: columns::did("space_writers.author", &author)?,
        rev: columns::tid("space_writers.rev", &rev)?,
        hash: columns::digest("space_writers.hash", hash)?,
        space_rev: columns::tid("space_writers.space_rev", &space_rev)?,
    })
}

/// A page of the list in the order of changes. `after`: any text, compared with the space revs of rows as text. A repo that
/// changes meanwhile appears again later. Repos of accounts that are not active are left out.
pub async fn page(db: &Db, space: SpaceId, after: &str, limit: u32) -> Result<Vec<WriterRow>, StoreError> {
    let sql = select!(
        "AND w.space_rev > $2 AND NOT EXISTS (SELECT 1 FROM dids d WHERE d.did = w.author AND d.status <> 0) \
         ORDER BY w.space_rev LIMIT $3"
    );
    // PostgreSQL stores no U+0000. No space rev has one, so the comparison is the same without the rest.
    let after = after.split('\0').next().unwrap_or_default();
    let rows: Vec<Row> = on!(db, reader, |pool| {
        sqlx::query_as(sql).bind(space).bind(after).bind(i64::from(limit)).fetch_all(pool).await
    })?;
    rows.into_iter().map(read).collect()
}

/// A page of the authors in the list whose repos are not here, sorted by DID. `after`: the last one of the page before.
pub async fn elsewhere(db: &Db, space: SpaceId, after: &str, limit: u32) -> Result<Vec<Did>, StoreError> {
    let sql = "SELECT w.author FROM space_writers w WHERE w.space_id = $1 AND w.author > $2 \
                   AND NOT EXISTS (SELECT 1 FROM space_repos r WHERE r.space_id = w.space_id AND r.author = w.author) \
               ORDER BY w.author LIMIT $3";
    let dids: Vec<String> = on!(db, reader, |pool| {
        sqlx::query_scalar(sql).bind(space).bind(after).bind(i64::from(limit)).fetch_all(pool).await
    })?;
    dids.iter().map(|did| columns::did("space_writers.author", did)).collect()
}

/// The entry of an author.
pub async fn get(db: &Db, space: SpaceId, author: &Did) -> Result<Option<WriterRow>, StoreError> {
    let sql = select!("AND w.author = $2");
    let row: Option<Row> = on!(db, reader, |pool| {
        sqlx::query_as(sql).bind(space).bind(author.as_str()).fetch_optional(pool).await
    })?;
    row.map(read).transpose()
}
