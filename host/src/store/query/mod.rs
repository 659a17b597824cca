//! `db.query`: filters and sorts on record fields, compiled to SQL for each dialect.
//!
//! Only the shape of a query reaches the SQL text: a validated path (letters, digits, `_`) and operators. Values
//! are parameters. What a comparison means is told in [`crate::records::filter`], what an order means in
//! [`crate::records::sort`]; the two dialects say the same in their own words (`sqlite`, `postgres`).

mod postgres;
mod sqlite;

use sqlx::AssertSqlSafe;

use crate::atproto::{Did, Nsid};
use crate::records::filter::{Combine, Filter, Op, Scalar};
use crate::records::path::Path;
use crate::records::sort::{Direction, Sort, SortKey, SortKeyset, SortValue};

use super::records::{Keyset, RawRow, RecordRow, columns, from_visible};
use super::{Backend, Db, StoreError, intern, lane};

#[derive(Clone, Debug)]
pub struct QueryArgs<'a> {
    pub collection: &'a Nsid,
    pub did: Option<&'a Did>,
    pub filter: Option<&'a Filter>,
    pub order: Order<'a>,
    /// Rows to read: ask for one more than the page to know whether another page follows.
    pub limit: u32,
}

#[derive(Clone, Debug)]
pub enum Order<'a> {
    /// Newest first.
    Newest { after: Option<Keyset> },
    /// `after` must be a value that the sort accepts ([`Sort::accepts`]).
    By { sort: &'a Sort, after: Option<&'a SortKeyset> },
}

/// A row with its place in the order asked for.
#[derive(Clone, Debug)]
pub struct QueryRow {
    pub row: RecordRow,
    /// `Some` for [`Order::By`].
    pub place: Option<SortKeyset>,
}

pub async fn query(db: &Db, args: &QueryArgs<'_>) -> Result<Vec<QueryRow>, StoreError> {
    let Some(collection) = intern::collection_id(db, args.collection).await? else { return Ok(Vec::new()) };
    let sql = compile(db.backend(), collection, args);
    macro_rules! fetch {
        ($lane:expr) => {{
            let mut query = sqlx::query(AssertSqlSafe(sql.text));
            for value in sql.values {
                query = match value {
                    Value::Text(text) => query.bind(text),
                    Value::Integer(n) => query.bind(n),
                    Value::Float(n) => query.bind(n),
                    Value::Boolean(b) => query.bind(b),
                };
            }
            let rows = lane::read!($lane, |conn| query.fetch_all(conn).await);
            rows.into_iter().map(|row| read(row, args)).collect()
        }};
    }
    match db {
        Db::Sqlite(db) => fetch!(db.lane),
        Db::Postgres(db) => fetch!(db.lane),
    }
}

fn read<R: RawRow + PlaceRow>(row: R, args: &QueryArgs<'_>) -> Result<QueryRow, StoreError> {
    let place = match args.order {
        Order::Newest { .. } => None,
        Order::By { sort, .. } => {
            let (class, text) = row.place()?;
            Some(sort_value(sort, class, text.unwrap_or_default()))
        }
    };
    let row = row.raw(args.collection.clone())?;
    Ok(QueryRow { place: place.map(|value| SortKeyset { value, id: row.id }), row })
}

/// The class and the text of a row's value, from [`Dialect::PLACE`].
pub(super) trait PlaceRow {
    fn place(&self) -> Result<(i64, Option<String>), sqlx::Error>;
}

/// A statement being written.
#[derive(Debug)]
pub(super) struct Sql {
    pub(super) text: String,
    pub(super) values: Vec<Value>,
}

#[derive(Debug)]
pub(super) enum Value {
    Text(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
}

impl Sql {
    /// Keeps a value and gives its placeholder.
    fn bind(&mut self, value: Value) -> String {
        self.values.push(value);
        format!("${}", self.values.len())
    }

    fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }
}

/// What a dialect says in its own words.
pub(super) trait Dialect {
    /// The columns of a row, in the order of [`RawRow`].
    const COLUMNS: &'static str;
    /// Visible records `r` with their account `d`, up to the first conditions.
    const FROM_VISIBLE: &'static str;
    /// The condition of one leaf.
    fn condition(sql: &mut Sql, field: &Path, op: Op, value: &Scalar) -> String;
    /// The columns `class`, `num` and `txt` of an inner SELECT for a sort on a field: see [`Classes`].
    fn sort_columns(field: &Path, classes: Classes) -> String;
    /// What [`PlaceRow`] reads, from these columns of `s`.
    const PLACE: &'static str;
    /// The same for a sort by time, which needs no `s`.
    const PLACE_INDEXED_AT: &'static str;
    /// The placeholder of a decimal number, with what it takes to compare it with `num`.
    fn number(sql: &mut Sql, text: &str) -> String;
}

/// The place of each type in a custom order, such that smaller comes first: numbers, strings, booleans when
/// ascending, the other way round when descending, and rows without a value last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Classes {
    number: i64,
    text: i64,
    boolean: i64,
}

const MISSING: i64 = 3;

impl Classes {
    fn of(direction: Direction) -> Self {
        match direction {
            Direction::Asc => Self { number: 0, text: 1, boolean: 2 },
            Direction::Desc => Self { number: 2, text: 1, boolean: 0 },
        }
    }
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

fn compile(backend: Backend, collection: i64, args: &QueryArgs<'_>) -> Sql {
    match backend {
        Backend::Sqlite => compile_for::<sqlite::Dialect>(collection, args),
        Backend::Postgres => compile_for::<postgres::Dialect>(collection, args),
    }
}

fn compile_for<D: Dialect>(collection: i64, args: &QueryArgs<'_>) -> Sql {
    let mut sql = Sql { text: String::with_capacity(512), values: Vec::new() };
    match &args.order {
        Order::Newest { after } => {
            sql.push(&format!("SELECT {} ", D::COLUMNS));
            from_where::<D>(&mut sql, collection, args);
            if let Some(after) = after {
                keyset_of_index(&mut sql, "<", after.indexed_at.0, after.id);
            }
            sql.push(" ORDER BY r.indexed_at DESC, r.id DESC LIMIT ");
        }
        Order::By { sort, after } if sort.key == SortKey::IndexedAt => {
            let (direction, than) = words(sort.direction);
            sql.push(&format!("SELECT {}, {} ", D::COLUMNS, D::PLACE_INDEXED_AT));
            from_where::<D>(&mut sql, collection, args);
            if let Some(SortKeyset { value: SortValue::Number(text), id }) = after {
                keyset_of_index(&mut sql, than, text.parse().unwrap_or_default(), *id);
            }
            sql.push(&format!(" ORDER BY r.indexed_at {direction}, r.id {direction} LIMIT "));
        }
        Order::By { sort, after } => {
            by_value::<D>(&mut sql, collection, args, sort, *after);
            return sql;
        }
    }
    let limit = sql.bind(Value::Integer(i64::from(args.limit)));
    sql.push(&limit);
    sql
}

/// Only ids and values are sorted; the rows are fetched for those that the page takes.
fn by_value<D: Dialect>(
    sql: &mut Sql,
    collection: i64,
    args: &QueryArgs<'_>,
    sort: &Sort,
    after: Option<&SortKeyset>,
) {
    let classes = Classes::of(sort.direction);
    let (direction, than) = words(sort.direction);
    let keys = match &sort.key {
        SortKey::Field(path) => D::sort_columns(path, classes),
        SortKey::Did => "1 AS class, NULL AS num, d.did AS txt".into(),
        SortKey::Uri | SortKey::IndexedAt => "1 AS class, NULL AS num, d.did || '/' || r.rkey AS txt".into(),
    };
    sql.push(&format!(
        "SELECT {}, {} FROM (SELECT k.* FROM (SELECT r.id AS id, {keys} ",
        D::COLUMNS,
        D::PLACE
    ));
    from_where::<D>(sql, collection, args);
    sql.push(") k");
    if let Some(after) = after {
        let condition = keyset_of_value::<D>(sql, classes, than, after);
        sql.push(&format!(" WHERE {condition}"));
    }
    let limit = sql.bind(Value::Integer(i64::from(args.limit)));
    sql.push(&format!(
        " ORDER BY k.class, k.num {direction}, k.txt {direction}, k.id {direction} LIMIT {limit}) s \
         CROSS JOIN records r CROSS JOIN dids d WHERE r.id = s.id AND d.id = r.did_id \
         ORDER BY s.class, s.num {direction}, s.txt {direction}, s.id {direction}"
    ));
}

fn words(direction: Direction) -> (&'static str, &'static str) {
    match direction {
        Direction::Asc => ("ASC", ">"),
        Direction::Desc => ("DESC", "<"),
    }
}

fn from_where<D: Dialect>(sql: &mut Sql, collection: i64, args: &QueryArgs<'_>) {
    let collection = sql.bind(Value::Integer(collection));
    sql.push(&format!("{}AND r.collection_id = {collection}", D::FROM_VISIBLE));
    if let Some(did) = args.did {
        let did = sql.bind(Value::Text(did.as_str().to_owned()));
        sql.push(&format!(" AND r.did_id = (SELECT id FROM dids WHERE did = {did})"));
    }
    if let Some(filter) = args.filter {
        let condition = condition::<D>(sql, filter);
        sql.push(&format!(" AND {condition}"));
    }
}

fn condition<D: Dialect>(sql: &mut Sql, filter: &Filter) -> String {
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

fn keyset_of_index(sql: &mut Sql, than: &str, indexed_at: i64, id: i64) {
    let (time, id) = (sql.bind(Value::Integer(indexed_at)), sql.bind(Value::Integer(id)));
    sql.push(&format!(" AND (r.indexed_at, r.id) {than} ({time}, {id})"));
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

fn operator(op: Op) -> &'static str {
    match op {
        Op::Eq => "=",
        Op::Ne => "<>",
        Op::Lt => "<",
        Op::Gt => ">",
        Op::Le => "<=",
        Op::Ge => ">=",
        Op::Like => "LIKE",
        Op::NotLike => "NOT LIKE",
    }
}

/// A pattern that ends in a lone `\` is an error on PostgreSQL and never matches on SQLite: it means the sign itself.
fn pattern(text: &str) -> String {
    let trailing = text.bytes().rev().take_while(|b| *b == b'\\').count();
    if trailing % 2 == 1 { format!("{text}\\") } else { text.to_owned() }
}
