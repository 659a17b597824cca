//! Conditions and orders in PostgreSQL's words: `jsonb` values are compared as such, or as text by code point.
//!
//! A path is a chain of `->`: with a key it reads objects alone, with a number arrays alone, as SQLite's paths do.
//! (`#>` would read `{a,0}` in both.)

use std::fmt::Write;

use sqlx::Row;
use sqlx::postgres::PgRow;

use super::{Classes, MISSING, Op, Path, Scalar, Sql, Value, columns, from_visible, operator, pattern};
use crate::records::path::Step;
use crate::records::sort::MAX_TEXT_CHARS;

pub(super) struct Dialect;

fn chain(field: &Path) -> String {
    let mut out = String::from("(r.record");
    for step in field.steps() {
        // Writing to a String never fails.
        let _ = match step {
            Step::Key(key) => write!(out, " -> '{key}'"),
            Step::Index(index) => write!(out, " -> {index}"),
        };
    }
    out.push(')');
    out
}

/// A string's text, compared by code point.
fn text_of(found: &str) -> String {
    format!("(({found} #>> '{{}}') COLLATE \"C\")")
}

impl super::Dialect for Dialect {
    const COLUMNS: &'static str = columns!(postgres);
    const FROM_VISIBLE: &'static str = from_visible!(postgres);

    fn condition(sql: &mut Sql, field: &Path, op: Op, value: &Scalar) -> String {
        let found = chain(field);
        let (kind, typed, found_typed) = match value {
            Scalar::Text(text) => {
                if matches!(op, Op::Like | Op::NotLike) {
                    let value = sql.bind(Value::Text(pattern(text)));
                    // With the C collation ILIKE ignores the case of ASCII letters alone.
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

    fn sort_columns(field: &Path, classes: Classes) -> String {
        let found = chain(field);
        let text_value = text_of(&found);
        let Classes { number, text, boolean } = classes;
        // Within what a double can hold: a number of a hundred thousand digits must not become a cursor.
        format!(
            "CASE jsonb_typeof({found}) WHEN 'number' THEN {number} WHEN 'string' THEN {text} \
                 WHEN 'boolean' THEN {boolean} ELSE {MISSING} END AS class, \
             CASE jsonb_typeof({found}) \
                 WHEN 'number' THEN round(least(greatest({found}::numeric, -1e307), 1e307), 20) \
                 WHEN 'boolean' THEN ({found}::boolean)::integer::numeric END AS num, \
             CASE jsonb_typeof({found}) WHEN 'string' THEN left({text_value}, {MAX_TEXT_CHARS}) END AS txt"
        )
    }

    const PLACE: &'static str = "s.class::bigint, coalesce(s.num::text, s.txt)";
    const PLACE_INDEXED_AT: &'static str = "0::bigint, r.indexed_at::text";

    fn number(sql: &mut Sql, text: &str) -> String {
        format!("{}::text::numeric", sql.bind(Value::Text(text.to_owned())))
    }
}

impl super::PlaceRow for PgRow {
    fn place(&self) -> Result<(i64, Option<String>), sqlx::Error> {
        Ok((self.try_get(5)?, self.try_get(6)?))
    }
}
