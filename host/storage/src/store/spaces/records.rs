//! Reads the records of a space. Callers have decided that the viewer may read the authors that they name.

use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::{Cid, Did, Nsid, Tid};
use belvedere_protocol::spaces::RecordPath;

use super::super::types::json_rows;
use super::super::{Db, StoreError, on};
use super::columns::{self, SpaceId};
pub use super::page_bytes::PAGE_BYTES;
use super::page_bytes::{Taken, inline_record};
use super::writes::rows::{keys_of, of_paths};

/// The authors whose records a read returns. There is no default: a caller that may read only its own must say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authors<'a> {
    One(&'a Did),
    /// All authors whose accounts are active.
    All,
}

/// A record of a space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpaceRecord {
    pub author: Did,
    pub path: RecordPath,
    pub cid: Cid,
    /// The JSON text as it was written; `None` if the read does not return records.
    pub text: Option<String>,
    /// The rev of the commit that wrote it.
    pub rev: Tid,
    /// The time at which the record was first seen.
    pub indexed_at: Timestamp,
}

pub(super) type Row = (String, String, String, Vec<u8>, Option<String>, String, Timestamp);

pub(super) fn read(
    (author, collection, rkey, cid, text, rev, indexed_at): Row,
) -> Result<SpaceRecord, StoreError> {
    Ok(SpaceRecord {
        author: columns::did("space_records.author", &author)?,
        path: columns::path(&collection, &rkey)?,
        cid: columns::cid("space_records.cid", &cid)?,
        text,
        rev: columns::tid("space_records.rev", &rev)?,
        indexed_at,
    })
}

/// A record of an author.
pub async fn get(
    db: &Db,
    space: SpaceId,
    author: &Did,
    path: &RecordPath,
) -> Result<Option<SpaceRecord>, StoreError> {
    let sql = "SELECT author, collection, rkey, cid, record, rev, indexed_at FROM space_records \
               WHERE space_id = $1 AND author = $2 AND collection = $3 AND rkey = $4";
    let row: Option<Row> = on!(db, reader, |pool| {
        sqlx::query_as(sql)
            .bind(space)
            .bind(author.as_str())
            .bind(path.collection.as_str())
            .bind(path.rkey.as_str())
            .fetch_optional(pool)
            .await
    })?;
    row.map(read).transpose()
}

/// Some records of an author, in any order. The caller limits their number.
pub async fn some<'a>(
    db: &Db,
    space: SpaceId,
    author: &Did,
    paths: impl Iterator<Item = &'a RecordPath>,
) -> Result<Vec<SpaceRecord>, StoreError> {
    let sql = match db {
        Db::Sqlite(_) => {
            of_paths!(sqlite, "r.author, r.collection, r.rkey, r.cid, r.record, r.rev, r.indexed_at")
        }
        Db::Postgres(_) => {
            of_paths!(postgres, "r.author, r.collection, r.rkey, r.cid, r.record, r.rev, r.indexed_at")
        }
    };
    let keys = keys_of(paths);
    let rows: Vec<Row> = on!(db, reader, |pool| {
        sqlx::query_as(sql).bind(space).bind(author.as_str()).bind(&keys).fetch_all(pool).await
    })?;
    rows.into_iter().map(read).collect()
}

/// The authors of records with a path whose accounts are active, at most two: for a read that names no author, and is
/// answered only if there is one.
pub async fn authors_of(db: &Db, space: SpaceId, path: &RecordPath) -> Result<Vec<Did>, StoreError> {
    let sql = "SELECT r.author FROM space_records r WHERE r.space_id = $1 AND r.collection = $2 AND r.rkey = $3 \
                   AND NOT EXISTS (SELECT 1 FROM dids d WHERE d.did = r.author AND d.status <> 0) \
               ORDER BY r.author LIMIT 2";
    let rows: Vec<String> = on!(db, reader, |pool| {
        let query = sqlx::query_scalar(sql).bind(space).bind(path.collection.as_str());
        query.bind(path.rkey.as_str()).fetch_all(pool).await
    })?;
    rows.iter().map(|author| columns::did("space_records.author", author)).collect()
}

/// Reads the text of a record that did not come with its row. `false` when the record was deleted meanwhile.
pub(super) async fn with_large_text(
    db: &Db,
    space: SpaceId,
    record: &mut SpaceRecord,
) -> Result<bool, StoreError> {
    if record.text.is_some() {
        return Ok(true);
    }
    let found = get(db, space, &record.author, &record.path).await?;
    Ok(found.map(|found| *record = found).is_some())
}

/// A page of the records of an author in all spaces that are not deleted, by space and path, and whether records follow. `after`:
/// the last one of the page before.
pub async fn of_author(
    db: &Db,
    author: &Did,
    after: Option<(SpaceId, &RecordPath)>,
    limit: u32,
) -> Result<(Vec<(SpaceId, SpaceRecord)>, bool), StoreError> {
    type InSpace = (SpaceId, i64, String, String, String, Vec<u8>, Option<String>, String, Timestamp);
    let sql = concat!(
        "SELECT r.space_id, ",
        inline_record!(size),
        ", r.author, r.collection, r.rkey, r.cid, ",
        inline_record!(),
        ", r.rev, r.indexed_at FROM space_repos p JOIN spaces s ON s.id = p.space_id AND s.deleted_at IS NULL \
             JOIN space_records r ON r.space_id = p.space_id AND r.author = p.author \
         WHERE p.author = $1 AND p.space_id >= $2 AND (r.space_id, r.collection, r.rkey) > ($2, $3, $4) \
         ORDER BY r.space_id, r.collection, r.rkey LIMIT $5"
    );
    let path = after.map(|(_, path)| path);
    let rows: Vec<InSpace> = on!(db, reader, |pool| {
        sqlx::query_as(sql)
            .bind(author.as_str())
            .bind(after.map_or(SpaceId(0), |(space, _)| space))
            .bind(path.map_or("", |path| path.collection.as_str()))
            .bind(path.map_or("", |path| path.rkey.as_str()))
            .bind(i64::from(limit) + 1)
            .fetch_all(pool)
            .await
    })?;
    let has_more = rows.len() > limit as usize;
    let (mut records, mut taken) = (Vec::new(), Taken::default());
    for (space, size, author, collection, rkey, cid, text, rev, indexed_at) in
        rows.into_iter().take(limit as usize)
    {
        if !taken.take(size) {
            return Ok((records, true));
        }
        let mut record = read((author, collection, rkey, cid, text, rev, indexed_at))?;
        if with_large_text(db, space, &mut record).await? {
            records.push((space, record));
        }
    }
    Ok((records, has_more))
}

/// Whether records of an author are hidden because the account is not active.
pub async fn is_hidden(db: &Db, author: &Did) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM dids WHERE did = $1 AND status <> 0)";
    Ok(on!(db, reader, |pool| sqlx::query_scalar(sql).bind(author.as_str()).fetch_one(pool).await)?)
}

macro_rules! count {
    ($authors:literal) => {
        concat!(
            "SELECT count(*) FROM space_records r WHERE r.space_id = $1 AND ",
            $authors,
            " AND r.collection >= $3 AND r.collection <= $4"
        )
    };
}

/// The number of records of a list.
pub async fn count(
    db: &Db,
    space: SpaceId,
    authors: Authors<'_>,
    collection: Option<&Nsid>,
) -> Result<u64, StoreError> {
    let sql = match authors {
        Authors::One(_) => count!("r.author = $2"),
        Authors::All => {
            count!("$2 = '' AND NOT EXISTS (SELECT 1 FROM dids d WHERE d.did = r.author AND d.status <> 0)")
        }
    };
    let (from, to) = bounds(collection);
    let count: i64 = on!(db, reader, |pool| {
        sqlx::query_scalar(sql).bind(space).bind(author_of(authors)).bind(from).bind(to).fetch_one(pool).await
    })?;
    Ok(count.max(0) as u64)
}

/// No collection is as late in the order of bytes.
const LAST: &str = "~";

/// The first and the last collection of a list.
pub(super) fn bounds(collection: Option<&Nsid>) -> (&str, &str) {
    collection.map_or(("", LAST), |collection| (collection.as_str(), collection.as_str()))
}

/// The parameter of the author. Statements about all authors have the empty one, which no author has.
pub(super) fn author_of(authors: Authors<'_>) -> &str {
    match authors {
        Authors::One(author) => author.as_str(),
        Authors::All => "",
    }
}

/// A page of the blobs that the records of an author refer to: their CIDs as text, sorted. `after`: the last CID of the page
/// before.
pub async fn blobs(
    db: &Db,
    space: SpaceId,
    author: &Did,
    since: Option<Tid>,
    after: &str,
    limit: u32,
) -> Result<Vec<String>, StoreError> {
    let sql = "SELECT DISTINCT b.cid FROM space_blobs b JOIN space_records r ON r.space_id = b.space_id \
                   AND r.author = b.author AND r.collection = b.collection AND r.rkey = b.rkey AND r.rev > $3 \
               WHERE b.space_id = $1 AND b.author = $2 AND b.cid > $4 ORDER BY b.cid LIMIT $5";
    let since = since.map(|rev| rev.to_string()).unwrap_or_default();
    Ok(on!(db, reader, |pool| {
        sqlx::query_scalar(sql)
            .bind(space)
            .bind(author.as_str())
            .bind(&since)
            .bind(after)
            .bind(i64::from(limit))
            .fetch_all(pool)
            .await
    })?)
}

/// Whether a record of an author refers to a blob.
pub async fn has_blob(db: &Db, space: SpaceId, author: &Did, cid: &str) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM space_blobs WHERE space_id = $1 AND author = $2 AND cid = $3)";
    Ok(on!(db, reader, |pool| {
        sqlx::query_scalar(sql).bind(space).bind(author.as_str()).bind(cid).fetch_one(pool).await
    })?)
}
