//! The list of repos of a space: those that its host has seen a tracked write of, wherever they are.

use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::{Did, Tid};

use super::super::{Db, StoreError, intern, on};
use super::columns::{self, SpaceId};
use super::repos::RepoHost;
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
    pub host: RepoHost,
}

/// The state of a repo of another host, as a notice or a list of repos says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub author: Did,
    /// The rev of the repo.
    pub rev: Tid,
    /// The digest of its records.
    pub hash: [u8; 32],
    /// The host that has named itself.
    pub host: Option<Did>,
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

/// Stores the entry of a list in a transaction; without room only that of an author who has one.
macro_rules! upsert_listed {
    ($tx:ident, $space:expr, $listed:expr, $has_room:expr, $now:expr) => {{
        let listed: &$crate::store::spaces::writers::Listed = $listed;
        sqlx::query($crate::store::spaces::writers::UPSERT)
            .bind($space)
            .bind(listed.author.as_str())
            .bind(listed.rev.to_string())
            .bind(&listed.hash[..])
            .bind(listed.space_rev.to_string())
            .bind($now)
            .bind(listed.host.as_ref().map(Did::as_str))
            .bind($has_room)
            .execute(&mut *$tx)
            .await?;
    }};
}
pub(super) use upsert_listed;

/// Stores a tracked write in a transaction that holds the space: the entry of the list, the space rev, and the notices.
/// `$previous`: the space rev before.
macro_rules! store_tracked {
    ($tx:ident, $space:expr, $listed:expr, $previous:expr, $now:expr) => {{
        let (listed, previous): (&$crate::store::spaces::writers::Listed, Option<Tid>) = ($listed, $previous);
        $crate::store::spaces::writers::upsert_listed!($tx, $space, listed, true, $now);
        let advance = "UPDATE spaces SET rev = $2 WHERE id = $1";
        sqlx::query(advance).bind($space).bind(listed.space_rev.to_string()).execute(&mut *$tx).await?;
        sqlx::query($crate::store::spaces::deliveries::ENQUEUE)
            .bind($space)
            .bind(listed.author.as_str())
            .bind(listed.rev.to_string())
            .bind(&listed.hash[..])
            .bind(listed.space_rev.to_string())
            .bind(previous.map(|previous| previous.to_string()))
            .bind($now)
            .execute(&mut *$tx)
            .await?;
    }};
}
pub(super) use store_tracked;

/// Stores the entry of an author: `$1` space, `$2` author, `$3` rev, `$4` hash, `$5` space rev, `$6` now, `$7` host, `$8` whether
/// a new entry is stored. A repo with another state than before is due to be copied, unless it is here.
pub(super) const UPSERT: &str = "INSERT INTO space_writers (space_id, author, rev, hash, space_rev, updated_at, host, pull_at, failures) \
     SELECT CAST($1 AS BIGINT), CAST($2 AS TEXT), CAST($3 AS TEXT), $4, CAST($5 AS TEXT), CAST($6 AS BIGINT), CAST($7 AS TEXT), \
         CASE WHEN EXISTS (SELECT 1 FROM space_repos r \
                 WHERE r.space_id = $1 AND r.author = $2 AND r.copied_bytes IS NULL) \
             THEN NULL ELSE CAST($6 AS BIGINT) END, 0 \
     WHERE $8 OR EXISTS (SELECT 1 FROM space_writers w WHERE w.space_id = $1 AND w.author = $2) \
     ON CONFLICT (space_id, author) DO UPDATE SET rev = excluded.rev, hash = excluded.hash, \
         space_rev = excluded.space_rev, updated_at = excluded.updated_at, host = excluded.host, \
         pull_at = CASE WHEN excluded.pull_at IS NULL OR space_writers.rev <> excluded.rev \
             OR space_writers.hash <> excluded.hash THEN excluded.pull_at ELSE space_writers.pull_at END";

/// Selects the listed rev of a repo.
pub(super) const SELECT_REV: &str = "SELECT rev FROM space_writers WHERE space_id = $1 AND author = $2";

/// Stores the state of a repo of another host, as its notice says, and queues notices for the registered services. The caller
/// has checked that the author is a writer, and that the rev is not of the future.
pub async fn track(
    db: &Db,
    space: SpaceId,
    author: &Did,
    (rev, hash): (Tid, [u8; 32]),
    host: Option<&Did>,
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
        let (author, host) = (author.clone(), host.cloned());
        let listed = Listed { author, rev, hash, host, space_rev: tracked.space_rev };
        store_tracked!(tx, space, &listed, tracked.previous, now);
        tx.commit().await?;
        Ok(Track::Stored(tracked))
    })
}

macro_rules! select {
    ($tail:literal) => {
        concat!(
            "SELECT w.author, w.rev, w.hash, w.space_rev, r.author IS NOT NULL, w.host FROM space_writers w \
             LEFT JOIN space_repos r ON r.space_id = w.space_id AND r.author = w.author AND r.copied_bytes IS NULL \
             WHERE w.space_id = $1 ",
            $tail
        )
    };
}

type Row = (String, String, Vec<u8>, String, bool, Option<String>);

fn read((author, rev, hash, space_rev, is_here, host): Row) -> Result<WriterRow, StoreError> {
    Ok(WriterRow {
        author: columns::did("space_writers.author", &author)?,
        rev: columns::tid("space_writers.rev", &rev)?,
        hash: columns::digest("space_writers.hash", hash)?,
        space_rev: columns::tid("space_writers.space_rev", &space_rev)?,
        host: RepoHost::read(is_here, host)?,
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

/// A page of the repos in the list that are at other hosts, sorted by author. `after`: the last author of the page before.
pub async fn elsewhere(
    db: &Db,
    space: SpaceId,
    after: &str,
    limit: u32,
) -> Result<Vec<WriterRow>, StoreError> {
    let sql = select!("AND w.author > $2 AND r.author IS NULL ORDER BY w.author LIMIT $3");
    let rows: Vec<Row> = on!(db, reader, |pool| {
        sqlx::query_as(sql).bind(space).bind(after).bind(i64::from(limit)).fetch_all(pool).await
    })?;
    rows.into_iter().map(read).collect()
}

/// The entry of an author.
pub async fn get(db: &Db, space: SpaceId, author: &Did) -> Result<Option<WriterRow>, StoreError> {
    let sql = select!("AND w.author = $2");
    let row: Option<Row> = on!(db, reader, |pool| {
        sqlx::query_as(sql).bind(space).bind(author.as_str()).fetch_optional(pool).await
    })?;
    row.map(read).transpose()
}
