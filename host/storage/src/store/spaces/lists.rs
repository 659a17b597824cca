//! Lists of the records of a space, in pages. Callers have decided that the viewer may read the authors that they name.
//!
//! SQLite returns a page as one text ([`Packed`]).

use std::fmt;
use std::str::FromStr;

use belvedere_base::clock::Timestamp;
use belvedere_base::hand_over_thread::hand_over_thread;
use belvedere_protocol::atproto::{Cid, Did, Nsid, RecordKey, Tid};
use belvedere_protocol::spaces::{RecordPath, SpaceUri};
use bytes::Bytes;
use data_encoding::HEXUPPER;
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::super::packed::Packed;
use super::super::{Db, StoreError};
use super::columns::SpaceId;
use super::credentials::Opening;
use super::page_bytes::{Taken, inline_record};
use super::records::{self, Authors, SpaceRecord, author_of, bounds};

/// The place of a record in a list: by path, then by author.
/// In text, for cursors: `<collection>/<rkey>/<author>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub path: RecordPath,
    pub author: Did,
}

/// Error for a text that is no place.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("cursor is malformed")]
pub struct InvalidPlace;

impl Place {
    fn of(record: &SpaceRecord) -> Self {
        Self { path: record.path.clone(), author: record.author.clone() }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.path, self.author)
    }
}

impl FromStr for Place {
    type Err = InvalidPlace;

    fn from_str(text: &str) -> Result<Self, InvalidPlace> {
        let (path, author) = text.rsplit_once('/').ok_or(InvalidPlace)?;
        let path = RecordPath::parse(path).map_err(|_| InvalidPlace)?;
        Ok(Self { path, author: Did::try_from(author).map_err(|_| InvalidPlace)? })
    }
}

/// A list of records.
#[derive(Clone, Copy, Debug)]
pub struct List<'a> {
    pub authors: Authors<'a>,
    /// `None`: of all collections.
    pub collection: Option<&'a Nsid>,
    /// From the last record to the first.
    pub is_reverse: bool,
    pub with_text: bool,
    /// The last record of the page before. A place outside the list counts as its nearest end, because a viewer may have made it up.
    pub after: Option<&'a Place>,
    pub limit: u32,
    /// Bytes of the records of a page.
    pub max_bytes: usize,
}

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub records: Vec<SpaceRecord>,
    /// The place at which the page ends, if records follow: there are more than the limit, or they would take too many bytes.
    pub next: Option<Place>,
}

/// The statements of a page.
struct PageSql {
    /// The page of the space with the number `$1`.
    of_space: Statement,
    /// The page of the space at the address `$9`, `$10`, `$11`, behind its number and its [`Opening`] for the credential `$1`;
    /// without rows if the credential does not open the space.
    of_credential: Statement,
}

struct Statement {
    sqlite: &'static str,
    postgres: &'static str,
}

/// The conditions find in the index where a page begins and where the list ends.
macro_rules! page {
    ($where:literal, $order:literal) => {
        PageSql {
            of_space: Statement {
                sqlite: page!(@packed "$1", $where, $order),
                postgres: page!(@rows "$1", $where, $order),
            },
            of_credential: Statement {
                sqlite: concat!(
                    "SELECT s.id || ' ' || s.is_hosted || ' ' || s.is_deleted || ' ' || s.is_revoked || ' ' || coalesce((",
                    page!(@packed "CASE WHEN s.is_hosted AND NOT s.is_deleted AND NOT s.is_revoked THEN s.id END", $where, $order),
                    "), '') FROM ",
                    page!(@opening)
                ),
                // The rows of one space stay in their order.
                postgres: concat!(
                    "SELECT s.id, s.is_hosted, s.is_deleted, s.is_revoked, page.* FROM ",
                    page!(@opening),
                    " LEFT JOIN LATERAL (",
                    page!(@rows "CASE WHEN s.is_hosted AND NOT s.is_deleted AND NOT s.is_revoked THEN s.id END", $where, $order),
                    ") page ON TRUE"
                ),
            },
        }
    };
    (@opening) => {
        "(SELECT s.id, s.is_hosted, s.deleted_at IS NOT NULL AS is_deleted, EXISTS (SELECT 1 FROM space_credentials c \
             WHERE c.space_id = s.id AND c.jti = $1 AND c.revoked_at IS NOT NULL) AS is_revoked \
             FROM spaces s WHERE s.did = $9 AND s.kind = $10 AND s.skey = $11) s"
    };
    (@packed $space:literal, $where:literal, $order:literal) => {
        concat!(
            "SELECT group_concat(p, '') FROM (SELECT r.author || ' ' || r.collection || ' ' || r.rkey || ' ' || hex(r.cid) \
                 || ' ' || r.rev || ' ' || r.indexed_at || ' ' || ",
            inline_record!(size),
            " || ' ' || coalesce(CASE WHEN $8 THEN ",
            inline_record!(),
            " END, '') AS p ",
            page!(@from $space, $where, $order),
            ")"
        )
    };
    (@rows $space:literal, $where:literal, $order:literal) => {
        concat!(
            "SELECT ",
            inline_record!(size),
            " AS size, r.author, r.collection, r.rkey, r.cid, CASE WHEN $8 THEN ",
            inline_record!(),
            " END AS record, r.rev, r.indexed_at ",
            page!(@from $space, $where, $order)
        )
    };
    (@from $space:literal, $where:literal, $order:literal) => {
        concat!(
            "FROM space_records r WHERE r.space_id = ", $space, " AND ", $where, " ORDER BY ", $order, " LIMIT $7"
        )
    };
}

const OF_ONE: PageSql = page!(
    "r.author = $2 AND r.collection <= $3 AND (r.collection, r.rkey) > ($4, $5)",
    "r.collection, r.rkey"
);
const OF_ONE_REVERSE: PageSql = page!(
    "r.author = $2 AND r.collection >= $3 AND (r.collection, r.rkey) < ($4, $5)",
    "r.collection DESC, r.rkey DESC"
);
const OF_ALL: PageSql = page!(
    "$2 = '' AND r.collection <= $3 AND (r.collection, r.rkey, r.author) > ($4, $5, $6) \
         AND NOT EXISTS (SELECT 1 FROM dids d WHERE d.did = r.author AND d.status <> 0)",
    "r.collection, r.rkey, r.author"
);
const OF_ALL_REVERSE: PageSql = page!(
    "$2 = '' AND r.collection >= $3 AND (r.collection, r.rkey, r.author) < ($4, $5, $6) \
         AND NOT EXISTS (SELECT 1 FROM dids d WHERE d.did = r.author AND d.status <> 0)",
    "r.collection DESC, r.rkey DESC, r.author DESC"
);

impl List<'_> {
    fn sql(&self) -> &'static PageSql {
        match (self.authors, self.is_reverse) {
            (Authors::One(_), false) => &OF_ONE,
            (Authors::One(_), true) => &OF_ONE_REVERSE,
            (Authors::All, false) => &OF_ALL,
            (Authors::All, true) => &OF_ALL_REVERSE,
        }
    }

    /// The last collection of the list, and the place after which the page begins.
    fn bounds(&self) -> (&str, (&str, &str, &str)) {
        let (from, to) = bounds(self.collection);
        let (first, last) = ((from, "", ""), (to, LAST_KEY, ""));
        let after = self
            .after
            .map(|Place { path, author }| (path.collection.as_str(), path.rkey.as_str(), author.as_str()));
        if self.is_reverse {
            (from, after.map_or(last, |after| after.min(last)))
        } else {
            (to, after.map_or(first, |after| after.max(first)))
        }
    }

    /// The page of the rows that a statement returned.
    async fn page(&self, db: &Db, space: SpaceId, rows: Vec<SizedRecord>) -> Result<Page, StoreError> {
        let mut is_last = rows.len() <= self.limit as usize;
        let (mut records, mut deleted) = (Vec::with_capacity(rows.len()), None);
        let mut taken = Taken::of(self.max_bytes);
        for (size, mut record) in rows.into_iter().take(self.limit as usize) {
            if self.with_text && !taken.take(size) {
                is_last = false;
                break;
            }
            deleted = None;
            if self.with_text && !records::with_large_text(db, space, &mut record).await? {
                deleted = Some(Place::of(&record));
                continue;
            }
            records.push(record);
        }
        let last = deleted.or_else(|| records.last().map(Place::of));
        Ok(Page { records, next: last.filter(|_| !is_last) })
    }
}

/// No record key is as late.
const LAST_KEY: &str = "\u{10FFFF}";

/// Binds the parameters that both statements of a page have. One row more tells whether records follow.
macro_rules! bound {
    ($list:ident, $first:expr, $query:expr) => {{
        let (end, (collection, rkey, author)) = $list.bounds();
        $query
            .bind($first)
            .bind(author_of($list.authors))
            .bind(end)
            .bind(collection)
            .bind(rkey)
            .bind(author)
            .bind(i64::from($list.limit) + 1)
            .bind($list.with_text)
    }};
}

/// A page of a list.
pub async fn page(db: &Db, space: SpaceId, list: &List<'_>) -> Result<Page, StoreError> {
    let sql = &list.sql().of_space;
    let rows = match db {
        Db::Sqlite(sqlite) => {
            let query = bound!(list, space, sqlx::query_scalar(sql.sqlite));
            let text: Option<String> = query.fetch_one(sqlite.read_pool.reads()).await?;
            unpacked(&mut Packed::new(text.unwrap_or_default()), list)?
        }
        Db::Postgres(postgres) => {
            let query = bound!(list, space, sqlx::query(sql.postgres));
            let rows = query.fetch_all(postgres.read_pools.hot.primary().reads()).await?;
            all_sized(&rows, 0)?
        }
    };
    list.page(db, space, rows).await
}

/// A page of a list, and whether a credential opens the space at an address: in one statement, because this is the read that an
/// app sends most. The page is empty if it does not. `None` when there is no such space.
pub async fn page_of_credential(
    db: &Db,
    uri: &SpaceUri,
    jti: &str,
    list: &List<'_>,
) -> Result<Option<(Opening, Page)>, StoreError> {
    let sql = &list.sql().of_credential;
    macro_rules! addressed {
        ($query:expr) => {
            bound!(list, jti, $query).bind(uri.did.as_str()).bind(uri.kind.as_str()).bind(uri.skey.as_str())
        };
    }
    let ((space, opening), rows) = match db {
        Db::Sqlite(sqlite) => {
            let query = addressed!(sqlx::query_scalar(sql.sqlite));
            let text: Option<String> = query.fetch_optional(sqlite.read_pool.reads()).await?;
            let Some(text) = text else { return Ok(None) };
            let mut packed = Packed::new(text);
            (packed.read(opening)?, unpacked(&mut packed, list)?)
        }
        Db::Postgres(postgres) => {
            let query = addressed!(sqlx::query(sql.postgres));
            let found = query.fetch_all(postgres.read_pools.hot.primary().reads()).await?;
            let Some(first) = found.first() else { return Ok(None) };
            let opening = Opening {
                is_hosted: first.try_get(1)?,
                is_deleted: first.try_get(2)?,
                is_revoked: first.try_get(3)?,
            };
            // Without records the join has one row, with the columns of the space only.
            let has_records = first.try_get::<Option<i64>, _>(4)?.is_some();
            let rows = if has_records { all_sized(&found, 4)? } else { Vec::new() };
            ((first.try_get(0)?, opening), rows)
        }
    };
    Ok(Some((opening, list.page(db, space, rows).await?)))
}

/// A record, and its size.
type SizedRecord = (i64, SpaceRecord);

/// The number of a space, and its opening, before the rows of a packed page.
fn opening(packed: &mut Packed) -> Option<(SpaceId, Opening)> {
    let space = SpaceId(packed.field()?.parse().ok()?);
    let mut flag = || packed.field().map(|field| field == "1");
    Some((space, Opening { is_hosted: flag()?, is_deleted: flag()?, is_revoked: flag()? }))
}

/// The rows of a packed page.
fn unpacked(packed: &mut Packed, list: &List<'_>) -> Result<Vec<SizedRecord>, StoreError> {
    hand_over_thread(packed.bytes_left(), || packed.rows(|packed| unpack(packed, list.with_text)))
}

/// The next row of a packed page.
fn unpack(packed: &mut Packed, with_text: bool) -> Option<SizedRecord> {
    let author = Did::try_from(packed.field()?).ok()?;
    let collection = Nsid::try_from(packed.field()?).ok()?;
    let path = RecordPath { collection, rkey: RecordKey::try_from(packed.field()?).ok()? };
    let cid = Cid::from_bytes(&HEXUPPER.decode(packed.field()?.as_bytes()).ok()?).ok()?;
    let rev = Tid::try_from(packed.field()?).ok()?;
    let indexed_at = Timestamp(packed.field()?.parse().ok()?);
    let (size, text) =
        if with_text { packed.record()? } else { (packed.field()?.parse().ok()?, Bytes::new()) };
    let text = if text.is_empty() { None } else { Some(std::str::from_utf8(&text).ok()?.to_owned()) };
    Some((size, SpaceRecord { author, path, cid, text, rev, indexed_at }))
}

/// The records of a page, whose columns are those from `at` on.
fn all_sized(rows: &[PgRow], at: usize) -> Result<Vec<SizedRecord>, StoreError> {
    hand_over_thread(rows.len() * ROW_BYTES, || rows.iter().map(|row| sized(row, at)).collect())
}

/// Bytes whose work is that of a row without its record.
const ROW_BYTES: usize = 500;

/// The columns of a record from `at` on.
fn sized(row: &PgRow, at: usize) -> Result<SizedRecord, StoreError> {
    let (author, collection, rkey) = (row.try_get(at + 1)?, row.try_get(at + 2)?, row.try_get(at + 3)?);
    let (cid, text) = (row.try_get(at + 4)?, row.try_get(at + 5)?);
    let (rev, indexed_at) = (row.try_get(at + 6)?, row.try_get(at + 7)?);
    Ok((row.try_get(at)?, records::read((author, collection, rkey, cid, text, rev, indexed_at))?))
}
