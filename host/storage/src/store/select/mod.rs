//! Writes the statements of lists and queries: which records, in which order, and which of their columns.
//!
//! A list must read an index in its order and look at the account of each row. The statements force this order (`CROSS
//! JOIN` on SQLite, a scalar subquery on PostgreSQL), because without statistics, as in a new database, both planners
//! choose another one.
//!
//! Two statements of the same shape differ only in their values. The text of a shape is written once, so that connections
//! find their prepared statement, and nothing is formatted for a list.

mod bounds;
mod columns;
mod conditions;
mod dialect;
mod index_kind;
#[cfg(test)]
mod plan;
mod postgres;
mod sql;
mod sqlite;

use std::collections::HashMap;
use std::sync::{LazyLock, PoisonError, RwLock};

use crate::query::{Direction, Filter, Keyset, Narrow, PageSize, Query};
use belvedere_protocol::atproto::{Did, Nsid};

use super::Backend;
use super::intern::Collection;
use super::partitions::Partition;

pub(super) use self::bounds::{Bound, Bounds, Values, conditions, within};
pub(super) use self::columns::{Columns, INLINE_BYTES, WHOLE_TEXT, full};
pub(super) use self::conditions::{hidden, is_visible};
pub(super) use self::dialect::{Classes, Dialect, InIndex, Keys, MISSING, ValueType};
pub use self::index_kind::IndexKind;
#[cfg(test)]
pub(super) use self::plan::plan;
pub(super) use self::postgres::Dialect as PostgresDialect;
pub(super) use self::sql::{Placeholder, Sql, Value, bound, escape};
pub(super) use self::sqlite::Dialect as SqliteDialect;

/// A statement that selects records of a collection.
#[derive(Clone, Debug)]
pub(super) struct Select<'a> {
    pub(super) nsid: &'a Nsid,
    pub(super) collection: Collection,
    pub(super) columns: Columns,
    pub(super) accounts: Accounts,
    pub(super) by: By<'a>,
    pub(super) did: Option<&'a Did>,
    pub(super) among: Option<Among<'a>>,
    pub(super) filter: Option<&'a Filter>,
    pub(super) narrow: &'a Narrow,
    /// Only records that their lexicon accepts, or only those that it rejects.
    pub(super) valid: Option<bool>,
    pub(super) direction: Direction,
    /// Only rows after this one, in the direction.
    pub(super) after: Option<Keyset>,
    /// The rows of the page. One more is read, which shows whether another page follows.
    pub(super) limit: u32,
}

/// The accounts whose records are selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Accounts {
    /// All, also hidden ones.
    All,
    /// Those that are not hidden.
    Visible,
    /// The same. They are joined as `d` on PostgreSQL too, which is cheaper for a statement that sorts all records it finds.
    VisibleJoined,
}

/// Many accounts, one of which has to have a record.
#[derive(Clone, Copy, Debug)]
pub(super) enum Among<'a> {
    Dids(&'a [Did]),
    /// By their ids, which the database finds them by at a tenth of the cost.
    Ids(&'a [i64]),
}

/// The way in which records are found, which is also their order.
#[derive(Clone, Copy, Debug)]
pub(super) enum By<'a> {
    /// In the order in which they were indexed.
    Time,
    /// Through an index of a field; the records of one value are in the order in which they were indexed.
    Field(&'a Bounds<'a>),
    /// Through an index with this name. The caller writes its conditions and the order.
    Index(&'a str),
    /// The records that refer to this URI or DID, at the given path or anywhere, in the order in which they were created.
    Target { target: Target<'a>, path: Option<&'a str> },
}

/// A target of links in a statement.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target<'a> {
    Value(&'a str),
    /// A column of a statement around this one.
    Column(&'static str),
}

impl Target<'_> {
    fn write(self, sql: &mut Sql) -> String {
        match self {
            Self::Value(value) => sql.bind(Value::Text(value.to_owned())).to_string(),
            Self::Column(column) => column.to_owned(),
        }
    }
}

/// Everything that the text of a statement depends on, unless a caller wrote a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Shape {
    backend: Backend,
    partition: Partition,
    columns: Columns,
    accounts: Accounts,
    is_by_target: bool,
    has_path: bool,
    has_did: bool,
    valid: Option<bool>,
    direction: Direction,
    has_after: bool,
    is_page: bool,
}

/// The keyword of a direction, and the operator for rows after a keyset.
pub(super) fn direction_words(direction: Direction) -> (&'static str, &'static str) {
    match direction {
        Direction::Asc => ("ASC", ">"),
        Direction::Desc => ("DESC", "<"),
    }
}

impl<'a> Select<'a> {
    /// A page of the visible records of a collection, newest first; at most the largest page of a list.
    pub(super) fn page(nsid: &'a Nsid, collection: Collection, limit: u32) -> Self {
        Self {
            nsid,
            collection,
            columns: Columns::Packed,
            accounts: Accounts::Visible,
            by: By::Time,
            did: None,
            among: None,
            filter: None,
            narrow: Narrow::ALL,
            valid: None,
            direction: Direction::Desc,
            after: None,
            limit: limit.min(PageSize::RECORDS.max),
        }
    }

    /// A page of a query. A sort by a value is not a part of it.
    pub(super) fn of(query: &'a Query, collection: Collection, by: By<'a>) -> Self {
        Self {
            by,
            columns: if query.with_cid { Columns::Packed } else { Columns::PackedWithoutCid },
            did: query.did.as_ref(),
            among: query.dids.as_deref().map(Among::Dids),
            filter: query.filter.as_ref(),
            narrow: &query.narrow,
            valid: query.valid,
            direction: query.direction(),
            after: query.after_time(),
            ..Self::page(&query.collection, collection, query.limit)
        }
    }

    /// The statement on the database of the dialect.
    pub(super) fn statement<D: Dialect>(&self) -> Sql {
        static TEXTS: LazyLock<RwLock<HashMap<Shape, &'static str>>> = LazyLock::new(RwLock::default);
        let Some(shape) = self.shape::<D>() else { return self.write::<D>(Sql::new()) };
        // A panic under the lock can't leave the map half-modified.
        let known = TEXTS.read().unwrap_or_else(PoisonError::into_inner).get(&shape).copied();
        if let Some(text) = known {
            return self.write::<D>(Sql::known(text));
        }
        let sql = self.write::<D>(Sql::new());
        let mut texts = TEXTS.write().unwrap_or_else(PoisonError::into_inner);
        // The shapes are few, and each is needed as long as the process lives.
        texts.entry(shape).or_insert_with(|| sql.text().to_owned().leak());
        sql
    }

    #[cfg(test)]
    pub(super) fn statement_on(&self, backend: Backend) -> Sql {
        match backend {
            Backend::Sqlite => self.statement::<SqliteDialect>(),
            Backend::Postgres => self.statement::<PostgresDialect>(),
        }
    }

    fn shape<D: Dialect>(&self) -> Option<Shape> {
        // Names each field, so that one that is added is decided on: statements of one shape have one text.
        let Self {
            nsid: _,
            collection,
            columns,
            accounts,
            by,
            did,
            among: _,
            filter: _,
            narrow: _,
            valid,
            direction,
            after,
            limit: _,
        } = *self;
        let (is_by_target, has_path) = match by {
            By::Time => (false, false),
            By::Target { path, .. } => (true, path.is_some()),
            By::Field(_) | By::Index(_) => return None,
        };
        (!self.has_conditions()).then_some(Shape {
            backend: D::BACKEND,
            partition: collection.partition,
            columns,
            accounts,
            is_by_target,
            has_path,
            has_did: did.is_some(),
            valid,
            direction,
            has_after: after.is_some(),
            is_page: self.is_page(),
        })
    }

    /// Whether the caller wrote a part of the text.
    fn has_conditions(&self) -> bool {
        self.filter.is_some() || self.among.is_some() || self.narrow != Narrow::ALL
    }

    fn is_page(&self) -> bool {
        self.limit <= PageSize::RECORDS.max
    }

    fn write<D: Dialect>(&self, mut sql: Sql) -> Sql {
        let (direction, than) = direction_words(self.direction);
        let is_plain = matches!(self.by, By::Time) && self.valid.is_none() && !self.has_conditions();
        let splits_times = D::SPLITS_TIMES && self.columns.is_packed() && is_plain;
        let limit = sql.bind(Value::Integer(i64::from(PageSize::rows_read(self.limit))));
        D::limited(&mut sql, self.columns, self.is_page(), limit, |sql| {
            self.write_rows::<D>(sql);
            match (self.by, self.after) {
                (_, Some(Keyset { indexed_at, id })) if splits_times => {
                    let (time, id) = (sql.bind(Value::Integer(indexed_at.0)), sql.bind(Value::Integer(id)));
                    sql.push(format_args!(" AND r.indexed_at = {time} AND r.id {than} {id} UNION ALL "));
                    self.write_rows::<D>(sql);
                    sql.push(format_args!(
                        " AND r.indexed_at {than} {time} ORDER BY 1 {direction}, 2 {direction}"
                    ));
                }
                (By::Target { .. }, after) => {
                    if let Some(Keyset { id, .. }) = after {
                        let id = sql.bind(Value::Integer(id));
                        sql.push(format_args!(" AND f.record_id {than} {id}"));
                    }
                    sql.push(format_args!(" ORDER BY f.record_id {direction}"));
                }
                (by, after) => {
                    let is_by_field = matches!(by, By::Field(_));
                    let (time, id) = if is_by_field { D::INDEX_ORDER } else { ("r.indexed_at", "r.id") };
                    if let Some(after) = after {
                        let after_time = sql.bind(Value::Integer(after.indexed_at.0));
                        let after_id = sql.bind(Value::Integer(after.id));
                        sql.push(format_args!(" AND ({time}, {id}) {than} ({after_time}, {after_id})"));
                    }
                    sql.push(format_args!(" ORDER BY "));
                    self.write_keys::<D>(sql, direction);
                    sql.push(format_args!("{time} {direction}, {id} {direction}"));
                }
            }
        });
        sql
    }

    /// The columns of the rows that meet all conditions but that of the page.
    fn write_rows<D: Dialect>(&self, sql: &mut Sql) {
        sql.push(format_args!("SELECT {}", D::columns(self.columns)));
        if self.columns == Columns::Full {
            sql.push(format_args!(", {}", full(self.collection.partition.tables())));
        }
        self.write_from::<D>(sql);
    }

    /// FROM and all conditions but that of the page.
    pub(super) fn write_from<D: Dialect>(&self, sql: &mut Sql) {
        D::from(sql, self.collection, self.by, self.accounts);
        match self.by {
            By::Time => {
                let collection = sql.bind(Value::Integer(self.collection.id));
                // Invalid records are found by their ids: the plus keeps the databases from reading the whole collection.
                let plus = if self.valid == Some(false) { "+" } else { "" };
                sql.push(format_args!(" AND {plus}r.collection_id = {collection}"));
            }
            By::Field(bounds) => {
                sql.push(format_args!(" AND "));
                within::<D>(sql, self.collection.id, bounds);
            }
            By::Target { path: Some(path), .. } => {
                let path = sql.bind(Value::Text(path.to_owned())).to_string();
                sql.push(format_args!(" AND {}", D::has_word("f.paths", &path)));
            }
            By::Index(_) | By::Target { path: None, .. } => {}
        }
        self.write_conditions::<D>(sql);
    }

    /// ORDER BY items before the time. PostgreSQL uses the order of the rows of one value in an index only if ORDER BY also
    /// lists the keys before it.
    fn write_keys<D: Dialect>(&self, sql: &mut Sql, direction: &str) {
        if let By::Field(bounds) = self.by
            && bounds.is_one_value()
            && D::ORDER_NAMES_NULLS
        {
            let Keys { num, txt, .. } = D::keys("r.record", bounds.path, Classes::INDEXED);
            sql.push(format_args!("{num} {direction}, {txt} {direction}, "));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use belvedere_base::clock::Timestamp;

    #[test]
    fn the_text_of_a_shape_is_written_once() {
        let (nsid, partition) = (Nsid::try_from("com.example.note").unwrap(), Partition::Numbered(3));
        let page = |id, after| Select {
            after: Some(Keyset { indexed_at: Timestamp(after), id: after }),
            ..Select::page(&nsid, Collection { id, partition }, 20)
        };
        let (first, second) =
            (page(1, 2).statement::<PostgresDialect>(), page(3, 4).statement::<PostgresDialect>());
        assert_eq!(first.text(), second.text());
        assert_eq!(second.text().as_ptr(), page(5, 6).statement::<PostgresDialect>().text().as_ptr());
        assert!(second.text().ends_with(" LIMIT 101) page LIMIT $1"), "{}", second.text());
        let other = Select { direction: Direction::Asc, ..page(1, 2) }.statement::<PostgresDialect>();
        assert_ne!(other.text(), first.text());
        assert_ne!(page(1, 2).statement::<SqliteDialect>().text(), first.text());
    }
}
