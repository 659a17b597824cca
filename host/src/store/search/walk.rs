//! Finds a text that many records have, on SQLite: reads the table of all texts in the order of the results until the page
//! is full.
//!
//! Sorting the candidates of a common text would read a large part of the collection. The more records have it, the
//! sooner a walk along the texts has found a page of them.

use crate::query::sort::MAX_TEXT_CHARS;
use crate::store::fields::IndexKind;
use crate::store::fields::sqlite::texts_name;
use crate::store::partitions::Partition;
use crate::store::query::{Dialect, Sql, SqliteDialect, Value, bound};
use crate::store::records::{PartialRow, RawRow, RecordRow};
use crate::store::{Sqlite, StoreError};

use super::{SearchArgs, escape, phrase};

/// Up to this number of candidates is read and sorted, in some milliseconds.
const MAX_SORTED: i64 = 2_000;

/// Whether more records have the text than should be sorted.
pub(super) async fn is_better(db: &Sqlite, index: i64, text: &str) -> Result<bool, StoreError> {
    // A key has only the beginning of a long text.
    if text.chars().count() >= MAX_TEXT_CHARS {
        return Ok(false);
    }
    let table = IndexKind::Search.index_name(index);
    let mut sql = Sql { text: String::with_capacity(128), values: Vec::new() };
    let (pattern, limit) = (sql.bind(Value::Text(phrase(text))), sql.bind(Value::Integer(MAX_SORTED + 1)));
    sql.push(&format!(
        "SELECT count(*) FROM (SELECT rowid FROM {table} WHERE txt MATCH {pattern} LIMIT {limit})"
    ));
    let query = bound!(sql);
    let count: i64 = sqlx::Row::try_get(&query.fetch_one(db.scan_pool.reads()).await?, 0)?;
    Ok(count > MAX_SORTED)
}

/// What a row has in common with the text, best first.
#[derive(Clone, Copy, Debug)]
enum Match {
    Exact,
    Prefix,
    Elsewhere,
}

pub(super) async fn rows(
    db: &Sqlite,
    index: i64,
    args: &SearchArgs<'_>,
) -> Result<Vec<PartialRow<RecordRow>>, StoreError> {
    let mut found = Vec::new();
    for what in [Match::Exact, Match::Prefix, Match::Elsewhere] {
        let wanted = (args.limit as usize).saturating_sub(found.len());
        if wanted == 0 {
            break;
        }
        let query = bound!(compile(index, args, what, wanted));
        for row in query.fetch_all(db.scan_pool.reads()).await? {
            found.push(row.raw(args.collection.clone())?);
        }
    }
    Ok(found)
}

fn compile(index: i64, args: &SearchArgs<'_>, what: Match, limit: usize) -> Sql {
    let mut sql = Sql { text: String::with_capacity(1024), values: Vec::new() };
    let folded = args.text.to_ascii_lowercase();
    // Of all characters the last: no text continues with it.
    let end = format!("{folded}\u{10ffff}");
    let text = sql.bind(Value::Text(folded));
    let condition = match what {
        Match::Exact => format!("f.key = {text}"),
        Match::Prefix => format!("f.key > {text} AND f.key < {}", sql.bind(Value::Text(end))),
        Match::Elsewhere => {
            let end = sql.bind(Value::Text(end));
            let pattern = sql.bind(Value::Text(format!("%{}%", escape(args.text))));
            let whole = SqliteDialect::text("w.record", args.field);
            format!(
                "NOT (f.key >= {text} AND f.key < {end}) AND (instr(f.key, {text}) > 0 \
                 OR (length(f.key) = {MAX_TEXT_CHARS} AND EXISTS (SELECT 1 FROM records w \
                     WHERE w.id = f.id AND {whole} LIKE {pattern} ESCAPE '\\')))"
            )
        }
    };
    let limit = sql.bind(Value::Integer(limit as i64));
    sql.push(&format!(
        "SELECT {} {}AND {condition} ORDER BY f.key, f.id LIMIT {limit}",
        SqliteDialect::COLUMNS,
        SqliteDialect::from_visible(Partition::WHOLE, Some(&texts_name(index))),
    ));
    sql
}
