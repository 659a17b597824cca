//! Helpers to create records and batches.

use bytes::Bytes;
use serde_json::Value;

use crate::query::{Position, Query};
use crate::store::Db;
use crate::store::index::{
    self, AccountChange, AccountStatus, ApplyReport, Batch, Change, CheckedRecord, StreamCursor, Validity,
};
use crate::store::labelers;
use crate::store::labels::Label;
use crate::store::partitions::Tables;
use crate::store::query;
use crate::store::records::{self, RecordRow};
use crate::store::testing;
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::record::Ref;
use belvedere_protocol::atproto::{Did, Nsid, RecordKey, RecordUri, Tid};
use belvedere_web::fair_share::Tenant;

pub const NOTE: &str = "com.example.note";
pub const LIKE: &str = "com.example.like";

/// A tenant for tests in which it does not matter.
pub static US: Tenant = Tenant::Instance;

pub fn did(n: u32) -> Did {
    Did::try_from(format!("did:plc:{n:024}").as_str()).unwrap()
}

pub fn nsid(text: &str) -> Nsid {
    Nsid::try_from(text).unwrap()
}

pub fn uri(n: u32, collection: &str, rkey: &str) -> RecordUri {
    RecordUri { did: did(n), collection: nsid(collection), rkey: RecordKey::try_from(rkey).unwrap() }
}

/// A rev; revs are in the order of `n`.
pub fn rev(n: u64) -> Tid {
    Tid::new(1_700_000_000_000_000 + n, 0).unwrap()
}

pub fn put(uri: &RecordUri, n: u64, record: &str) -> Change {
    put_with_refs(uri, n, record, &[])
}

pub fn put_with_refs(uri: &RecordUri, n: u64, record: &str, refs: &[&str]) -> Change {
    let record = CheckedRecord {
        text: Bytes::copy_from_slice(record.as_bytes()),
        cid: None,
        cid_verified: false,
        refs: refs
            .iter()
            .map(|&target| Ref { target: target.to_owned(), paths: "subject.uri".into() })
            .collect(),
        validity: Validity::Unchecked,
    };
    Change { uri: uri.clone(), rev: rev(n), record: Some(record) }
}

pub fn take(uri: &RecordUri, n: u64) -> Change {
    Change { uri: uri.clone(), rev: rev(n), record: None }
}

pub async fn apply(db: &Db, now: i64, changes: Vec<Change>) -> ApplyReport {
    let batch = Batch { changes, now: Timestamp(now), ..Batch::default() };
    index::apply(db, &batch).await.unwrap()
}

/// An account event after the commit with `rev`.
pub fn account(n: u32, status: AccountStatus, rev: Tid) -> AccountChange {
    AccountChange { did: did(n), status, rev }
}

/// An account event that is later than all commits of the tests.
pub async fn set_status(db: &Db, n: u32, status: AccountStatus) -> ApplyReport {
    testing::set_account_status(db, &did(n), status).await
}

pub fn cursor(n: i64) -> StreamCursor {
    StreamCursor { source: "jetstream".into(), cursor: n, commits_until: None }
}

/// The record's JSON, or `None` when it is missing or hidden.
pub async fn get(db: &Db, uri: &RecordUri) -> Option<Value> {
    records::get(db, uri).await.unwrap().map(|row| json(&row))
}

pub fn json(row: &RecordRow) -> Value {
    serde_json::from_slice(&row.record).unwrap()
}

/// The URIs of a collection, newest first.
pub async fn list(db: &Db, collection: &str) -> Vec<String> {
    let mut query = Query { limit: 10_000, ..Query::of(nsid(collection)) };
    let mut uris = Vec::new();
    loop {
        let page = query::read(db, &query, &US).await.unwrap();
        uris.extend(page.rows.iter().map(RecordRow::uri));
        if !advance(&mut query, page.next) {
            return uris;
        }
    }
}

/// The number of records of each collection.
pub async fn counts(db: &Db) -> Vec<(String, u64)> {
    let counts = records::collection_counts(db).await.unwrap();
    counts.into_iter().map(|counted| (counted.collection, counted.records)).collect()
}

/// (target, rkey of the source) of all references, sorted, read directly from the table.
pub async fn refs(db: &Db) -> Vec<(String, String)> {
    let sql = "SELECT f.target, r.rkey FROM record_refs f LEFT JOIN records r ON r.id = f.record_id \
               ORDER BY f.target, r.rkey";
    let rows: Vec<(String, Option<String>)> = match db {
        Db::Sqlite(db) => sqlx::query_as(sql).fetch_all(&db.reader).await,
        Db::Postgres(db) => sqlx::query_as(sql).fetch_all(&db.pool).await,
    }
    .unwrap();
    rows.into_iter().map(|(target, rkey)| (target, rkey.unwrap_or_else(|| "dangling".into()))).collect()
}

/// Runs statements of a test.
pub async fn execute(db: &Db, sql: &str) {
    let sql = sqlx::AssertSqlSafe(sql.to_owned());
    match db {
        Db::Sqlite(db) => sqlx::raw_sql(sql).execute(&db.writer).await.map(drop).unwrap(),
        Db::Postgres(db) => sqlx::raw_sql(sql).execute(&db.pool).await.map(drop).unwrap(),
    }
}

/// Runs a statement that changes rows of the index, with the names of its tables, on each part of the database.
pub async fn change(db: &Db, sql: impl Fn(&Tables) -> String) {
    for part in db.ids().parts().iter().copied() {
        execute(db, &sql(part.tables())).await;
    }
}

/// The number of rows of a table.
pub async fn count(db: &Db, table: &str) -> i64 {
    let sql = sqlx::AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
    match db {
        Db::Sqlite(db) => sqlx::query_scalar(sql).fetch_one(&db.reader).await,
        Db::Postgres(db) => sqlx::query_scalar(sql).fetch_one(&db.pool).await,
    }
    .unwrap()
}

/// Moves a query to its next page. Returns whether there is one.
///
/// # Panics
/// When the next page begins where this one began.
pub fn advance(query: &mut Query, next: Option<Position>) -> bool {
    let Some(next) = next else { return false };
    assert_ne!(query.after.as_ref(), Some(&next), "the page after {next:?} begins where it began");
    query.after = Some(next);
    true
}

/// The keys of all records on the pages before this position, read backwards.
pub async fn pages_before(db: &Db, query: &Query, mut before: Option<Position>) -> Vec<String> {
    let mut seen = Vec::new();
    while let Some(position) = before {
        let text = position.cursor_before();
        let (after, is_backwards) = Position::read_either(Some(&text), query.sort.as_ref()).unwrap();
        assert_eq!((after.as_ref(), is_backwards), (Some(&position), true));
        let query = Query { after, is_backwards, ..query.clone() };
        let page = query::read(db, &query, &US).await.unwrap();
        assert!(page.next.is_some(), "it has a page after it");
        assert_ne!(page.previous, Some(position));
        seen.splice(0..0, page.rows.into_iter().map(|row| row.rkey));
        before = page.previous;
    }
    seen
}

/// The keys of all records of a query, read backwards from its end.
pub async fn pages_from_end(db: &Db, query: &Query) -> Vec<String> {
    let last = query::read(db, &Query { is_backwards: true, ..query.clone() }, &US).await.unwrap();
    let mut seen = pages_before(db, query, last.previous).await;
    seen.extend(last.rows.into_iter().map(|row| row.rkey));
    seen
}

/// Stores labels as the subscription to a labeler does, a moment after the latest was created.
pub async fn store_labels(db: &Db, labeler: &str, stored: &[Label]) {
    let received = stored.iter().map(|label| label.cts).max().unwrap_or_default();
    store_labels_at(db, labeler, stored, received).await;
}

/// Like [`store_labels`], received at a time.
pub async fn store_labels_at(db: &Db, labeler: &str, stored: &[Label], received: Timestamp) {
    let did = Did::try_from(labeler).unwrap();
    labelers::create(db, &did, Timestamp(1)).await.unwrap();
    let from = labelers::get(db, labeler).await.unwrap().unwrap().cursor;
    assert!(labelers::store(db, &did, from, Some(from.unwrap_or(0) + 1), stored, received).await.unwrap());
}
