//! Writes conditions and orders for SQLite: `json_type` returns the type of a value, `json_extract` the value.
//!
//! SQLite caches the parsed form of the last few JSON texts, so a record is parsed once however many fields are read.

use std::fmt::Write;

use super::dialect::{datetime_parts, operator, pattern};
use super::{
    Accounts, By, Classes, Columns, InIndex, Keys, MISSING, Placeholder, Sql, Value, ValueType, columns,
};
use crate::query::filter::{Op, Scalar};
use crate::query::group::{Bucket, MAX_ELEMENTS, MAX_LIST_CHARS, MAX_LIST_NUMBER};
use crate::query::path::{Path, Step};
use crate::query::sort::MAX_TEXT_CHARS;
use crate::store::Backend;
use crate::store::intern::Collection;
use crate::store::partitions::Partition;

/// Size of a CID in `records`, in bytes: version, codec, hash type, hash length and a SHA-256.
const CID_BYTES: usize = 36;

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

/// The names that `json_type` has for the values of a type, as an SQL list.
fn json_types(of: ValueType) -> &'static str {
    match of {
        ValueType::Text => "('text')",
        ValueType::Number => "('integer', 'real')",
        ValueType::Boolean => "('true', 'false')",
        ValueType::Missing => "('null')",
    }
}

/// The format of a bucket's label, for `strftime`.
fn time_format(bucket: Bucket) -> &'static str {
    match bucket {
        Bucket::Hour => "%Y-%m-%dT%H",
        Bucket::Day => "%Y-%m-%d",
        Bucket::Week => "%G-W%V",
        Bucket::Month => "%Y-%m",
    }
}

/// The canonical JSON of a row of `json_each`, for [`Dialect::short_list`](super::Dialect::short_list): NULL for arrays, objects and
/// numbers that have none.
fn element(row: &str) -> String {
    format!(
        "CASE WHEN {row}.type = 'text' THEN json_quote({row}.value) \
         WHEN {row}.type IN ('true', 'false', 'null') THEN {row}.type \
         WHEN {row}.type IN ('integer', 'real') AND {row}.value BETWEEN -{MAX_LIST_NUMBER} AND {MAX_LIST_NUMBER} \
             AND {row}.value = CAST({row}.value AS INTEGER) THEN CAST(CAST({row}.value AS INTEGER) AS TEXT) END"
    )
}

/// A value as `json_extract` returns it.
fn plain(value: &Scalar) -> Value {
    match value {
        Scalar::Text(text) => Value::Text(text.clone()),
        Scalar::Integer(n) => Value::Integer(*n),
        Scalar::Float(n) => Value::Float(*n),
        Scalar::Boolean(b) => Value::Integer(i64::from(*b)),
    }
}

impl Dialect {
    /// The class and the key of a record in the table that indexes a field. Numbers are before texts, as in SQLite's
    /// own order, so that one column has both; it is 0 where there is no value.
    pub(in crate::store) fn index_columns(record: &str, field: &Path) -> (String, String) {
        let Keys { class, num, txt } = <Self as super::Dialect>::keys(record, field, Classes::INDEXED);
        (class, format!("coalesce({num}, {txt}, 0)"))
    }
}

impl super::Dialect for Dialect {
    const BACKEND: Backend = Backend::Sqlite;
    const SPLITS_TIMES: bool = true;
    const ORDER_NAMES_NULLS: bool = false;
    const ID_IS_AMONG: (&'static str, &'static str) = ("IN (", ")");
    const DID_IS_IN_JSON: (&'static str, &'static str) =
        ("r.did_id IN (SELECT a.id FROM json_each(", ") j CROSS JOIN dids a WHERE a.did = j.value)");
    const DID_ID_IS_IN_JSON: (&'static str, &'static str) =
        ("r.did_id IN (SELECT value FROM json_each(", "))");
    const LIKE: &'static str = "LIKE";
    const INDEX_ORDER: (&'static str, &'static str) = ("f.indexed_at", "f.id");

    fn condition(sql: &mut Sql, field: &Path, op: Op, value: &Scalar) -> String {
        let path = literal(field);
        let kind = format!("json_type(r.record, {path})");
        let found = format!("json_extract(r.record, {path})");
        let types = json_types(ValueType::of(value));
        let value = match value {
            Scalar::Text(text) if matches!(op, Op::Like | Op::NotLike) => {
                format!("{} ESCAPE '\\'", sql.bind(Value::Text(pattern(text))))
            }
            value => sql.bind(plain(value)).to_string(),
        };
        let operator = operator(op);
        match op {
            Op::Ne | Op::NotLike => {
                format!("({kind} <> 'null' AND ({kind} NOT IN {types} OR {found} {operator} {value}))")
            }
            _ => format!("({kind} IN {types} AND {found} {operator} {value})"),
        }
    }

    fn has_word(column: &str, word: &str) -> String {
        format!("({column} = {word} OR instr(' ' || {column} || ' ', ' ' || {word} || ' ') > 0)")
    }

    fn among(sql: &mut Sql, field: &Path, values: &[Scalar], is_negated: bool) -> String {
        let path = literal(field);
        let kind = format!("json_type(r.record, {path})");
        let found = format!("json_extract(r.record, {path})");
        let mut alternatives = Vec::new();
        for of in [ValueType::Number, ValueType::Text, ValueType::Boolean] {
            let values = values.iter().filter(|value| ValueType::of(value) == of);
            let values: Vec<_> = values.map(|value| sql.bind(plain(value)).to_string()).collect();
            if !values.is_empty() {
                let types = json_types(of);
                alternatives.push(format!("({kind} IN {types} AND {found} IN ({}))", values.join(", ")));
            }
        }
        let found = alternatives.join(" OR ");
        if is_negated { format!("({kind} <> 'null' AND NOT ({found}))") } else { format!("({found})") }
    }

    fn exists(field: &Path, is_negated: bool) -> String {
        let operator = if is_negated { "=" } else { "<>" };
        format!("(coalesce(json_type(r.record, {}), 'null') {operator} 'null')", literal(field))
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

    fn short_list(record: &str, field: &Path) -> String {
        let path = literal(field);
        let (element, member) = (element("e"), element("m"));
        let object = format!(
            "(SELECT CASE WHEN count(*) = count({member}) \
                 THEN '{{' || coalesce(group_concat(json_quote(m.key) || ':' || {member}, ',' ORDER BY m.key), '') || '}}' END \
             FROM json_each(e.value) m)"
        );
        format!(
            "(CASE WHEN json_type({record}, {path}) = 'array' AND json_array_length({record}, {path}) <= {MAX_ELEMENTS} THEN \
             (SELECT l.list FROM (SELECT CASE WHEN count(*) = count(v.text) \
                     THEN '[' || coalesce(group_concat(v.text, ','), '') || ']' END AS list \
                 FROM (SELECT CASE e.type WHEN 'object' THEN {object} ELSE {element} END AS text \
                     FROM json_each({record}, {path}) e) v) l \
             WHERE length(l.list) <= {MAX_LIST_CHARS}) END)"
        )
    }

    fn bucket_of_micros(column: &str, bucket: Bucket) -> String {
        format!("strftime('{}', {column} / 1000000, 'unixepoch')", time_format(bucket))
    }

    /// `strftime` takes February 30 for March 1, so the date must be its own.
    fn bucket_of_text(text: &str, bucket: Bucket) -> String {
        format!(
            "(SELECT CASE WHEN y.b GLOB '[1-9][0-9][0-9][0-9]-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]' \
             AND y.b < '9999' AND substr(y.b, 12, 2) < '24' \
             AND strftime('%Y-%m-%d', substr(y.b, 1, 10)) = substr(y.b, 1, 10) \
             AND (y.z = 'Z' OR (y.z GLOB '[-+][01][0-9]:[0-5][0-9]' AND substr(y.z, 2) < '14:01')) \
             THEN strftime('{}', y.b || y.z) END FROM {})",
            time_format(bucket),
            datetime_parts(text, "")
        )
    }

    /// SQLite has no function for base32, so each of the 58 characters is computed from two hexadecimal digits, in which the bit `i`
    /// begins. Costs some 30 µs a row.
    fn cid_text(column: &str) -> String {
        const DIGITS: &str = "'0123456789ABCDEF'";
        let bits = CID_BYTES * 8;
        // Past the end `instr` finds the empty text at 1: zero.
        format!(
            "(WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 5 FROM n WHERE i + 5 < {bits}) \
             SELECT 'b' || group_concat(substr('abcdefghijklmnopqrstuvwxyz234567', \
                 1 + (((instr({DIGITS}, substr(h, i / 4 + 1, 1)) - 1) * 16 \
                     + instr({DIGITS}, substr(h, i / 4 + 2, 1)) - 1) >> (3 - i % 4)) % 32, 1), '') \
             FROM (SELECT hex({column}) AS h WHERE {column} IS NOT NULL LIMIT 1) CROSS JOIN n)"
        )
    }

    fn folded(text: &str) -> String {
        format!("lower(substr({text}, 1, {MAX_TEXT_CHARS}))")
    }

    const DID: &'static str = "d.did";
    const COLUMNS_JOIN: (&'static str, &'static str) = (" CROSS JOIN dids d", " AND d.id = r.did_id");

    fn columns(columns: Columns) -> &'static str {
        columns::sqlite(columns)
    }

    fn from(sql: &mut Sql, collection: Collection, by: By<'_>, accounts: Accounts) {
        // SQLite has no statistics to choose an index by.
        let index = match by {
            By::Time => None,
            By::Field(bounds) => Some(bounds.index_name()),
            By::Index(name) => Some(name.to_owned()),
            By::Target { .. } => Some("record_refs".to_owned()),
        };
        sql.push(format_args!(" FROM "));
        if let Some(index) = &index {
            sql.push(format_args!("{index} f CROSS JOIN "));
        }
        sql.push(format_args!("records r CROSS JOIN dids d WHERE "));
        match by {
            By::Time => {}
            By::Field(_) | By::Index(_) => sql.push(format_args!("r.id = f.id AND ")),
            By::Target { target, .. } => {
                let target = target.write(sql);
                let collection = sql.bind(Value::Integer(collection.id));
                sql.push(format_args!(
                    "f.target = {target} AND f.collection_id = {collection} AND r.id = f.record_id AND "
                ));
            }
        }
        sql.push(format_args!("d.id = r.did_id"));
        if accounts != Accounts::All {
            sql.push(format_args!(" AND d.status = 0"));
        }
    }

    fn limited(
        sql: &mut Sql,
        columns: Columns,
        _is_page: bool,
        limit: Placeholder,
        rows: impl FnOnce(&mut Sql),
    ) {
        // The rows are concatenated in the order of the inner SELECT: its LIMIT keeps SQLite from flattening it.
        let (begin, end) =
            if columns.is_packed() { ("SELECT group_concat(p, '') FROM (", ")") } else { ("", "") };
        sql.push(format_args!("{begin}"));
        rows(sql);
        sql.push(format_args!(" LIMIT {limit}{end}"));
    }

    fn index_table(_partition: Partition, index: &str) -> String {
        format!("{index} f")
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
        let value = match value {
            Scalar::Text(text) => Value::Text(text.chars().take(MAX_TEXT_CHARS).collect::<String>()),
            value => plain(value),
        };
        sql.bind(value).to_string()
    }

    fn position(suffix: &str) -> String {
        format!("s.class{suffix}, s.num{suffix}, s.txt{suffix}")
    }

    fn number(sql: &mut Sql, text: &str) -> String {
        // Cursors with other numbers were rejected before.
        let float = || Value::Float(text.parse().unwrap_or_default());
        sql.bind(text.parse().map_or_else(|_| float(), Value::Integer)).to_string()
    }
}
