//! Runs `db.query`: filters and sorts on record fields, compiled to SQL for each database.
//!
//! Only validated paths (letters, digits, `_`) and operators become part of the SQL text; values are parameters.
//! [`crate::query::filter`] defines comparisons and [`crate::query::sort`] orders; `sqlite` and `postgres` implement
//! them.
//!
//! A query uses an index of a field if there is one (`access`, `walk`). Otherwise it scans the collection, for which
//! its tenant needs a place in the pool of scans ([`super::scans`]). Its duration is recorded, and
//! `jobs::field_indexes` builds indexes for the fields that cost most.

mod access;
mod bounds;
mod compile;
mod narrow;
mod postgres;
mod sql;
mod sqlite;
mod walk;

use std::time::{Duration, Instant};

use sqlx::Row;

use crate::query::Keyset;
use crate::query::filter::Filter;
use crate::query::sort::{Sort, SortKey, SortKeyset, SortValue};
use belvedere_protocol::atproto::{Did, Nsid};
use belvedere_web::fair_share::Tenant;

use super::intern::{self, Collection};
use super::records::{
    self, HasRecord, ListArgs, PAGE_BYTES, PartialRow, RawRow, RecordRow, Slice, complete, invalid, packed,
    page_rows, rows_to_read, unjoined,
};
use super::scans::SCAN_TIME_LIMIT;
use super::{Db, StoreError};

pub use narrow::{HasLabel, Narrow};
pub(super) use postgres::Dialect as PostgresDialect;
pub(super) use sql::{Classes, Dialect, Keys, MISSING, Sql, Value};
pub(super) use sqlite::Dialect as SqliteDialect;

/// Longer statements are not kept prepared: connections keep some hundred, and those of large filters differ.
pub(super) const MAX_KEPT_BYTES: usize = 8_192;

/// Creates the sqlx query of a [`Sql`], with its values bound.
macro_rules! bound {
    ($sql:expr) => {{
        let $crate::store::query::Sql { text, values } = $sql;
        let is_kept = text.len() <= $crate::store::query::MAX_KEPT_BYTES;
        let mut query = sqlx::query(sqlx::AssertSqlSafe(text)).persistent(is_kept);
        for value in values {
            query = match value {
                $crate::store::query::Value::Text(text) => query.bind(text),
                $crate::store::query::Value::Integer(n) => query.bind(n),
                $crate::store::query::Value::Float(n) => query.bind(n),
                $crate::store::query::Value::Boolean(b) => query.bind(b),
            };
        }
        query
    }};
}
pub(super) use bound;

/// The arguments of [`query`].
#[derive(Clone, Debug)]
pub struct QueryArgs<'a> {
    pub collection: &'a Nsid,
    pub did: Option<&'a Did>,
    pub filter: Option<&'a Filter>,
    pub narrow: &'a Narrow,
    /// Only records that their lexicon accepts, or only those that it rejects.
    pub valid: Option<bool>,
    pub order: Order<'a>,
    /// Maximum number of rows of the page.
    pub limit: u32,
    /// The tenant whose share of the scan pool a scan uses.
    pub tenant: &'a Tenant,
}

impl QueryArgs<'_> {
    /// Rows to read: one more than the page has, to know whether another page follows.
    fn rows(&self) -> i64 {
        rows_to_read(self.limit)
    }

    /// The same as a list, whose statements are constant, if the query has no condition and the order of lists.
    fn as_list(&self) -> Option<ListArgs<'_>> {
        let Order::Newest { after } = self.order else { return None };
        let is_list = self.filter.is_none() && self.valid.is_none() && *self.narrow == Narrow::default();
        is_list.then_some(ListArgs {
            collection: self.collection,
            did: self.did,
            limit: self.limit,
            after,
            tenant: self.tenant,
        })
    }
}

/// The order of a query's rows, and the keyset after which its page begins.
#[derive(Clone, Debug)]
pub enum Order<'a> {
    /// Newest first.
    Newest { after: Option<Keyset> },
    /// By a sort key. `after` must be a value that the sort accepts ([`Sort::accepts`]).
    By { sort: &'a Sort, after: Option<&'a SortKeyset> },
}

/// A row with its keyset in the query's order.
#[derive(Clone, Debug)]
pub struct QueryRow {
    pub row: RecordRow,
    /// `Some` for [`Order::By`].
    pub place: Option<SortKeyset>,
}

impl HasRecord for QueryRow {
    fn record_row(&mut self) -> &mut RecordRow {
        &mut self.row
    }
}

/// Reads a page of at most [`PAGE_BYTES`] of records.
///
/// # Errors
/// [`StoreError::Busy`], and [`StoreError::TooSlow`] for a scan.
pub async fn query(db: &Db, args: &QueryArgs<'_>) -> Result<Slice<QueryRow>, StoreError> {
    let Some(collection) = intern::collection(db, args.collection).await? else {
        return Ok(Slice::empty());
    };
    if let Some(list) = args.as_list() {
        let Slice { rows, more } = records::list(db, &list).await?;
        return Ok(Slice { rows: rows.into_iter().map(|row| QueryRow { row, place: None }).collect(), more });
    }
    let candidates = access::IndexCandidates::of(collection, args);
    let chosen = candidates.choose(db, args).await;
    let index = chosen.as_ref().ok().and_then(access::AccessPath::index);
    let ran = match chosen {
        Ok(chosen) => run(db, collection, args, &chosen).await,
        Err(error) => Err(error),
    };
    let (ran, index) = match ran {
        // Another process may have dropped the index in the meantime.
        Err(StoreError::Database(error)) if db.fields().any_ready() => {
            tracing::debug!(%error, "a query by an index failed; scanning the collection instead");
            candidates.forget(db);
            (run(db, collection, args, &access::AccessPath::Scan).await, None)
        }
        ran => (ran, index),
    };
    let (found, took) = match ran {
        Ok(ran) => ran,
        Err(error) => {
            // A query that was stopped needs an index most.
            if matches!(error, StoreError::TooSlow) {
                candidates.note(db, index, SCAN_TIME_LIMIT);
            }
            return Err(error);
        }
    };
    candidates.note(db, index, took);
    complete(db, found, page_rows(args.limit), PAGE_BYTES).await
}

/// The database's plan for a query, with one line per step. Tests use it to check which index a query uses.
///
/// # Errors
/// As [`query`].
#[cfg(test)]
pub async fn explain(db: &Db, args: &QueryArgs<'_>) -> Result<String, StoreError> {
    let Some(collection) = intern::collection(db, args.collection).await? else {
        return Ok(String::new());
    };
    let mut sql = match access::IndexCandidates::of(collection, args).choose(db, args).await? {
        access::AccessPath::Scan => compile::compile(db.backend(), collection, args, None),
        access::AccessPath::Filter { bounds, .. } => {
            compile::compile(db.backend(), collection, args, Some(&bounds))
        }
        access::AccessPath::Sort(walk) => walk.first(db.backend(), collection, args),
    };
    let (word, column) = match db.backend() {
        super::Backend::Sqlite => ("EXPLAIN QUERY PLAN", 3),
        super::Backend::Postgres => ("EXPLAIN", 0),
    };
    sql.text = format!("{word} {}", sql.text);
    macro_rules! fetch {
        ($read_pool:expr) => {{
            let query = bound!(sql);
            let rows = query.fetch_all($read_pool.reads()).await?;
            rows.iter().map(|row| row.try_get(column)).collect::<Result<Vec<String>, _>>()?
        }};
    }
    let lines = match db {
        Db::Sqlite(db) => fetch!(db.read_pool),
        Db::Postgres(db) => fetch!(db.read_pool),
    };
    Ok(lines.join("\n"))
}

/// Returns the rows and the duration of the query.
async fn run(
    db: &Db,
    collection: Collection,
    args: &QueryArgs<'_>,
    chosen: &access::AccessPath<'_>,
) -> Result<(Vec<PartialRow<QueryRow>>, Duration), StoreError> {
    let is_cheap =
        chosen.is_cheap(args) && (args.valid.is_none() || invalid::are_few(db, collection.id).await?);
    let _place =
        if is_cheap { db.read_place(args.tenant).await? } else { db.scan_place(args.tenant).await? };
    let (started, scans) = (Instant::now(), !is_cheap);
    let found = match chosen {
        access::AccessPath::Scan => {
            fetch(db, scans, compile::compile(db.backend(), collection, args, None), args).await
        }
        access::AccessPath::Filter { bounds, .. } => {
            fetch(db, scans, compile::compile(db.backend(), collection, args, Some(bounds)), args).await
        }
        access::AccessPath::Sort(walk) => walk.rows(db, scans, collection, args).await,
    };
    Ok((found?, started.elapsed()))
}

/// Runs a statement whose columns are those of a row, followed for [`Order::By`] by those of its position.
async fn fetch(
    db: &Db,
    scans: bool,
    sql: Sql,
    args: &QueryArgs<'_>,
) -> Result<Vec<PartialRow<QueryRow>>, StoreError> {
    match db {
        Db::Sqlite(db) => {
            let read_pool = if scans { &db.scan_pool } else { &db.read_pool };
            if matches!(args.order, Order::By { .. }) {
                let rows = bound!(sql).fetch_all(read_pool.reads()).await?;
                return rows.into_iter().map(|row| read(row, args)).collect();
            }
            let sql = Sql { text: packed::statement(&sql.text), ..sql };
            let query = bound!(sql);
            let text = query.fetch_one(read_pool.reads()).await?.try_get(0)?;
            let rows = packed::unpack(text, args.collection, args.limit)?;
            Ok(rows.into_iter().map(|found| found.map(|row| QueryRow { row, place: None })).collect())
        }
        Db::Postgres(db) => {
            let read_pool = if scans { &db.scan_pool } else { &db.read_pool };
            let rows = bound!(sql).fetch_all(read_pool.reads()).await?;
            unjoined::named(db, rows).await?.into_iter().map(|row| read(row, args)).collect()
        }
    }
}

fn read<R: RawRow + PositionRow>(row: R, args: &QueryArgs<'_>) -> Result<PartialRow<QueryRow>, StoreError> {
    let place = match args.order {
        Order::Newest { .. } => None,
        Order::By { sort, .. } => {
            let (class, text) = row.position()?;
            Some(sort_value(sort, class, text.unwrap_or_default()))
        }
    };
    let found = row.raw(args.collection.clone())?;
    Ok(found.map(|row| QueryRow { place: place.map(|value| SortKeyset { value, id: row.id }), row }))
}

/// Reads the class and the text of a row's sort value, from [`Dialect::POSITION`].
pub(super) trait PositionRow {
    fn position(&self) -> Result<(i64, Option<String>), sqlx::Error>;
}

fn sort_value(sort: &Sort, class: i64, text: String) -> SortValue {
    let classes = Classes::of(sort.direction);
    match &sort.key {
        SortKey::IndexedAt => SortValue::Number(text),
        SortKey::Did | SortKey::Uri => SortValue::Text(text),
        SortKey::Field(_) if class == classes.number => SortValue::Number(text),
        SortKey::Field(_) if class == classes.text => SortValue::Text(text),
        SortKey::Field(_) if class == classes.boolean => SortValue::Boolean(text == "1"),
        SortKey::Field(_) => SortValue::Missing,
    }
}
