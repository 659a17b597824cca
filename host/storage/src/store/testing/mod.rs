//! Reads and writes of the database for tests of other rooms, beside the store's own functions.

mod counts;
mod db;

pub use counts::{drop_counting_triggers, wrong_counts};
pub use db::{TestDb, both, postgres, sqlite};

use super::index::{self, AccountChange, AccountStatus, ApplyReport, Batch};
use super::{Db, StoreError, intern, on};
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::{Did, Tid};

/// Later than the commits of tests, in microseconds.
const LATE_MICROS: u64 = 1_700_000_000_001_000;

/// A record of a repo as it is stored, visible or not; without a key for a repo that has none.
#[derive(Debug, sqlx::FromRow)]
pub struct StoredRecord {
    pub did: String,
    /// The account's status, as a number.
    pub status: i64,
    /// Marks to read the repo again.
    pub marks: i64,
    pub rkey: Option<String>,
    /// JSON text.
    pub record: Option<String>,
    /// One of its references.
    pub target: Option<String>,
}

/// The records of a collection of all repos whose DIDs begin with `prefix`; one row for each reference.
pub async fn stored_records(
    db: &Db,
    collection: &str,
    prefix: &str,
) -> Result<Vec<StoredRecord>, StoreError> {
    let sql = "SELECT d.did, CAST(d.status AS BIGINT) AS status, \
                   (SELECT count(*) FROM repo_repairs m WHERE m.did_id = d.id) AS marks, \
                   r.rkey, CAST(r.record AS TEXT) AS record, f.target \
               FROM dids d LEFT JOIN records r ON r.did_id = d.id \
                   AND r.collection_id = (SELECT id FROM collections WHERE nsid = $1) \
               LEFT JOIN record_refs f ON f.record_id = r.id WHERE d.did >= $2 AND d.did < $3";
    let end = format!("{prefix}~");
    Ok(on!(db, reader, |pool| {
        sqlx::query_as(sql).bind(collection).bind(prefix).bind(end).fetch_all(pool).await
    })?)
}

/// References of records that do not exist.
pub async fn count_dangling_references(db: &Db) -> Result<i64, StoreError> {
    let sql = "SELECT count(*) FROM record_refs WHERE record_id NOT IN (SELECT id FROM records)";
    Ok(on!(db, reader, |pool| sqlx::query_scalar(sql).fetch_one(pool).await)?)
}

/// Adds three entries of indexes of fields, two of them ready, without their indexes: what a move leaves.
pub async fn add_moved_field_indexes(db: &Db) -> Result<(), StoreError> {
    let sql = "INSERT INTO collections (id, nsid) VALUES (1, 'com.example.note'); \
               INSERT INTO field_indexes (id, collection_id, path, kind, state, calls, scans, scan_micros, \
                   last_used_at, state_changed_at) VALUES (1, 1, 'a', 0, 2, 5, 5, 5, 1, 1), \
                   (2, 1, 'b', 2, 1, 5, 5, 5, 1, 1), (3, 1, 'c', 0, 0, 5, 5, 5, 1, 1)";
    on!(db, writer, |pool| sqlx::raw_sql(sql).execute(pool).await.map(drop))?;
    Ok(())
}

/// The number of indexes for the entries of [`add_moved_field_indexes`].
pub async fn count_moved_field_indexes(db: &Db) -> Result<i64, StoreError> {
    let sql = match db {
        Db::Sqlite(_) => {
            "SELECT count(*) FROM sqlite_schema WHERE name IN ('field_index_1', 'field_search_2', 'field_index_3')"
        }
        Db::Postgres(_) => {
            "SELECT count(*) FROM pg_class WHERE relkind = 'i' \
                 AND relname IN ('field_index_1', 'field_search_2', 'field_index_3')"
        }
    };
    Ok(on!(db, reader, |pool| sqlx::query_scalar(sql).fetch_one(pool).await)?)
}

/// Adds an account, so that its events count.
///
/// # Panics
/// When the database does not answer.
pub async fn add_account(db: &Db, did: &Did) {
    intern::did_ids(db, std::iter::once(did)).await.expect("the database answers");
}

/// Applies an account event of the stream that is later than all commits of a test. One of an unknown account changes nothing.
///
/// # Panics
/// When the database does not answer.
pub async fn set_account_status(db: &Db, did: &Did, status: AccountStatus) -> ApplyReport {
    let rev = Tid::new(LATE_MICROS, 0).expect("a time that a TID can have");
    let accounts = vec![AccountChange { did: did.clone(), status, rev }];
    let batch = Batch { accounts, now: Timestamp(9), ..Batch::default() };
    index::apply(db, &batch).await.expect("the database answers")
}

/// The number of public records.
///
/// # Panics
/// When the database does not answer.
pub async fn record_count(db: &Db) -> i64 {
    let count = async || -> Result<i64, StoreError> {
        Ok(on!(db, reader, |pool| sqlx::query_scalar("SELECT count(*) FROM records").fetch_one(pool).await)?)
    };
    count().await.expect("the database answers")
}
