//! Compiles a query to one SQL statement.

use std::borrow::Cow;

use crate::query::filter::{Combine, Filter};
use crate::query::sort::{Direction, Sort, SortKey, SortKeyset, SortValue};
use crate::store::Backend;
use crate::store::intern::Collection;
use crate::store::partitions::Partition;

use super::bounds::{Bounds, within};
use super::sql::{Classes, Dialect, Keys, MISSING, Sql, Value};
use super::{Order, PostgresDialect, QueryArgs, SqliteDialect};

/// Compiles a query. `bounds` selects an index for filters.
pub(super) fn compile(
    backend: Backend,
    collection: Collection,
    args: &QueryArgs<'_>,
    bounds: Option<&Bounds<'_>>,
) -> Sql {
    match backend {
        Backend::Sqlite => compile_for::<SqliteDialect>(collection, args, bounds),
        Backend::Postgres => compile_for::<PostgresDialect>(collection, args, bounds),
    }
}

fn compile_for<D: Dialect>(collection: Collection, args: &QueryArgs<'_>, bounds: Option<&Bounds<'_>>) -> Sql {
    let mut sql = Sql { text: String::with_capacity(512), values: Vec::new() };
    let (time, id) = bounds.map_or(("r.indexed_at", "r.id"), |_| D::INDEX_ORDER);
    match &args.order {
        Order::Newest { after } => {
            sql.push(&format!("{}SELECT {} ", D::LIMITED.0, D::COLUMNS));
            from_where::<D>(&mut sql, D::from_visible, collection, args, bounds);
            if let Some(after) = after {
                keyset_of_index(&mut sql, (time, id), "<", after.indexed_at.0, after.id);
            }
            let keys = order_keys::<D>(bounds, "DESC");
            sql.push(&format!(" ORDER BY {keys}{time} DESC, {id} DESC{}", D::LIMITED.1));
        }
        Order::By { sort, after } if sort.key == SortKey::IndexedAt => {
            let (direction, than) = direction_words(sort.direction);
            sql.push(&format!("{}SELECT {}, {} ", D::LIMITED.0, D::COLUMNS, D::POSITION_INDEXED_AT));
            from_where::<D>(&mut sql, D::from_visible, collection, args, bounds);
            if let Some(SortKeyset { value: SortValue::Number(text), id: after }) = after {
                keyset_of_index(&mut sql, (time, id), than, text.parse().unwrap_or_default(), *after);
            }
            let keys = order_keys::<D>(bounds, direction);
            sql.push(&format!(" ORDER BY {keys}{time} {direction}, {id} {direction}{}", D::LIMITED.1));
        }
        Order::By { sort, after } => {
            by_value::<D>(&mut sql, collection, args, sort, *after, bounds);
            return sql;
        }
    }
    let limit = sql.bind(Value::Integer(args.rows()));
    sql.push(&limit);
    sql
}

/// A sort by value. Only ids and values are sorted; records are read only for the rows of the page.
fn by_value<D: Dialect>(
    sql: &mut Sql,
    collection: Collection,
    args: &QueryArgs<'_>,
    sort: &Sort,
    after: Option<&SortKeyset>,
    bounds: Option<&Bounds<'_>>,
) {
    let classes = Classes::of(sort.direction);
    let (direction, than) = direction_words(sort.direction);
    let keys = match &sort.key {
        SortKey::Field(path) => {
            let Keys { class, num, txt } = D::keys("r.record", path, classes);
            format!("{class} AS class, {num} AS num, {txt} AS txt")
        }
        SortKey::Did => "1 AS class, NULL AS num, d.did AS txt".into(),
        SortKey::Uri | SortKey::IndexedAt => "1 AS class, NULL AS num, d.did || '/' || r.rkey AS txt".into(),
    };
    sql.push(&format!(
        "SELECT {}, {} FROM (SELECT k.* FROM (SELECT r.id AS id, {keys} ",
        D::COLUMNS,
        D::POSITION
    ));
    from_where::<D>(sql, D::from_accounts, collection, args, bounds);
    sql.push(") k");
    if let Some(after) = after {
        let condition = keyset_of_value::<D>(sql, classes, than, after);
        sql.push(&format!(" WHERE {condition}"));
    }
    let limit = sql.bind(Value::Integer(args.rows()));
    let (join, joined) = D::COLUMNS_JOIN;
    sql.push(&format!(
        " ORDER BY k.class, k.num {direction}, k.txt {direction}, k.id {direction} LIMIT {limit}) s \
         CROSS JOIN {} r{join} WHERE r.collection_id = {} AND r.id = s.id{joined} \
         ORDER BY s.class, s.num {direction}, s.txt {direction}, s.id {direction}",
        collection.partition.records(),
        collection.id
    ));
}

/// The keyword of a direction, and the operator for rows after a keyset.
pub(super) fn direction_words(direction: Direction) -> (&'static str, &'static str) {
    match direction {
        Direction::Asc => ("ASC", ">"),
        Direction::Desc => ("DESC", "<"),
    }
}

/// ORDER BY items before the time. The rows of one value are in order of time in the index; PostgreSQL uses that order
/// only if ORDER BY also lists the keys before it.
fn order_keys<D: Dialect>(bounds: Option<&Bounds<'_>>, direction: &str) -> String {
    match bounds {
        Some(bounds) if bounds.is_one_value() && D::ORDER_NAMES_NULLS => {
            let Keys { num, txt, .. } = D::keys("r.record", bounds.path, Classes::INDEXED);
            format!("{num} {direction}, {txt} {direction}, ")
        }
        _ => String::new(),
    }
}

/// `from`: [`Dialect::from_visible`] or [`Dialect::from_accounts`].
fn from_where<D: Dialect>(
    sql: &mut Sql,
    from: fn(Partition, Option<&str>) -> Cow<'static, str>,
    Collection { id: collection, partition }: Collection,
    args: &QueryArgs<'_>,
    bounds: Option<&Bounds<'_>>,
) {
    match bounds {
        None => {
            let collection = sql.bind(Value::Integer(collection));
            // Invalid records are found by their ids: the plus keeps SQLite from reading the whole collection instead.
            let column = if args.valid == Some(false) { "+r.collection_id" } else { "r.collection_id" };
            sql.push(&format!("{}AND {column} = {collection}", from(partition, None)));
        }
        Some(bounds) => {
            sql.push(&from(partition, Some(&bounds.index_name())));
            sql.push("AND ");
            within::<D>(sql, collection, bounds);
        }
    }
    push_caller_conditions::<D>(sql, args);
}

/// Adds the conditions of the query: its DID, its filter, and what narrows it.
pub(super) fn push_caller_conditions<D: Dialect>(sql: &mut Sql, args: &QueryArgs<'_>) {
    if let Some(did) = args.did {
        let did = sql.bind(Value::Text(did.as_str().to_owned()));
        sql.push(&format!(" AND r.did_id = (SELECT id FROM dids WHERE did = {did})"));
    }
    if let Some(filter) = args.filter {
        let condition = condition::<D>(sql, filter);
        sql.push(&format!(" AND {condition}"));
    }
    args.narrow.push::<D>(sql, args);
    match args.valid {
        // Not EXISTS, which PostgreSQL may turn into a join that loses the order of the rows, and not IS NULL, which it
        // expects of few.
        Some(true) => {
            sql.push(" AND (SELECT 1 FROM invalid_records i WHERE i.record_id = r.id) IS DISTINCT FROM 1");
        }
        Some(false) => {
            let collection = sql.bind(Value::Text(args.collection.as_str().to_owned()));
            let (before, after) = D::ID_IS_AMONG;
            sql.push(&format!(
                " AND r.id {before}SELECT i.record_id FROM invalid_records i \
                 JOIN collections c ON c.id = i.collection_id WHERE c.nsid = {collection}{after}"
            ));
        }
        None => {}
    }
}

pub(super) fn condition<D: Dialect>(sql: &mut Sql, filter: &Filter) -> String {
    match filter {
        Filter::Condition { field, op, value } => D::condition(sql, field, *op, value),
        Filter::Group { combine, children } => {
            let word = match combine {
                Combine::And => " AND ",
                Combine::Or => " OR ",
            };
            let children: Vec<_> = children.iter().map(|child| condition::<D>(sql, child)).collect();
            format!("({})", children.join(word))
        }
    }
}

fn keyset_of_index(sql: &mut Sql, columns: (&str, &str), than: &str, indexed_at: i64, id: i64) {
    let (time, id) = (sql.bind(Value::Integer(indexed_at)), sql.bind(Value::Integer(id)));
    sql.push(&format!(" AND ({}, {}) {than} ({time}, {id})", columns.0, columns.1));
}

fn keyset_of_value<D: Dialect>(sql: &mut Sql, classes: Classes, than: &str, after: &SortKeyset) -> String {
    let id = sql.bind(Value::Integer(after.id));
    let (class, column, value) = match &after.value {
        SortValue::Missing => return format!("(k.class = {MISSING} AND k.id {than} {id})"),
        SortValue::Number(text) => (classes.number, "num", D::number(sql, text)),
        SortValue::Boolean(value) => (classes.boolean, "num", sql.bind(Value::Integer(i64::from(*value)))),
        SortValue::Text(text) => (classes.text, "txt", sql.bind(Value::Text(text.clone()))),
    };
    format!(
        "(k.class > {class} OR (k.class = {class} AND (k.{column} {than} {value} \
         OR (k.{column} = {value} AND k.id {than} {id}))))"
    )
}
