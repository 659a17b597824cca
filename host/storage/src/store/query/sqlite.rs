//! Writes conditions and orders for SQLite: `json_type` returns the type of a value, `json_extract` the value.
//!
//! SQLite caches the parsed form of the last few JSON texts, so a record is parsed once however many fields are read.

use std::borrow::Cow;
use std::fmt::Write;

use sqlx::sqlite::SqliteRow;
use sqlx::{Row, TypeInfo, ValueRef};

use super::sql::{Classes, InIndex, Keys, MISSING, Sql, Value, ValueType, operator, pattern};
use crate::query::filter::{Op, Scalar};
use crate::query::path::{Path, Step};
use crate::query::sort::MAX_TEXT_CHARS;
use crate::store::partitions::Partition;
use crate::store::records::{columns, from_visible};

pub(in crate::store) struct Dialect;

/// The JSON path as an SQL literal. Keys are quoted, because they may be digits.
fn literal(field: &Path) -> String {
    let mut out = String::from("'$");
    for step in field.steps() {
        // Writing to a String never fails.
        let _ = match step {
            Step::Key(key) => write!(out, ".\"{key}\""),
            Step::Index(index) => write!(out, "[{index}]"),
        };
    }
    out.push('\'');
    out
}

impl Dialect {
    /// The class and the key of a record in the table that indexes a field. Numbers are before texts, as in SQLite's
    /// own order, so that one column has both; it is 0 where there is no value.
    pub(in crate::store) fn index_columns(record: &str, field: &Path) -> (String, String) {
        let Keys { class, num, txt } = <Self as super::Dialect>::keys(record, field, Classes::INDEXED);
        (class, format!("coalesce({num}, {txt}, 0)"))
    }
}

impl super::sql::Dialect for Dialect {
    const COLUMNS: &'static str = columns!(sqlite);
    const LIMITED: (&'static str, &'static str) = ("", " LIMIT ");
    const ORDER_NAMES_NULLS: bool = false;
    const ID_IS_AMONG: (&'static str, &'static str) = ("IN (", ")");
    const LIKE: &'static str = "LIKE";
    const INDEX_ORDER: (&'static str, &'static str) = ("f.indexed_at", "f.id");

    fn condition(sql: &mut Sql, field: &Path, op: Op, value: &Scalar) -> String {
        let path = literal(field);
        let kind = format!("json_type(r.record, {path})");
        let found = format!("json_extract(r.record, {path})");
        let (types, value) = match value {
            Scalar::Text(text) if matches!(op, Op::Like | Op::NotLike) => {
                ("('text')", format!("{} ESCAPE '\\'", sql.bind(Value::Text(pattern(text)))))
            }
            Scalar::Text(text) => ("('text')", sql.bind(Value::Text(text.clone()))),
            Scalar::Integer(n) => ("('integer', 'real')", sql.bind(Value::Integer(*n))),
            Scalar::Float(n) => ("('integer', 'real')", sql.bind(Value::Float(*n))),
            Scalar::Boolean(b) => ("('true', 'false')", sql.bind(Value::Integer(i64::from(*b)))),
        };
        let operator = operator(op);
        match op {
            Op::Ne | Op::NotLike => {
                format!("({kind} <> 'null' AND ({kind} NOT IN {types} OR {found} {operator} {value}))")
            }
            _ => format!("({kind} IN {types} AND {found} {operator} {value})"),
        }
    }

    fn keys(record: &str, field: &Path, classes: Classes) -> Keys {
        let path = literal(field);
        let kind = format!("json_type({record}, {path})");
        let found = format!("json_extract({record}, {path})");
        let Classes { number, text, boolean } = classes;
        Keys {
            class: format!(
                "(CASE {kind} WHEN 'integer' THEN {number} WHEN 'real' THEN {number} WHEN 'text' THEN {text} \
                     WHEN 'true' THEN {boolean} WHEN 'false' THEN {boolean} ELSE {MISSING} END)"
            ),
            num: format!("(CASE WHEN {kind} IN ('integer', 'real', 'true', 'false') THEN {found} END)"),
            txt: format!("(CASE {kind} WHEN 'text' THEN substr({found}, 1, {MAX_TEXT_CHARS}) END)"),
        }
    }

    fn text(record: &str, field: &Path) -> String {
        let path = literal(field);
        format!("(CASE json_type({record}, {path}) WHEN 'text' THEN json_extract({record}, {path}) END)")
    }

    fn folded(text: &str) -> String {
        format!("lower(substr({text}, 1, {MAX_TEXT_CHARS}))")
    }

    const DID: &'static str = "d.did";
    const COLUMNS_JOIN: (&'static str, &'static str) = (" CROSS JOIN dids d", " AND d.id = r.did_id");

    fn from_visible(_partition: Partition, index: Option<&str>) -> Cow<'static, str> {
        index.map_or(Cow::Borrowed(from_visible!(sqlite)), |index| {
            // SQLite has no statistics to choose by; `access` has chosen this index.
            format!(
                " FROM {index} f CROSS JOIN records r CROSS JOIN dids d \
                 WHERE r.id = f.id AND d.id = r.did_id AND d.status = 0 "
            )
            .into()
        })
    }

    fn from_accounts(partition: Partition, index: Option<&str>) -> Cow<'static, str> {
        Self::from_visible(partition, index)
    }

    fn from_index(_partition: Partition, index: &str) -> Cow<'static, str> {
        format!(" FROM {index} f ").into()
    }

    fn in_index(_collection: i64, _field: &Path, of: ValueType) -> InIndex {
        let (num, txt) = match of {
            ValueType::Number | ValueType::Boolean => ("f.key", "NULL"),
            ValueType::Text => ("NULL", "f.key"),
            ValueType::Missing => ("NULL", "NULL"),
        };
        let class = of.class(Classes::INDEXED);
        // A key that is the same for all rows must be named, so that they are in the order of the index.
        let key = if of == ValueType::Missing { " AND f.key = 0" } else { "" };
        InIndex {
            condition: format!("f.class = {class}{key}"),
            value: "f.key".into(),
            num: num.into(),
            txt: txt.into(),
        }
    }

    fn key_of(sql: &mut Sql, value: &Scalar) -> String {
        match value {
            Scalar::Text(text) => {
                sql.bind(Value::Text(text.chars().take(MAX_TEXT_CHARS).collect::<String>()))
            }
            Scalar::Integer(n) => sql.bind(Value::Integer(*n)),
            Scalar::Float(n) => sql.bind(Value::Float(*n)),
            Scalar::Boolean(b) => sql.bind(Value::Integer(i64::from(*b))),
        }
    }

    const POSITION: &'static str = "s.class, s.num, s.txt";
    const POSITION_INDEXED_AT: &'static str = "0, r.indexed_at, NULL";

    fn number(sql: &mut Sql, text: &str) -> String {
        match text.parse() {
            Ok(n) => sql.bind(Value::Integer(n)),
            // Cursors with other numbers were rejected before.
            Err(_) => sql.bind(Value::Float(text.parse().unwrap_or_default())),
        }
    }
}

impl super::PositionRow for SqliteRow {
    fn position(&self) -> Result<(i64, Option<String>), sqlx::Error> {
        let class = self.try_get(6)?;
        let number = self.try_get_raw(7)?;
        // Rust's text of a double parses to the same double; SQLite's does not.
        let text = match number.type_info().name() {
            _ if number.is_null() => self.try_get(8)?,
            "REAL" => Some(format!("{:e}", self.try_get_unchecked::<f64, _>(7)?)),
            _ => Some(self.try_get_unchecked::<i64, _>(7)?.to_string()),
        };
        Ok((class, text))
    }
}
