//! Implements `db.search`: finds a substring in one field of a collection's records, ignoring the case of ASCII
//! letters.
//!
//! Exact matches come first, then values that begin with the text, then the rest; within each group records are sorted
//! by the field's value regardless of case, then by age. A search table (SQLite) or a trigram index (PostgreSQL) only
//! selects candidates; the condition is checked for each of them, so the result is the same as that of a scan. A text that
//! many records have is found along an index of all texts instead (`walk`).

pub(super) mod walk;

use std::time::{Duration, Instant};

use crate::query::Search;
use belvedere_web::fair_share::Tenant;

use super::fields::{IndexKey, IndexKind};
use super::intern::{self, Collection};
use super::records::{self, PAGE_BYTES, PartialRow, RecordRow, complete, unjoined};
use super::scans::SCAN_TIME_LIMIT;
use super::select::{Accounts, By, Columns, Dialect, PostgresDialect, Sql, SqliteDialect, Value, bound};
use super::{Db, StoreError};
use walk::WALK_TIME_LIMIT;

/// Shorter texts have no trigram: every record is searched for them.
const MIN_INDEXED_CHARS: usize = 3;

/// The best matches, best first, at most [`PAGE_BYTES`] of records.
///
/// # Errors
/// [`StoreError::Busy`] and [`StoreError::TooSlow`]: matches are sorted, so every search is a scan, at least of the
/// candidates from an index.
pub async fn read(db: &Db, args: &Search, tenant: &Tenant) -> Result<Vec<RecordRow>, StoreError> {
    let Some(collection) = intern::collection(db, &args.collection).await? else { return Ok(Vec::new()) };
    let index = db.fields().index(collection.id, &args.field, IndexKind::Search);
    let long_enough = args.text.chars().count() >= MIN_INDEXED_CHARS;
    let index = index.filter(|_| long_enough);
    let permit = db.scan_permit(tenant).await?;
    let started = Instant::now();
    let (found, index) = match run(db, collection, args, index).await {
        // Another process may have dropped the index meanwhile.
        Err(StoreError::Database(error)) if index.is_some() => {
            tracing::debug!(%error, "a search by an index failed; it is repeated as a scan of the collection");
            if let Some(id) = index {
                db.fields().forget(id);
            }
            (run(db, collection, args, None).await, None)
        }
        found => (found, index),
    };
    drop(permit);
    let note = |took: Duration| {
        if long_enough {
            let key =
                IndexKey { collection_id: collection.id, path: args.field.clone(), kind: IndexKind::Search };
            db.fields().note(key, index.is_none().then_some(took));
        }
    };
    match found {
        Ok(found) => {
            note(started.elapsed());
            Ok(complete(db, found, args.limit, PAGE_BYTES).await?.rows)
        }
        Err(error) => {
            // A search that was stopped needs an index most.
            if matches!(error, StoreError::TooSlow) {
                note(SCAN_TIME_LIMIT);
            }
            Err(error)
        }
    }
}

async fn run(
    db: &Db,
    collection: Collection,
    args: &Search,
    index: Option<i64>,
) -> Result<Vec<PartialRow<RecordRow>>, StoreError> {
    match db {
        Db::Sqlite(db) => {
            if let Some(index) = index
                && walk::is_better(db, index, collection.id, args).await?
                && let Some(found) = walk::sqlite(db, collection, index, args, WALK_TIME_LIMIT).await?
            {
                return Ok(found);
            }
            let sql = compile::<SqliteDialect>(collection, args, index);
            records::rows(bound!(sql).fetch_all(db.scan_pool.reads()).await?, &args.collection)
        }
        Db::Postgres(db) => {
            if index.is_some() {
                return walk::postgres(db, collection, args).await;
            }
            let sql = compile::<PostgresDialect>(collection, args, None);
            let found = bound!(sql).fetch_all(db.scan_pool.reads()).await?;
            records::rows(unjoined::with_dids(db, found).await?, &args.collection)
        }
    }
}

/// Trigrams that a search asks the index for. More would hardly exclude another candidate.
const MAX_TRIGRAMS: usize = 32;

/// An FTS query for all trigrams of a text, or the first ones of a long text, in any order: the index does not know where in a
/// text they are. Between the quotes no character is an operator.
fn trigrams(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut found: Vec<String> = Vec::new();
    for window in chars.windows(MIN_INDEXED_CHARS) {
        let trigram = format!("\"{}\"", window.iter().collect::<String>().replace('"', "\"\""));
        if !found.contains(&trigram) {
            found.push(trigram);
        }
        if found.len() == MAX_TRIGRAMS {
            break;
        }
    }
    found.join(" AND ")
}

/// `index`: the search table to find candidates with, on SQLite.
fn compile<D: Dialect>(collection: Collection, args: &Search, index: Option<i64>) -> Sql {
    let mut sql = Sql::new();
    let text = D::text("r.record", &args.field);
    let escaped = escape(&args.text);
    let (like, folded) = (D::LIKE, D::folded(&text));
    let exact = sql.bind(Value::Text(escaped.clone()));
    let prefix = sql.bind(Value::Text(format!("{escaped}%")));
    let anywhere = sql.bind(Value::Text(format!("%{escaped}%")));
    let limit = sql.bind(Value::Integer(i64::from(args.limit)));
    sql.push(format_args!("SELECT {}", D::columns(Columns::Row)));
    if let Some(index) = index {
        let name = IndexKind::Search.index_name(index);
        let pattern = sql.bind(Value::Text(trigrams(&args.text)));
        sql.push(format_args!(
            " FROM {name} f CROSS JOIN records r CROSS JOIN dids d \
             WHERE f.{name} MATCH {pattern} AND r.id = f.rowid AND d.id = r.did_id AND d.status = 0"
        ));
    } else {
        D::from(&mut sql, collection, By::Time, Accounts::VisibleJoined);
    }
    sql.push(format_args!(
        " AND r.collection_id = {} AND {text} {like} {anywhere} ESCAPE '\\' \
         ORDER BY CASE WHEN {text} {like} {exact} ESCAPE '\\' THEN 0 \
             WHEN {text} {like} {prefix} ESCAPE '\\' THEN 1 ELSE 2 END, {folded}, r.id LIMIT {limit}",
        collection.id
    ));
    sql
}

/// Escapes the text for LIKE, so that it matches only itself.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '%' | '_' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trigrams_are_distinct_bounded_and_quoted() {
        assert_eq!(trigrams("ababa"), r#""aba" AND "bab""#);
        assert_eq!(trigrams(r#"a"ä OR"#), r#""a""ä" AND """ä " AND "ä O" AND " OR""#);
        let long: String = ('a'..='z').chain('A'..='Z').collect();
        assert_eq!(trigrams(&long).matches(" AND ").count(), MAX_TRIGRAMS - 1);
    }
}
