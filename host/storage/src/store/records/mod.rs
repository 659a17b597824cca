//! Reads, counts and deletes indexed records. Reads never return records of hidden accounts.
//!
//! A list must read an index in its order and look at the account of each row. The statements force this order (`CROSS
//! JOIN` on SQLite, a scalar subquery on PostgreSQL), because without statistics, as in a new database, both planners
//! choose another one.

pub mod backlinks;
mod columns;
pub(super) mod count;
pub(super) mod delete;
pub mod invalid;
pub(super) mod many;
pub(super) mod packed;
pub(super) mod slice;
pub(super) mod unjoined;

use bytes::Bytes;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use crate::query::Keyset;
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::{Cid, Did, Nsid, RecordUri};
use belvedere_web::fair_share::Tenant;

pub(super) use self::columns::{columns, record_columns, whole_text};
#[cfg(any(test, feature = "testing"))]
pub use self::count::CollectionCount;
pub use self::count::{collection_counts, count};
pub use self::delete::{DeletedCollection, delete, delete_collection};
pub use self::many::{get_many_full, latest_rev, with_all_columns};
pub(super) use self::slice::{HasRecord, INLINE_BYTES, PartialRow, complete, page_rows, rows_to_read};
pub use self::slice::{PAGE_BYTES, Slice};
pub(super) use self::slice::{inline_bytes, most_rows};
pub(super) use self::unjoined::Named;

use super::partitions::PerPartition;
use super::{Db, StoreError, intern};

/// A record with the columns that lists and scripts use.
#[derive(Clone, Debug)]
pub struct RecordRow {
    pub id: i64,
    pub did: String,
    pub collection: Nsid,
    pub rkey: String,
    pub indexed_at: Timestamp,
    /// A JSON object, as it was written. PostgreSQL makes the text of a record that it keeps none of (ADR 84).
    pub record: Bytes,
}

/// A record with all columns that the admin API shows.
#[derive(Clone, Debug)]
pub struct FullRecordRow {
    pub row: RecordRow,
    pub cid: Option<Cid>,
    pub cid_verified: bool,
    pub updated_at: Timestamp,
    /// Why its lexicon rejects the record; `None` for a valid one.
    pub invalid_reason: Option<String>,
}

#[derive(Clone, Debug)]
pub struct ListArgs<'a> {
    pub collection: &'a Nsid,
    pub did: Option<&'a Did>,
    /// Rows per page, at most `PageSize::RECORDS.max`.
    pub limit: u32,
    pub after: Option<Keyset>,
    /// The tenant whose share of the reads the list uses.
    pub tenant: &'a Tenant,
}

impl RecordRow {
    /// `at://did/collection/rkey`
    pub fn uri(&self) -> String {
        format!("at://{}/{}/{}", self.did, self.collection, self.rkey)
    }
}

/// A row of either database, with the columns of [`columns!`] in their order. On PostgreSQL it is a [`Named`], because its
/// statements return the id of the account.
pub(super) trait RawRow: Sized {
    fn raw(self, collection: Nsid) -> Result<PartialRow<RecordRow>, sqlx::Error>;
    fn raw_full(self, collection: Nsid) -> Result<PartialRow<FullRecordRow>, StoreError>;
}

/// Columns are read by position, which saves a lookup by name for each of them.
macro_rules! raw_row {
    ($row:ty, |$this:ident| $columns:expr, $did:expr) => {
        impl RawRow for $row {
            fn raw(self, collection: Nsid) -> Result<PartialRow<RecordRow>, sqlx::Error> {
                let $this = &self;
                let record: Option<String> = $columns.try_get(4)?;
                let row = RecordRow {
                    id: $columns.try_get(0)?,
                    did: $did,
                    collection,
                    rkey: $columns.try_get(2)?,
                    indexed_at: $columns.try_get(3)?,
                    record: Bytes::from(record.unwrap_or_default()),
                };
                Ok(PartialRow { row, size: $columns.try_get(5)? })
            }

            fn raw_full(self, collection: Nsid) -> Result<PartialRow<FullRecordRow>, StoreError> {
                let $this = &self;
                let cid: Option<Vec<u8>> = $columns.try_get(6)?;
                let cid = cid.map(|bytes| Cid::from_bytes(&bytes)).transpose();
                let cid = cid.map_err(|e| StoreError::Corrupt(format!("records.cid: {e}")))?;
                let (cid_verified, updated_at) = ($columns.try_get(7)?, $columns.try_get(8)?);
                let invalid_reason = $columns.try_get(9)?;
                let found = self.raw(collection)?;
                Ok(found.map(|row| FullRecordRow { row, cid, cid_verified, updated_at, invalid_reason }))
            }
        }
    };
}
raw_row!(SqliteRow, |row| row, row.try_get(1)?);
raw_row!(Named, |row| row.columns, row.did.to_string());

/// The condition that the account of `r` is not hidden, without a join. PostgreSQL expects it of nearly all rows, and `IS
/// NULL` of one in two hundred, for which it would read a collection and sort it.
macro_rules! is_visible {
    () => {
        "(SELECT 1 FROM dids d WHERE d.id = r.did_id AND d.status <> 0) IS DISTINCT FROM 1"
    };
}
pub(super) use is_visible;

/// Visible records `r`; further conditions may follow. On SQLite they are joined with their account `d`. On PostgreSQL it
/// is a template for [`PerPartition`], and the account is not joined (see [`unjoined`]) unless `joined` is given.
macro_rules! from_visible {
    (sqlite) => {
        " FROM records r CROSS JOIN dids d WHERE d.id = r.did_id AND d.status = 0 "
    };
    (postgres) => {
        concat!(" FROM {records} r WHERE ", $crate::store::records::is_visible!(), " ")
    };
    (postgres joined) => {
        " FROM {records} r CROSS JOIN LATERAL \
          (SELECT did, status FROM dids WHERE dids.id = r.did_id LIMIT 1) d WHERE d.status = 0 "
    };
}
pub(super) use from_visible;

/// Statements of a list, indexed by whether it is of one account and whether it continues after a row.
type Statements = [[&'static str; 2]; 2];

/// The four statements of a list: `$sql` builds one from its further arguments and a condition.
macro_rules! list_wheres {
    ($sql:ident $(, $arg:tt)*) => {
        [
            [$sql!($($arg,)* ""), $sql!($($arg,)* " AND (r.indexed_at, r.id) < ($3, $4)")],
            [
                $sql!($($arg,)* " AND r.did_id = (SELECT id FROM dids WHERE did = $3)"),
                $sql!(
                    $($arg,)*
                    " AND r.did_id = (SELECT id FROM dids WHERE did = $3) AND (r.indexed_at, r.id) < ($4, $5)"
                ),
            ],
        ]
    };
}

/// Ends a statement whose rows an index returns in order with `LIMIT $limit`.
///
/// PostgreSQL assumes that a limit in a parameter is a tenth of the table, so that it would plan such a statement again
/// on each execution, for longer than it runs. The inner limit, which no page exceeds, makes the plan for all
/// values good enough to be kept.
macro_rules! limited {
    (sqlite, $limit:literal, $($sql:expr),+ $(,)?) => {
        concat!($($sql),+, " LIMIT ", $limit)
    };
    (postgres, $limit:literal, $($sql:expr),+ $(,)?) => {
        concat!("SELECT * FROM (", $($sql),+, " LIMIT ", $crate::store::records::most_rows!(), ") page LIMIT ", $limit)
    };
}
pub(super) use limited;

macro_rules! list_sql {
    ($dialect:ident, ($($columns:tt)*), $rows:literal, $where:literal) => {
        limited!(
            $dialect,
            "$2",
            "SELECT ",
            columns!($($columns)*),
            from_visible!($dialect),
            "AND ",
            $rows,
            $where,
            " ORDER BY r.indexed_at DESC, r.id DESC",
        )
    };
}

/// Lists with all columns: of all records, of valid ones and of invalid ones. The plus makes the databases find the last by
/// their ids, not all records of the collection by its index.
macro_rules! full_lists {
    ($dialect:ident, $invalid:literal) => {
        [
            list_wheres!(list_sql, $dialect, ($dialect full), "r.collection_id = $1"),
            list_wheres!(
                list_sql,
                $dialect,
                ($dialect full),
                "r.collection_id = $1 AND (SELECT 1 FROM invalid_records i WHERE i.record_id = r.id) IS DISTINCT FROM 1"
            ),
            list_wheres!(list_sql, $dialect, ($dialect full), $invalid),
        ]
    };
}

/// The lists of [`list`] on PostgreSQL; SQLite's are packed.
pub(in crate::store) static LIST_POSTGRES: PerPartition<Statements> =
    PerPartition::new(list_wheres!(list_sql, postgres, (postgres), "r.collection_id = $1"));

const LIST_FULL_SQLITE: [Statements; 3] = full_lists!(
    sqlite,
    "+r.collection_id = $1 AND r.id IN (SELECT record_id FROM invalid_records WHERE collection_id = $1)"
);
pub(in crate::store) static LIST_FULL_POSTGRES: PerPartition<[Statements; 3]> = PerPartition::new(
    full_lists!(
        postgres,
        "+r.collection_id = $1 AND r.id = ANY (ARRAY (SELECT record_id FROM invalid_records WHERE collection_id = $1))"
    ),
);

macro_rules! fetch_list {
    ($pool:expr, $statements:expr, $collection:expr, $args:expr) => {{
        let args: &ListArgs<'_> = $args;
        let sql = $statements[usize::from(args.did.is_some())][usize::from(args.after.is_some())];
        let mut query =
            sqlx::query(sql).bind($collection).bind($crate::store::records::rows_to_read(args.limit));
        if let Some(did) = args.did {
            query = query.bind(did.as_str());
        }
        if let Some(after) = args.after {
            query = query.bind(after.indexed_at).bind(after.id);
        }
        query.fetch_all($pool.reads()).await?
    }};
}

/// Newest first by (`indexed_at`, id), at most [`PAGE_BYTES`] of records.
///
/// # Errors
/// [`StoreError::Busy`] when too many reads are waiting.
pub async fn list(db: &Db, args: &ListArgs<'_>) -> Result<Slice<RecordRow>, StoreError> {
    let Some(collection) = intern::collection(db, args.collection).await? else { return Ok(Slice::empty()) };
    let _place = db.read_place(args.tenant).await?;
    let found = match db {
        Db::Sqlite(db) => packed::list(&db.read_pool, collection.id, args).await?,
        Db::Postgres(db) => {
            let statements = LIST_POSTGRES.of(collection.partition);
            let rows = fetch_list!(db.read_pool, statements, collection.id, args);
            self::rows(unjoined::named(db, rows).await?, args.collection)?
        }
    };
    complete(db, found, page_rows(args.limit), PAGE_BYTES).await
}

/// As [`list`], with the columns of [`FullRecordRow`]. `valid`: only records that their lexicon accepts, or only those
/// that it rejects.
pub async fn list_full(
    db: &Db,
    args: &ListArgs<'_>,
    valid: Option<bool>,
) -> Result<Slice<FullRecordRow>, StoreError> {
    let Some(collection) = intern::collection(db, args.collection).await? else { return Ok(Slice::empty()) };
    let id = collection.id;
    let which = valid.map_or(0, |valid| if valid { 1 } else { 2 });
    let _place = db.read_place(args.tenant).await?;
    let found = match db {
        Db::Sqlite(db) => {
            full_rows(fetch_list!(db.read_pool, LIST_FULL_SQLITE[which], id, args), args.collection)?
        }
        Db::Postgres(db) => {
            let statements = &LIST_FULL_POSTGRES.of(collection.partition)[which];
            let rows = fetch_list!(db.read_pool, statements, id, args);
            full_rows(unjoined::named(db, rows).await?, args.collection)?
        }
    };
    complete(db, found, page_rows(args.limit), PAGE_BYTES).await
}

/// The rows as the database returned them, as records of the collection.
pub(super) fn rows<R: RawRow>(
    found: Vec<R>,
    collection: &Nsid,
) -> Result<Vec<PartialRow<RecordRow>>, StoreError> {
    found.into_iter().map(|row| Ok(row.raw(collection.clone())?)).collect()
}

fn full_rows<R: RawRow>(
    rows: Vec<R>,
    collection: &Nsid,
) -> Result<Vec<PartialRow<FullRecordRow>>, StoreError> {
    rows.into_iter().map(|row| row.raw_full(collection.clone())).collect()
}

/// One record by its URI; a template for both databases.
macro_rules! get_sql {
    ($columns:expr) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM dids d CROSS JOIN {records} r WHERE d.did = $2 AND d.status = 0 AND r.collection_id = $1 \
               AND r.did_id = d.id AND r.rkey = $3"
        )
    };
}
static GET_SQLITE: PerPartition<&str> = PerPartition::new(get_sql!(columns!(sqlite whole)));
pub(in crate::store) static GET_POSTGRES: PerPartition<&str> =
    PerPartition::new(get_sql!(columns!(postgres whole)));
#[cfg(any(test, feature = "testing"))]
static GET_FULL_SQLITE: PerPartition<&str> = PerPartition::new(get_sql!(columns!(sqlite whole full)));
#[cfg(any(test, feature = "testing"))]
static GET_FULL_POSTGRES: PerPartition<&str> = PerPartition::new(get_sql!(columns!(postgres whole full)));

macro_rules! fetch_one {
    ($pool:expr, $sql:expr, $collection:expr, $uri:expr) => {
        sqlx::query(*$sql.of($collection.partition))
            .bind($collection.id)
            .bind($uri.did.as_str())
            .bind($uri.rkey.as_str())
            .fetch_optional($pool.reads())
            .await?
    };
}

pub async fn get(db: &Db, uri: &RecordUri) -> Result<Option<RecordRow>, StoreError> {
    let Some(collection) = intern::collection(db, &uri.collection).await? else { return Ok(None) };
    let row = match db {
        Db::Sqlite(db) => {
            fetch_one!(db.read_pool, GET_SQLITE, collection, uri).map(|row| row.raw(uri.collection.clone()))
        }
        Db::Postgres(db) => fetch_one!(db.read_pool, GET_POSTGRES, collection, uri)
            .map(|row| Named::new(row, &uri.did).raw(uri.collection.clone())),
    };
    Ok(row.transpose()?.map(|found| found.row))
}

#[cfg(any(test, feature = "testing"))]
pub async fn get_full(db: &Db, uri: &RecordUri) -> Result<Option<FullRecordRow>, StoreError> {
    let Some(collection) = intern::collection(db, &uri.collection).await? else { return Ok(None) };
    let row = match db {
        Db::Sqlite(db) => fetch_one!(db.read_pool, GET_FULL_SQLITE, collection, uri)
            .map(|row| row.raw_full(uri.collection.clone())),
        Db::Postgres(db) => fetch_one!(db.read_pool, GET_FULL_POSTGRES, collection, uri)
            .map(|row| Named::new(row, &uri.did).raw_full(uri.collection.clone())),
    };
    Ok(row.transpose()?.map(|found| found.row))
}
