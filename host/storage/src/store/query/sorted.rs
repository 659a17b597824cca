//! Reads a page of a query that is sorted by values, without an index of them.
//!
//! Only ids and values are sorted; records are read only for the rows of the page.

use crate::query::sort::{Direction, Sort, SortKey, SortKeyset, SortValue};
use crate::query::{PageSize, Query};
use crate::store::Backend;
use crate::store::select::{
    Accounts, Classes, Columns, Dialect, Keys, MISSING, PostgresDialect, Select, Sql, SqliteDialect, Value,
    direction_words,
};

/// The statement that sorts what `select` finds. Its rows have the columns of a row and those of its position.
pub(super) fn statement(backend: Backend, select: &Select<'_>, sort: &Sort, query: &Query) -> Sql {
    match backend {
        Backend::Sqlite => write::<SqliteDialect>(select, sort, query),
        Backend::Postgres => write::<PostgresDialect>(select, sort, query),
    }
}

/// A key of the order, with the names of its columns.
struct Ordered<'a> {
    key: &'a SortKey,
    classes: Classes,
    direction: &'static str,
    than: &'static str,
    /// The direction of the classes: rows without a value are last, unless the page is read backwards.
    class_direction: &'static str,
    class_than: &'static str,
    /// Follows the names of the columns of the key: empty for the first.
    suffix: String,
}

fn ordered(sort: &Sort, is_backwards: bool) -> Vec<Ordered<'_>> {
    let read = |direction: Direction| if is_backwards { direction.reversed() } else { direction };
    let (class_direction, class_than) = direction_words(read(Direction::Asc));
    let of = |(n, (key, by)): (usize, (_, Direction))| {
        let (direction, than) = direction_words(read(by));
        let suffix = if n == 0 { String::new() } else { n.to_string() };
        Ordered { key, classes: Classes::of(by), direction, than, class_direction, class_than, suffix }
    };
    sort.keys().enumerate().map(of).collect()
}

impl Ordered<'_> {
    /// The class and the value of a row.
    fn columns<D: Dialect>(&self) -> String {
        let Self { key, classes, suffix, .. } = self;
        let (class, num, txt) = match key {
            SortKey::Field(path) => {
                let Keys { class, num, txt } = D::keys("r.record", path, *classes);
                (class, num, txt)
            }
            SortKey::Did => ("1".into(), "NULL".into(), "d.did".into()),
            SortKey::Uri => ("1".into(), "NULL".into(), "d.did || '/' || r.rkey".into()),
            SortKey::IndexedAt => ("1".into(), "r.indexed_at".into(), "CAST(NULL AS text)".into()),
        };
        format!("{class} AS class{suffix}, {num} AS num{suffix}, {txt} AS txt{suffix}")
    }

    /// The items of ORDER BY.
    fn order(&self, table: &str) -> String {
        let Self { direction, class_direction, suffix, .. } = self;
        format!(
            "{table}.class{suffix} {class_direction}, {table}.num{suffix} {direction}, {table}.txt{suffix} {direction}"
        )
    }
}

fn order_by(keys: &[Ordered<'_>], table: &str) -> String {
    let items: Vec<_> = keys.iter().map(|key| key.order(table)).collect();
    let direction = keys.first().map_or("ASC", |key| key.direction);
    format!("ORDER BY {}, {table}.id {direction}", items.join(", "))
}

fn write<D: Dialect>(select: &Select<'_>, sort: &Sort, query: &Query) -> Sql {
    let select = &Select { accounts: Accounts::VisibleJoined, ..select.clone() };
    let keys = ordered(sort, query.is_backwards);
    rows_of::<D>(select, sort, query.is_backwards, |sql| {
        let columns: Vec<_> = keys.iter().map(Ordered::columns::<D>).collect();
        sql.push(format_args!("SELECT k.* FROM (SELECT r.id AS id, {}", columns.join(", ")));
        select.write_from::<D>(sql);
        sql.push(format_args!(") k"));
        if let Some(after) = query.after_value() {
            let condition = keyset::<D>(sql, &keys, after);
            sql.push(format_args!(" WHERE {condition}"));
        }
        let limit = sql.bind(Value::Integer(i64::from(PageSize::rows_read(select.limit))));
        sql.push(format_args!(" {} LIMIT {limit}", order_by(&keys, "k")));
    })
}

/// The rows of a page, in the order in which it is read: `ids` writes a statement that selects their ids and keys, in their order.
pub(super) fn rows_of<D: Dialect>(
    select: &Select<'_>,
    sort: &Sort,
    is_backwards: bool,
    ids: impl FnOnce(&mut Sql),
) -> Sql {
    let keys = ordered(sort, is_backwards);
    let positions: Vec<_> = keys.iter().map(|key| D::position(&key.suffix)).collect();
    let mut sql = Sql::new();
    sql.push(format_args!("SELECT {}, {} FROM (", D::columns(Columns::Row), positions.join(", ")));
    ids(&mut sql);
    let (join, joined) = D::COLUMNS_JOIN;
    sql.push(format_args!(
        ") s CROSS JOIN {} r{join} WHERE r.collection_id = {} AND r.id = s.id{joined} {}",
        select.collection.partition.records(),
        select.collection.id,
        order_by(&keys, "s")
    ));
    sql
}

/// The condition that a row comes after this one.
fn keyset<D: Dialect>(sql: &mut Sql, keys: &[Ordered<'_>], after: &SortKeyset) -> String {
    let id = sql.bind(Value::Integer(after.id));
    let than = keys.first().map_or(">", |key| key.than);
    let mut condition = format!("k.id {than} {id}");
    let keys: Vec<_> = keys.iter().zip(after.values()).collect();
    for (key, value) in keys.into_iter().rev() {
        condition = key_after::<D>(sql, key, value, &condition);
    }
    condition
}

/// The condition that a row comes after this value, or has it and meets the condition of the keys that follow.
fn key_after<D: Dialect>(sql: &mut Sql, key: &Ordered<'_>, value: &SortValue, then: &str) -> String {
    let Ordered { classes, than, class_than, suffix, .. } = key;
    let (class, column, value) = match value {
        SortValue::Missing => {
            return format!(
                "(k.class{suffix} {class_than} {MISSING} OR (k.class{suffix} = {MISSING} AND {then}))"
            );
        }
        SortValue::Number(text) => {
            // The time at which a row was indexed has the class of texts, as all columns.
            let class = if *key.key == SortKey::IndexedAt { 1 } else { classes.number };
            (class, "num", D::number(sql, text))
        }
        SortValue::Boolean(value) => {
            (classes.boolean, "num", sql.bind(Value::Integer(i64::from(*value))).to_string())
        }
        SortValue::Text(text) => (classes.text, "txt", sql.bind(Value::Text(text.clone())).to_string()),
    };
    format!(
        "(k.class{suffix} {class_than} {class} OR (k.class{suffix} = {class} AND (k.{column}{suffix} {than} {value} \
         OR (k.{column}{suffix} = {value} AND {then}))))"
    )
}
