//! Reads a page of a query that is sorted by a value, without an index of it.
//!
//! Only ids and values are sorted; records are read only for the rows of the page.

use crate::query::PageSize;
use crate::query::sort::{Sort, SortKey, SortKeyset, SortValue};
use crate::store::Backend;
use crate::store::select::{
    Accounts, Classes, Columns, Dialect, Keys, MISSING, PostgresDialect, Select, Sql, SqliteDialect, Value,
    direction_words,
};

/// The statement that sorts what `select` finds. Its rows have the columns of a row and those of its position.
pub(super) fn statement(
    backend: Backend,
    select: &Select<'_>,
    sort: &Sort,
    after: Option<&SortKeyset>,
) -> Sql {
    match backend {
        Backend::Sqlite => write::<SqliteDialect>(select, sort, after),
        Backend::Postgres => write::<PostgresDialect>(select, sort, after),
    }
}

fn write<D: Dialect>(select: &Select<'_>, sort: &Sort, after: Option<&SortKeyset>) -> Sql {
    let select = &Select { accounts: Accounts::VisibleJoined, ..select.clone() };
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
    rows_of::<D>(select, direction, |sql| {
        sql.push(format_args!("SELECT k.* FROM (SELECT r.id AS id, {keys}"));
        select.write_from::<D>(sql);
        sql.push(format_args!(") k"));
        if let Some(after) = after {
            let condition = keyset::<D>(sql, classes, than, after);
            sql.push(format_args!(" WHERE {condition}"));
        }
        let limit = sql.bind(Value::Integer(i64::from(PageSize::rows_read(select.limit))));
        sql.push(format_args!(
            " ORDER BY k.class, k.num {direction}, k.txt {direction}, k.id {direction} LIMIT {limit}"
        ));
    })
}

/// The rows of a page: `ids` writes a statement that selects their ids and keys, in their order.
pub(super) fn rows_of<D: Dialect>(select: &Select<'_>, direction: &str, ids: impl FnOnce(&mut Sql)) -> Sql {
    let mut sql = Sql::new();
    sql.push(format_args!("SELECT {}, {} FROM (", D::columns(Columns::Row), D::POSITION));
    ids(&mut sql);
    let (join, joined) = D::COLUMNS_JOIN;
    sql.push(format_args!(
        ") s CROSS JOIN {} r{join} WHERE r.collection_id = {} AND r.id = s.id{joined} \
         ORDER BY s.class, s.num {direction}, s.txt {direction}, s.id {direction}",
        select.collection.partition.records(),
        select.collection.id
    ));
    sql
}

fn keyset<D: Dialect>(sql: &mut Sql, classes: Classes, than: &str, after: &SortKeyset) -> String {
    let id = sql.bind(Value::Integer(after.id));
    let (class, column, value) = match &after.value {
        SortValue::Missing => return format!("(k.class = {MISSING} AND k.id {than} {id})"),
        SortValue::Number(text) => (classes.number, "num", D::number(sql, text)),
        SortValue::Boolean(value) => {
            (classes.boolean, "num", sql.bind(Value::Integer(i64::from(*value))).to_string())
        }
        SortValue::Text(text) => (classes.text, "txt", sql.bind(Value::Text(text.clone())).to_string()),
    };
    format!(
        "(k.class > {class} OR (k.class = {class} AND (k.{column} {than} {value} \
         OR (k.{column} = {value} AND k.id {than} {id}))))"
    )
}
