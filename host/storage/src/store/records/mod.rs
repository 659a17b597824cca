//! Reads, counts and deletes indexed records. Reads never return records of hidden accounts, except [`get`] those of accounts that an
//! operator has hidden from lists only.

pub mod backlinks;
pub mod below;
pub(super) mod count;
pub(super) mod delete;
pub mod hidden;
pub mod invalid;
pub mod linked_accounts;
pub mod links;
pub(super) mod many;
pub mod moderated;
pub(super) mod packed;
pub(super) mod page;
pub mod related;
pub mod shown_links;
pub(super) mod unjoined;

use bytes::Bytes;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::{Cid, Nsid, RecordUri};

#[cfg(any(test, feature = "testing"))]
pub use self::count::CollectionCount;
pub use self::count::{collection_counts, count};
pub use self::delete::{DeletedCollection, delete, delete_collection};
pub(super) use self::many::with_all_columns;
pub use self::many::{get_many_full, latest_rev, tid_of_rev};
pub use self::page::{PAGE_BYTES, Page, Room};
pub(super) use self::page::{PartialRow, complete};
pub(super) use self::unjoined::RowWithDid;

use super::partitions::PerPartition;
use super::reads::Reads;
use super::select::{Columns, Dialect, PostgresDialect, Select, SqliteDialect, Value, bound};
use super::{Db, StoreError, intern};

/// A record with the columns that lists and scripts use.
#[derive(Clone, Debug)]
pub struct RecordRow {
    pub id: i64,
    pub did: String,
    pub collection: Nsid,
    pub rkey: String,
    pub indexed_at: Timestamp,
    /// `None` if it is not known, and in a row of a query without [`Query::with_cid`](crate::query::Query).
    pub cid: Option<Cid>,
    /// A JSON object, as it was written. PostgreSQL makes the text of a record that it keeps none of (ADR 84).
    pub record: Bytes,
}

/// A record with all columns that the admin API shows.
#[derive(Clone, Debug)]
pub struct FullRecordRow {
    pub row: RecordRow,
    pub cid_verified: bool,
    pub updated_at: Timestamp,
    /// The reason why its lexicon rejects the record; `None` for a valid one.
    pub invalid_reason: Option<String>,
}

impl RecordRow {
    /// `at://did/collection/rkey`
    pub fn uri(&self) -> String {
        format!("at://{}/{}/{}", self.did, self.collection, self.rkey)
    }
}

/// A row of either database, with the columns of a row ([`Columns`]) in their order. On PostgreSQL it is a [`RowWithDid`], because its
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
                let cid: Option<&[u8]> = $columns.try_get(6)?;
                let cid = cid.map(Cid::from_bytes).transpose();
                let row = RecordRow {
                    id: $columns.try_get(0)?,
                    did: $did,
                    collection,
                    rkey: $columns.try_get(2)?,
                    indexed_at: $columns.try_get(3)?,
                    cid: cid.map_err(|error| sqlx::Error::Decode(error.into()))?,
                    record: Bytes::from(record.unwrap_or_default()),
                };
                Ok(PartialRow { row, size: $columns.try_get(5)?, values: Vec::new() })
            }

            fn raw_full(self, collection: Nsid) -> Result<PartialRow<FullRecordRow>, StoreError> {
                let $this = &self;
                let (cid_verified, updated_at) = ($columns.try_get(7)?, $columns.try_get(8)?);
                let invalid_reason = $columns.try_get(9)?;
                let found = self.raw(collection)?;
                Ok(found.map(|row| FullRecordRow { row, cid_verified, updated_at, invalid_reason }))
            }
        }
    };
}
raw_row!(SqliteRow, |row| row, row.try_get(1)?);
raw_row!(RowWithDid, |row| row.columns, row.did.to_string());

impl Select<'_> {
    /// Reads the rows, on the pool of scans or of reads by an index.
    pub(super) async fn rows(&self, db: &Db, scans: bool) -> Result<Vec<PartialRow<RecordRow>>, StoreError> {
        match db {
            Db::Sqlite(db) => {
                let text = db.text(self.statement::<SqliteDialect>(), scans).await?;
                packed::unpack(text, self.nsid)
            }
            Db::Postgres(db) => {
                let pool = db.pool_of(self.collection.partition, Reads::of_scan(scans));
                let found = bound!(self.statement::<PostgresDialect>()).fetch_all(pool.reads()).await?;
                rows(unjoined::with_dids(db, found).await?, self.nsid)
            }
        }
    }

    /// Reads the rows of a statement with all columns.
    pub(super) async fn full_rows(&self, db: &Db) -> Result<Vec<PartialRow<FullRecordRow>>, StoreError> {
        match db {
            Db::Sqlite(db) => {
                let query = bound!(self.statement::<SqliteDialect>());
                full_rows(query.fetch_all(db.read_pool.reads()).await?, self.nsid)
            }
            Db::Postgres(db) => {
                let query = bound!(self.statement::<PostgresDialect>());
                let found =
                    query.fetch_all(db.pool_of(self.collection.partition, Reads::Hot).reads()).await?;
                full_rows(unjoined::with_dids(db, found).await?, self.nsid)
            }
        }
    }
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

/// One record by its URI: it is visible, or an operator has hidden it or its account from lists only.
fn get_sql<D: Dialect>(records: &str, columns: Columns) -> String {
    const HIDDEN: &str = "(SELECT 0 AS id, h.*, NULL AS record_text FROM hidden_records h \
                          WHERE h.is_readable = TRUE AND h.record IS NOT NULL)";
    let of = |records: &str| {
        format!(
            "SELECT {} FROM dids d CROSS JOIN {records} r WHERE d.did = $2 \
                 AND (d.status = 0 OR d.status = 6 AND d.network_status = 0) AND r.collection_id = $1 \
                 AND r.did_id = d.id AND r.rkey = $3",
            D::columns(columns)
        )
    };
    format!("{} UNION ALL {}", of(records), of(HIDDEN))
}
static GET_SQLITE: PerPartition<String> =
    PerPartition::new(|of| get_sql::<SqliteDialect>(&of.records, Columns::Whole));
/// The record as a packed list of one.
static GET_PACKED: PerPartition<String> = PerPartition::new(|of| {
    format!("SELECT p FROM ({}) LIMIT 1", get_sql::<SqliteDialect>(&of.records, Columns::Packed))
});
pub(in crate::store) static GET_POSTGRES: PerPartition<String> =
    PerPartition::new(|of| get_sql::<PostgresDialect>(&of.records, Columns::Whole));

macro_rules! fetch_one {
    ($db:expr, $sql:expr, $collection:expr, $uri:expr) => {
        sqlx::query(*$sql.of($collection.partition))
            .bind($collection.id)
            .bind($uri.did.as_str())
            .bind($uri.rkey.as_str())
            .fetch_optional($db.pool_of($collection.partition, Reads::Hot).reads())
            .await?
    };
}

/// A record by its URI, also one that is hidden from lists. One that is taken down is `None`.
pub async fn get(db: &Db, uri: &RecordUri) -> Result<Option<RecordRow>, StoreError> {
    let Some(collection) = intern::collection(db, &uri.collection).await? else { return Ok(None) };
    let row = match db {
        Db::Sqlite(db) => {
            let text = |text: &str| Value::Text(text.to_owned());
            let values = [Value::Integer(collection.id), text(uri.did.as_str()), text(uri.rkey.as_str())];
            if let Ok(text) = db.in_place.text(GET_PACKED.of(collection.partition), &values) {
                let found = packed::unpack(text, &uri.collection)?.pop();
                // A large record is left out.
                if found.as_ref().is_none_or(|found| !found.row.record.is_empty()) {
                    return Ok(found.map(|found| found.row));
                }
            }
            fetch_one!(db, GET_SQLITE, collection, uri).map(|row| row.raw(uri.collection.clone()))
        }
        Db::Postgres(db) => fetch_one!(db, GET_POSTGRES, collection, uri)
            .map(|row| RowWithDid::new(row, &uri.did).raw(uri.collection.clone())),
    };
    Ok(row.transpose()?.map(|found| found.row))
}

#[cfg(any(test, feature = "testing"))]
pub async fn get_full(db: &Db, uri: &RecordUri) -> Result<Option<FullRecordRow>, StoreError> {
    Ok(get_many_full(db, std::slice::from_ref(uri), Room::of(PAGE_BYTES)).await?.rows.pop())
}
