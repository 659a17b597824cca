//! Reads a page of the records of many accounts in the order of time.
//!
//! A list of many accounts usually has a good part of what the collection's next records are. So these are looked through first,
//! up to [`NEAR`]. They fill the page of a reader who follows active accounts.
//!
//! Otherwise records of other accounts are not read. The index of lists has the records of an account in the order of time. The
//! first statement looks up the first record of each account after the cursor, and returns as many accounts as the page has rows:
//! every other account has so many records before its first one. The lists of these accounts are then read and merged, until the
//! next account begins after the end of the page. So an account without recent records costs a look into the index.

use std::time::Instant;

use sqlx::Row;

use crate::query::{Direction, PageSize, Query};
use crate::store::intern::{self, Collection};
use crate::store::reads::Reads;
use crate::store::records::{PartialRow, RecordRow};
use crate::store::scans::SCAN_TIME_LIMIT;
use crate::store::select::{
    Among, By, Dialect, PostgresDialect, Select, Sql, SqliteDialect, Value, bound, direction_words, hidden,
};
use crate::store::types::to_json_text;
use crate::store::{Db, StoreError};
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Did;

use super::merge::Merged;

/// The records of a collection, of any account, that are looked through for a page: a millisecond or two.
const NEAR: i64 = 2_000;

/// The accounts from which on a look into the index for each takes longer than looking through the next records.
const MANY_ACCOUNTS: usize = 200;

/// The first record of an account.
struct Head {
    did: Did,
    at: (Timestamp, i64),
}

/// The rows of a query of accounts that has no other conditions and is by time. `scans`: they are read on the pool of scans, account by
/// account.
pub(super) async fn rows(
    db: &Db,
    query: &Query,
    collection: Collection,
    dids: &[Did],
    scans: bool,
) -> Result<Vec<PartialRow<RecordRow>>, StoreError> {
    let accounts = intern::existing_did_ids(db, dids).await?;
    if !scans
        && accounts.len() >= MANY_ACCOUNTS
        && let Some(found) = near(db, query, collection, &accounts).await?
    {
        return Ok(found);
    }
    let started = Instant::now();
    let mut merged = Merged::of(query);
    for head in heads(db, query, collection, &accounts, scans).await? {
        if merged.is_before(head.at) {
            break;
        }
        if started.elapsed() > SCAN_TIME_LIMIT {
            return Err(StoreError::TooSlow);
        }
        let select = Select { did: Some(&head.did), among: None, ..Select::of(query, collection, By::Time) };
        merged.add(select.rows(db, scans).await?);
    }
    Ok(merged.into_rows())
}

/// The rows of the page, if the next records of the collection have them all.
async fn near(
    db: &Db,
    query: &Query,
    collection: Collection,
    accounts: &[i64],
) -> Result<Option<Vec<PartialRow<RecordRow>>>, StoreError> {
    let last = nth_time(db, query, collection).await?;
    let mut narrow = query.narrow.clone();
    match query.direction() {
        Direction::Desc => narrow.from = last,
        Direction::Asc => narrow.before = last.map(|Timestamp(last)| Timestamp(last.saturating_add(1))),
    }
    let by_ids = Select { among: Some(Among::Ids(accounts)), ..Select::of(query, collection, By::Time) };
    let select = Select { narrow: &narrow, ..by_ids };
    let found = select.rows(db, false).await?;
    let is_full = found.len() >= PageSize::rows_read(query.limit) as usize;
    Ok((is_full || last.is_none()).then_some(found))
}

/// The time of the record that has [`NEAR`] records of the collection between itself and the cursor.
async fn nth_time(db: &Db, query: &Query, collection: Collection) -> Result<Option<Timestamp>, StoreError> {
    let (direction, than) = direction_words(query.direction());
    let mut sql = Sql::new();
    let id = sql.bind(Value::Integer(collection.id));
    let records = collection.partition.records();
    sql.push(format_args!("SELECT r.indexed_at FROM {records} r WHERE r.collection_id = {id}"));
    if let Some(after) = query.after_time() {
        let time = sql.bind(Value::Integer(after.indexed_at.0));
        sql.push(format_args!(" AND r.indexed_at {than}= {time}"));
    }
    sql.push(format_args!(" ORDER BY r.indexed_at {direction}, r.id {direction} LIMIT 1 OFFSET {NEAR}"));
    macro_rules! time {
        ($db:expr) => {{
            let pool = $db.pool_of(collection.partition, Reads::Hot);
            bound!(sql).fetch_optional(pool.reads()).await?.map(|row| row.try_get(0)).transpose()?
        }};
    }
    let time: Option<i64> = match db {
        Db::Sqlite(db) => time!(db),
        Db::Postgres(db) => time!(db),
    };
    Ok(time.map(Timestamp))
}

/// The accounts whose first records are the first of all, in their order.
async fn heads(
    db: &Db,
    query: &Query,
    collection: Collection,
    accounts: &[i64],
    scans: bool,
) -> Result<Vec<Head>, StoreError> {
    macro_rules! fetch {
        ($db:expr, $sql:expr) => {{
            let pool = $db.pool_of(collection.partition, Reads::of_scan(scans));
            let rows = bound!($sql).fetch_all(pool.reads()).await?;
            let head = |row: &_| {
                let did: String = Row::try_get(row, 0)?;
                Ok((did, Row::try_get(row, 1)?, Row::try_get(row, 2)?))
            };
            rows.iter().map(head).collect::<Result<Vec<_>, sqlx::Error>>()?
        }};
    }
    let found = match db {
        Db::Sqlite(db) => fetch!(db, sqlite(query, collection, accounts)),
        Db::Postgres(db) => fetch!(db, postgres(query, collection, accounts)),
    };
    let head = |(did, at, id): (String, i64, i64)| {
        let did = Did::try_from(did.as_str()).map_err(|error| StoreError::Corrupt(error.to_string()))?;
        Ok(Head { did, at: (Timestamp(at), id) })
    };
    found.into_iter().map(head).collect()
}

/// The conditions and the order of the records of the account `a` after the cursor.
fn write_list<D: Dialect>(query: &Query, collection: Collection, sql: &mut Sql) -> String {
    let (direction, than) = direction_words(query.direction());
    let id = sql.bind(Value::Integer(collection.id));
    let after = query.after_time().map_or_else(String::new, |after| {
        let (time, id) = (sql.bind(Value::Integer(after.indexed_at.0)), sql.bind(Value::Integer(after.id)));
        format!(" AND (r.indexed_at, r.id) {than} ({time}, {id})")
    });
    let hidden = hidden::<D>(sql, &query.collection, &query.narrow.hidden, "a.did");
    let valid =
        if query.valid == Some(true) { collection.partition.tables().and_valid() } else { String::new() };
    format!(
        "r.collection_id = {id} AND r.did_id = a.id{after}{hidden}{valid} \
         ORDER BY r.indexed_at {direction}, r.id {direction} LIMIT 1"
    )
}

fn direction_and_limit(sql: &mut Sql, query: &Query) -> String {
    let (direction, _) = direction_words(query.direction());
    let limit = sql.bind(Value::Integer(i64::from(PageSize::rows_read(query.limit))));
    format!("ORDER BY 2 {direction}, 3 {direction} LIMIT {limit}")
}

/// SQLite has no LATERAL, so the time and the id are two lookups, of which the second finds the page of the first in memory.
fn sqlite(query: &Query, collection: Collection, accounts: &[i64]) -> Sql {
    let mut sql = Sql::new();
    let list_of = write_list::<SqliteDialect>(query, collection, &mut sql);
    let accounts = sql.bind(Value::Text(to_json_text(accounts)));
    let order = direction_and_limit(&mut sql, query);
    sql.push(format_args!(
        "WITH h AS MATERIALIZED (SELECT a.did, (SELECT r.indexed_at FROM records r WHERE {list_of}) AS time, \
             (SELECT r.id FROM records r WHERE {list_of}) AS id \
         FROM json_each({accounts}) j CROSS JOIN dids a WHERE a.id = j.value AND a.status = 0) \
         SELECT did, time, id FROM h WHERE time IS NOT NULL {order}"
    ));
    sql
}

fn postgres(query: &Query, collection: Collection, accounts: &[i64]) -> Sql {
    let mut sql = Sql::new();
    let list_of = write_list::<PostgresDialect>(query, collection, &mut sql);
    let accounts = sql.bind(Value::Text(to_json_text(accounts)));
    let order = direction_and_limit(&mut sql, query);
    let records = collection.partition.records();
    sql.push(format_args!(
        "SELECT a.did, f.indexed_at, f.id FROM jsonb_array_elements({accounts}::text::jsonb) j(id) \
         CROSS JOIN LATERAL (SELECT id, did FROM dids WHERE dids.id = j.id::bigint AND status = 0 LIMIT 1) a \
         CROSS JOIN LATERAL (SELECT r.indexed_at, r.id FROM {records} r WHERE {list_of}) f {order}"
    ));
    sql
}
