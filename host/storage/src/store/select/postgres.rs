//! Writes conditions and orders for PostgreSQL: `jsonb` values are compared as `jsonb`, or as text by code point.
//!
//! A path is a chain of `->`: with a key it reads only objects, with a number only arrays, like SQLite's paths. (With
//! `#>` the `0` of `{a,0}` could be a key or an index.) For an element of an array it is a strict JSON path, because `->`
//! takes a string or number for an array that contains it.

use super::dialect::{datetime_parts, operator, pattern};
use super::{
    Accounts, By, Classes, Columns, InIndex, Keys, MISSING, Placeholder, Sql, Value, ValueType, columns,
    is_visible,
};
use crate::query::PageSize;
use crate::query::filter::{Op, Scalar};
use crate::query::group::{Bucket, MAX_ELEMENTS, MAX_LIST_CHARS, MAX_LIST_NUMBER};
use crate::query::path::{Path, Step};
use crate::query::sort::MAX_TEXT_CHARS;
use crate::store::Backend;
use crate::store::intern::Collection;
use crate::store::partitions::Partition;

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

/// The format of a bucket's label, for `to_char`.
fn time_format(bucket: Bucket) -> &'static str {
    match bucket {
        Bucket::Hour => "YYYY-MM-DD\"T\"HH24",
        Bucket::Day => "YYYY-MM-DD",
        Bucket::Week => "IYYY-\"W\"IW",
        Bucket::Month => "YYYY-MM",
    }
}

/// A value as `jsonb`.
fn json_of(sql: &mut Sql, value: &Scalar) -> String {
    match value {
        Scalar::Text(text) => format!("to_jsonb({}::text)", sql.bind(Value::Text(text.clone()))),
        Scalar::Integer(n) => format!("to_jsonb({}::bigint)", sql.bind(Value::Integer(*n))),
        Scalar::Float(n) => format!("to_jsonb({}::float8)", sql.bind(Value::Float(*n))),
        Scalar::Boolean(b) => format!("to_jsonb({}::boolean)", sql.bind(Value::Boolean(*b))),
    }
}

/// The canonical JSON of a value, for [`Dialect::short_list`](super::Dialect::short_list): NULL for arrays, objects and numbers that have
/// none.
fn element(value: &str) -> String {
    format!(
        "CASE jsonb_typeof({value}) WHEN 'array' THEN NULL WHEN 'object' THEN NULL \
         WHEN 'number' THEN CASE WHEN {value}::numeric BETWEEN -{MAX_LIST_NUMBER} AND {MAX_LIST_NUMBER} \
             AND {value}::numeric = trunc({value}::numeric) THEN trunc({value}::numeric)::text END \
         ELSE {value}::text END"
    )
}

impl super::Dialect for Dialect {
    const BACKEND: Backend = Backend::Postgres;
    const SPLITS_TIMES: bool = false;
    const ORDER_NAMES_NULLS: bool = true;
    const ID_IS_AMONG: (&'static str, &'static str) = ("= ANY (ARRAY (", "))");
    // Not a bare IN, which may become a join that loses the order of the rows.
    const DID_IS_IN_JSON: (&'static str, &'static str) = (
        "(r.did_id IN (SELECT id FROM dids WHERE did IN (SELECT jsonb_array_elements_text(",
        "::text::jsonb)))) IS TRUE",
    );
    const DID_ID_IS_IN_JSON: (&'static str, &'static str) =
        ("(r.did_id IN (SELECT jsonb_array_elements(", "::text::jsonb)::bigint)) IS TRUE");
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
                match op {
                    Op::Eq | Op::Ne => ("string", json_of(sql, value), found.clone()),
                    _ => {
                        ("string", format!("{}::text", sql.bind(Value::Text(text.clone()))), text_of(&found))
                    }
                }
            }
            Scalar::Integer(_) | Scalar::Float(_) => ("number", json_of(sql, value), found.clone()),
            Scalar::Boolean(_) => ("boolean", json_of(sql, value), found.clone()),
        };
        match op {
            // Values of different types are never equal.
            Op::Eq => format!("{found_typed} = {typed}"),
            Op::Ne => format!("({found} <> 'null'::jsonb AND {found_typed} <> {typed})"),
            _ => format!("(jsonb_typeof({found}) = '{kind}' AND {found_typed} {} {typed})", operator(op)),
        }
    }

    fn has_word(column: &str, word: &str) -> String {
        format!("({column} = {word} OR strpos(' ' || {column} || ' ', ' ' || {word} || ' ') > 0)")
    }

    fn among(sql: &mut Sql, field: &Path, values: &[Scalar], is_negated: bool) -> String {
        let found = chain("r.record", field);
        let values: Vec<_> = values.iter().map(|value| json_of(sql, value)).collect();
        let values = values.join(", ");
        if is_negated {
            format!("({found} <> 'null'::jsonb AND {found} NOT IN ({values}))")
        } else {
            format!("{found} IN ({values})")
        }
    }

    fn exists(field: &Path, is_negated: bool) -> String {
        let operator = if is_negated { "=" } else { "<>" };
        format!("(coalesce({}, 'null'::jsonb) {operator} 'null'::jsonb)", chain("r.record", field))
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

    fn short_list(record: &str, field: &Path) -> String {
        let found = chain(record, field);
        let (element, member) = (element("e.value"), element("m.value"));
        let object = format!(
            "(SELECT CASE WHEN count(*) = count({member}) THEN '{{' || coalesce(string_agg(to_json(m.key)::text || ':' || {member}, ',' \
                 ORDER BY m.key COLLATE \"C\"), '') || '}}' END \
             FROM jsonb_each(e.value) m)"
        );
        format!(
            "(CASE WHEN CASE jsonb_typeof({found}) WHEN 'array' THEN jsonb_array_length({found}) END <= {MAX_ELEMENTS} THEN \
             (SELECT l.list COLLATE \"C\" FROM (SELECT CASE WHEN count(*) = count(v.text) \
                     THEN '[' || coalesce(string_agg(v.text, ',' ORDER BY v.n), '') || ']' END AS list \
                 FROM (SELECT CASE jsonb_typeof(e.value) WHEN 'object' THEN {object} ELSE {element} END AS text, e.n \
                     FROM jsonb_array_elements({found}) WITH ORDINALITY e (value, n)) v) l \
             WHERE length(l.list) <= {MAX_LIST_CHARS}) END)"
        )
    }

    fn bucket_of_micros(column: &str, bucket: Bucket) -> String {
        let format = time_format(bucket);
        format!("to_char(to_timestamp({column} / 1000000) AT TIME ZONE 'UTC', '{format}') COLLATE \"C\"")
    }

    /// A cast of February 30 is an error, so the day is compared with the last one of its month first.
    fn bucket_of_text(text: &str, bucket: Bucket) -> String {
        format!(
            "((SELECT CASE WHEN y.b ~ '^[1-9][0-9]{{3}}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]$' \
             AND y.b < '9999' AND y.z ~ '^(Z|[-+]((0[0-9]|1[0-3]):[0-5][0-9]|14:00))$' \
             THEN CASE WHEN substr(y.b, 9, 2)::integer <= date_part('day', \
                 make_date(substr(y.b, 1, 4)::integer, substr(y.b, 6, 2)::integer, 1) + interval '1 month -1 day') \
             THEN to_char(y.b::timestamp - (CASE y.z WHEN 'Z' THEN '00:00' ELSE y.z END)::interval, '{}') END END \
             FROM {}) COLLATE \"C\")",
            time_format(bucket),
            datetime_parts(text, " OFFSET 0")
        )
    }

    fn cid_text(column: &str) -> String {
        format!("script_views.cid_text({column})")
    }

    fn folded(text: &str) -> String {
        format!("lower(left({text}, {MAX_TEXT_CHARS}))")
    }

    const DID: &'static str = "(SELECT a.did FROM dids a WHERE a.id = r.did_id)";
    const COLUMNS_JOIN: (&'static str, &'static str) = ("", "");

    fn columns(columns: Columns) -> &'static str {
        columns::postgres(columns)
    }

    // PostgreSQL has statistics and chooses the indexes of fields itself.
    fn from(sql: &mut Sql, Collection { id, partition }: Collection, by: By<'_>, accounts: Accounts) {
        let records = partition.records();
        let visible = match accounts {
            Accounts::All => "true".to_owned(),
            Accounts::Visible => is_visible("r.did_id"),
            Accounts::VisibleJoined => "d.status = 0".to_owned(),
        };
        if let By::Target { target, .. } = by {
            let target = target.write(sql);
            let collection = sql.bind(Value::Integer(id));
            sql.push(format_args!(
                " FROM {} f CROSS JOIN LATERAL \
                 (SELECT * FROM {records} o WHERE o.collection_id = {collection} AND o.id = f.record_id LIMIT 1) r \
                 WHERE f.target = {target} AND f.collection_id = {collection} AND {visible}",
                partition.record_refs()
            ));
            return;
        }
        sql.push(format_args!(" FROM {records} r"));
        if accounts == Accounts::VisibleJoined {
            sql.push(format_args!(
                " CROSS JOIN LATERAL (SELECT did, status FROM dids WHERE dids.id = r.did_id LIMIT 1) d"
            ));
        }
        sql.push(format_args!(" WHERE {visible}"));
    }

    /// PostgreSQL assumes that a limit in a parameter is a tenth of the table, so that it would plan such a statement again
    /// on each execution, for longer than it runs. The inner limit, which no page exceeds, makes the plan for all values
    /// good enough to be kept.
    fn limited(
        sql: &mut Sql,
        _columns: Columns,
        is_page: bool,
        limit: Placeholder,
        rows: impl FnOnce(&mut Sql),
    ) {
        let max_rows = PageSize::rows_read(PageSize::RECORDS.max);
        if is_page {
            sql.push(format_args!("SELECT * FROM ("));
        }
        rows(sql);
        if is_page {
            sql.push(format_args!(" LIMIT {max_rows}) page"));
        }
        sql.push(format_args!(" LIMIT {limit}"));
    }

    fn index_table(partition: Partition, _index: &str) -> String {
        format!("{} r", partition.records())
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

    fn position(suffix: &str) -> String {
        format!("s.class{suffix}::bigint, coalesce(s.num{suffix}::text, s.txt{suffix})")
    }

    fn number(sql: &mut Sql, text: &str) -> String {
        format!("{}::text::numeric", sql.bind(Value::Text(text.to_owned())))
    }
}
