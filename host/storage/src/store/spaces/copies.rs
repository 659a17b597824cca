//! Repos of other hosts that are copied (docs/adr/0115-spaces-copies-of-other-hosts.md): those that are due, and those that no space
//! needs any more.

use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::{Did, Tid};

use super::super::{Db, StoreError, on};
use super::attempts::{Attempts, attempts};
use super::columns::{self, SpaceId};
use super::deletion;

/// A repo that must be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueCopy {
    pub space: SpaceId,
    pub author: Did,
    /// The rev that the list of repos has.
    pub rev: Tid,
    /// The DID of the host that has named itself.
    pub host: Option<Did>,
    pub pull_at: Timestamp,
    /// The account whose share of the reads an attempt takes: the authority of a space of another host, the creator of one of this
    /// instance.
    pub share: Did,
    /// Attempts that have failed since the last one that succeeded.
    pub failures: i64,
}

const PULLS: Attempts = attempts!("space_writers", "pull_at", "author");

/// Repos whose next attempt is due, the longest due first, without those of some shares.
pub async fn due(db: &Db, now: Timestamp, max: u32, except: &[Did]) -> Result<Vec<DueCopy>, StoreError> {
    const SHARE: &str = "CASE WHEN s.is_hosted THEN s.creator_did ELSE s.did END";
    type Row = (SpaceId, String, String, Option<String>, Timestamp, i64, String);
    let rows: Vec<Row> = on!(db, reader, |pool| {
        let mut sql =
            sqlx::QueryBuilder::new("SELECT w.space_id, w.author, w.rev, w.host, w.pull_at, w.failures, ");
        sql.push(SHARE).push(
            " FROM space_writers w JOIN spaces s ON s.id = w.space_id WHERE s.deleted_at IS NULL AND w.pull_at <= ",
        );
        sql.push_bind(now);
        for share in except {
            sql.push(" AND ").push(SHARE).push(" <> ").push_bind(share.as_str());
        }
        sql.push(" ORDER BY w.pull_at, w.space_id, w.author LIMIT ").push_bind(i64::from(max));
        sql.build_query_as().fetch_all(pool).await
    })?;
    let row = |(space, author, rev, host, pull_at, failures, share): Row| {
        let author = columns::did("space_writers.author", &author)?;
        let rev = columns::tid("space_writers.rev", &rev)?;
        let host = host.map(|host| columns::did("space_writers.host", &host)).transpose()?;
        let share = columns::did("spaces.did", &share)?;
        Ok(DueCopy { space, author, rev, host, pull_at, share, failures })
    };
    rows.into_iter().map(row).collect()
}

/// Begins an attempt. `false` when another host has begun one.
pub async fn begin(db: &Db, copy: &DueCopy, until: Timestamp) -> Result<bool, StoreError> {
    PULLS.begin(db, (copy.space, copy.author.as_str()), copy.pull_at, until).await
}

/// Ends the attempt that [`begin`] has begun with `until`, unless the repo has become due meanwhile. `next`: `None` for a copy that is
/// up to date.
pub async fn end(
    db: &Db,
    copy: &DueCopy,
    until: Timestamp,
    has_failed: bool,
    next: Option<Timestamp>,
) -> Result<(), StoreError> {
    PULLS.end(db, (copy.space, copy.author.as_str()), until, has_failed, next).await
}

/// The bytes of all copies in a space, at most.
pub async fn bytes(db: &Db, space: SpaceId) -> Result<u64, StoreError> {
    let sql = "SELECT CAST(coalesce(sum(copied_bytes), 0) AS BIGINT) FROM space_repos \
               WHERE space_id = $1 AND copied_bytes IS NOT NULL";
    let bytes: i64 = on!(db, reader, |pool| sqlx::query_scalar(sql).bind(space).fetch_one(pool).await)?;
    Ok(bytes.max(0) as u64)
}

/// Removes the copies in spaces that are not followed, one repo at a time.
pub async fn purge(db: &Db) -> Result<(), StoreError> {
    let find = "SELECT r.space_id, r.author FROM space_repos r JOIN spaces s ON s.id = r.space_id \
                WHERE r.copied_bytes IS NOT NULL AND NOT s.is_hosted AND s.deleted_at IS NULL \
                    AND NOT EXISTS (SELECT 1 FROM space_follows f WHERE f.space_id = r.space_id) LIMIT 1";
    loop {
        let found: Option<(SpaceId, String)> =
            on!(db, reader, |pool| sqlx::query_as(find).fetch_optional(pool).await)?;
        let Some((space, author)) = found else { return Ok(()) };
        deletion::remove_copy(db, space, &columns::did("space_repos.author", &author)?).await?;
    }
}
