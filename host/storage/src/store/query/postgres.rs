//! Writes conditions and orders for PostgreSQL: `jsonb` values are compared as `jsonb`, or as text by code point.
//!
//! A path is a chain of `->`: with a key it reads only objects, with a number only arrays, like SQLite's paths. (With
//! `#>` the `0` of `{a,0}` could be a key or an index.) For an element of an array it is a strict JSON path, because `->`
//! takes a string or number for an array that contains it.

use std::borrow::Cow;

use sqlx::Row;

use super::sql::{Classes, InIndex, Keys, MISSING, Sql, Value, ValueType, operator, pattern};
use crate::query::filter::{Op, Scalar};
use crate::query::path::{Path, Step};
use crate::query::sort::MAX_TEXT_CHARS;
use crate::store::partitions::{Partition, PerPartition};
use crate::store::records::{Named, columns, from_visible, most_rows};

pub(in crate::store) struct Dialect;

/// The `jsonb` value at a path.
fn chain(record: &str, field: &Path) -> String {
    let mut found = record.to_owned();
    for step in field.steps() {
        found = match step {
            Step::Key(key) => format!("{found} -> '{key}'"),
            Step::Index(index) => {
                format!("jsonb_path_query_first({found}, 'strict $[{index}]', '{{}}', true)")
            }
        };
    }
    format!("({found})")
}

/// A string's text, compared by code point.
fn text_of(found: &str) -> String {
    format!("(({found} #>> '{{}}') COLLATE \"C\")")
}

/// A number limited to the range of a double: numbers with a hundred thousand digits must not get into cursors or
/// indexes.
fn bounded(numeric: &str) -> String {
    format!("round(least(greatest({numeric}, -1e307), 1e307), 20)")
}

impl super::sql::Dialect for Dialect {
    const COLUMNS: &'static str = columns!(postgres);
    const LIMITED: (&'static str, &'static str) =
        ("SELECT * FROM (", concat!(" LIMIT ", most_rows!(), ") page LIMIT "));
    const ORDER_NAMES_NULLS: bool = true;
    const ID_IS_AMONG: (&'static str, &'static str) = ("= ANY (ARRAY (", "))");
    const LIKE: &'static str = "ILIKE";
    const INDEX_ORDER: (&'static str, &'static str) = ("r.indexed_at", "r.id");

    fn condition(sql: &mut Sql, field: &Path, op: Op, value: &Scalar) -> String {
        let found = chain("r.record", field);
        let (kind, typed, found_typed) = match value {
            Scalar::Text(text) => {
                if matches!(op, Op::Like | Op::NotLike) {
                    let value = sql.bind(Value::Text(pattern(text)));
                    // With the C collation ILIKE ignores case only for ASCII letters.
                    let like = if op == Op::Like { "ILIKE" } else { "NOT ILIKE" };
                    let matches = format!("{} {like} {value} ESCAPE '\\'", text_of(&found));
                    return match op {
                        Op::Like => format!("(jsonb_typeof({found}) = 'string' AND {matches})"),
                        _ => format!(
                            "({found} <> 'null'::jsonb AND (jsonb_typeof({found}) <> 'string' OR {matches}))"
                        ),
                    };
                }
                let value = sql.bind(Value::Text(text.clone()));
                match op {
                    Op::Eq | Op::Ne => ("string", format!("to_jsonb({value}::text)"), found.clone()),
                    _ => ("string", format!("{value}::text"), text_of(&found)),
                }
            }
            Scalar::Integer(n) => {
                let value = sql.bind(Value::Integer(*n));
                ("number", format!("to_jsonb({value}::bigint)"), found.clone())
            }
            Scalar::Float(n) => {
                let value = sql.bind(Value::Float(*n));
                ("number", format!("to_jsonb({value}::float8)"), found.clone())
            }
            Scalar::Boolean(b) => {
                let value = sql.bind(Value::Boolean(*b));
                ("boolean", format!("to_jsonb({value}::boolean)"), found.clone())
            }
        };
        match op {
            // Values of different types are never equal.
            Op::Eq => format!("{found_typed} = {typed}"),
            Op::Ne => format!("({found} <> 'null'::jsonb AND {found_typed} <> {typed})"),
            _ => format!("(jsonb_typeof({found}) = '{kind}' AND {found_typed} {} {typed})", operator(op)),
        }
    }

    fn keys(record: &str, field: &Path, classes: Classes) -> Keys {
        let found = chain(record, field);
        let text_value = text_of(&found);
        let Classes { number, text, boolean } = classes;
        let numeric = bounded(&format!("{found}::numeric"));
        Keys {
            class: format!(
                "(CASE jsonb_typeof({found}) WHEN 'number' THEN {number} WHEN 'string' THEN {text} \
                     WHEN 'boolean' THEN {boolean} ELSE {MISSING} END)"
            ),
            num: format!(
                "(CASE jsonb_typeof({found}) WHEN 'number' THEN {numeric} \
                     WHEN 'boolean' THEN ({found}::boolean)::integer::numeric END)"
            ),
            txt: format!(
                "(CASE jsonb_typeof({found}) WHEN 'string' THEN left({text_value}, {MAX_TEXT_CHARS}) END)"
            ),
        }
    }

    fn text(record: &str, field: &Path) -> String {
        let found = chain(record, field);
        format!("(CASE jsonb_typeof({found}) WHEN 'string' THEN {} END)", text_of(&found))
    }

    fn folded(text: &str) -> String {
        format!("lower(left({text}, {MAX_TEXT_CHARS}))")
    }

    const DID: &'static str = "(SELECT a.did FROM dids a WHERE a.id = r.did_id)";
    const COLUMNS_JOIN: (&'static str, &'static str) = ("", "");

    // The planner has statistics and chooses the index itself.
    fn from_visible(partition: Partition, _index: Option<&str>) -> Cow<'static, str> {
        static VISIBLE: PerPartition<&str> = PerPartition::new(from_visible!(postgres));
        (*VISIBLE.of(partition)).into()
    }

    fn from_accounts(partition: Partition, _index: Option<&str>) -> Cow<'static, str> {
        static JOINED: PerPartition<&str> = PerPartition::new(from_visible!(postgres joined));
        (*JOINED.of(partition)).into()
    }

    fn from_index(partition: Partition, _index: &str) -> Cow<'static, str> {
        static ROWS: PerPartition<&str> = PerPartition::new(" FROM {records} r ");
        (*ROWS.of(partition)).into()
    }

    /// The collection is a literal, because an index of one collection is used only with its literal id.
    fn in_index(collection: i64, field: &Path, of: ValueType) -> InIndex {
        let Keys { class, num, txt } = Self::keys("r.record", field, Classes::INDEXED);
        let nulls = match of {
            ValueType::Number | ValueType::Boolean => format!("{txt} IS NULL"),
            ValueType::Text => format!("{num} IS NULL"),
            ValueType::Missing => format!("{num} IS NULL AND {txt} IS NULL"),
        };
        let number = of.class(Classes::INDEXED);
        InIndex {
            condition: format!("r.collection_id = {collection} AND {class} = {number} AND {nulls}"),
            value: if of == ValueType::Text { txt.clone() } else { num.clone() },
            num,
            txt,
        }
    }

    fn key_of(sql: &mut Sql, value: &Scalar) -> String {
        match value {
            Scalar::Text(text) => {
                let key = sql.bind(Value::Text(text.chars().take(MAX_TEXT_CHARS).collect::<String>()));
                format!("{key}::text COLLATE \"C\"")
            }
            Scalar::Integer(n) => bounded(&format!("{}::bigint::numeric", sql.bind(Value::Integer(*n)))),
            // Via JSON, like the stored value: a cast from double to numeric keeps only 15 digits.
            Scalar::Float(n) => {
                bounded(&format!("to_jsonb({}::float8)::numeric", sql.bind(Value::Float(*n))))
            }
            Scalar::Boolean(b) => format!("{}::bigint::numeric", sql.bind(Value::Integer(i64::from(*b)))),
        }
    }

    const POSITION: &'static str = "s.class::bigint, coalesce(s.num::text, s.txt)";
    const POSITION_INDEXED_AT: &'static str = "0::bigint, r.indexed_at::text";

    fn number(sql: &mut Sql, text: &str) -> String {
        format!("{}::text::numeric", sql.bind(Value::Text(text.to_owned())))
    }
}

impl super::PositionRow for Named {
    fn position(&self) -> Result<(i64, Option<String>), sqlx::Error> {
        Ok((self.columns.try_get(6)?, self.columns.try_get(7)?))
    }
}
