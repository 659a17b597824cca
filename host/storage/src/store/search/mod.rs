//! Implements `db.search`: finds a substring in fields of a collection's records, ignoring the case of ASCII letters.
//!
//! Exact matches come first, then values that begin with the text, then the rest; within each group those in earlier fields
//! first, then by the field's value regardless of case, then by age. A search table (SQLite) or a trigram index
//! (PostgreSQL) only selects candidates; the condition is checked for each of them, so the result is the same as that of a
//! scan. A text that many records have in one field is found along an index of all texts instead (`walk`).

mod relevance;
mod statement;
pub(super) mod walk;

use std::time::{Duration, Instant};

use crate::query::{PageSize, Relevance, Search};
use belvedere_web::fair_share::Tenant;

use super::fields::{IndexKey, IndexKind};
use super::intern::{self, Collection};
use super::reads::Reads;
use super::records::{self, FullRecordRow, PAGE_BYTES, PartialRow, RecordRow, Room, complete, unjoined};
use super::scans::SCAN_TIME_LIMIT;
use super::select::{PostgresDialect, SqliteDialect, bound};
use super::{Db, StoreError};
use statement::compile;
use walk::WALK_TIME_LIMIT;

/// Shorter texts have no trigram: every record is searched for them.
const MIN_INDEXED_CHARS: usize = 3;

/// A page of matches, best first.
#[derive(Clone, Debug, Default)]
pub struct SearchPage {
    pub rows: Vec<RecordRow>,
    /// The position of the last row, if more follow.
    pub next: Option<Relevance>,
}

/// The rows that a statement reads: one more shows whether another page follows.
fn rows_read(args: &Search) -> i64 {
    i64::from(PageSize::rows_read(args.limit))
}

/// A page of the best matches, at most [`PAGE_BYTES`] of records.
///
/// # Errors
/// [`StoreError::Busy`] and [`StoreError::TooSlow`]: matches are sorted, so every search is a scan, at least of the
/// candidates from an index.
pub async fn read(db: &Db, args: &Search, tenant: &Tenant) -> Result<SearchPage, StoreError> {
    let Some(collection) = intern::collection(db, &args.collection).await? else {
        return Ok(SearchPage::default());
    };
    let long_enough = args.text.chars().count() >= MIN_INDEXED_CHARS;
    let index_of = |field| db.fields().index(collection.id, field, IndexKind::Search);
    // Records that match in a field without an index are found by a scan alone.
    let indexes: Option<Vec<i64>> = args.fields.iter().map(index_of).collect();
    let indexes = indexes.filter(|_| long_enough);
    let permit = db.scan_permit(tenant).await?;
    let started = Instant::now();
    let (found, indexes) = match run(db, collection, args, indexes.as_deref()).await {
        // Another process may have dropped the index meanwhile.
        Err(StoreError::Database(error)) if indexes.is_some() => {
            tracing::debug!(%error, "a search by an index failed; it is repeated as a scan of the collection");
            for id in indexes.iter().flatten() {
                db.fields().forget(*id);
            }
            (run(db, collection, args, None).await, None)
        }
        found => (found, indexes),
    };
    drop(permit);
    let note = |took: Duration| {
        for field in args.fields.iter().filter(|_| long_enough) {
            let key = IndexKey { collection_id: collection.id, path: field.clone(), kind: IndexKind::Search };
            // Those that have an index are not to blame for the scan.
            let scans = indexes.is_none() && index_of(field).is_none();
            db.fields().note(key, scans.then_some(took));
        }
    };
    match found {
        Ok(found) => {
            note(started.elapsed());
            let page = complete(db, found, args.limit, Room::of(PAGE_BYTES)).await?;
            let last = page.rows.last().filter(|_| page.next.is_some());
            let next = last.and_then(|last| relevance::of(last, args));
            Ok(SearchPage { rows: page.rows, next })
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

/// Like [`read`], with all columns of the rows, for the admin API.
///
/// # Errors
/// Those of [`read`].
pub async fn read_full(
    db: &Db,
    args: &Search,
    tenant: &Tenant,
) -> Result<(Vec<FullRecordRow>, Option<Relevance>), StoreError> {
    let SearchPage { rows, next } = read(db, args, tenant).await?;
    Ok((records::with_all_columns(db, rows).await?, next))
}

async fn run(
    db: &Db,
    collection: Collection,
    args: &Search,
    indexes: Option<&[i64]>,
) -> Result<Vec<PartialRow<RecordRow>>, StoreError> {
    match db {
        Db::Sqlite(db) => {
            if let Some([index]) = indexes
                && walk::is_better(db, *index, collection.id, args).await?
                && let Some(found) = walk::sqlite(db, collection, *index, args, WALK_TIME_LIMIT).await?
            {
                return Ok(found);
            }
            let sql = compile::<SqliteDialect>(collection, args, indexes);
            records::rows(bound!(sql).fetch_all(db.scan_pool.reads()).await?, &args.collection)
        }
        Db::Postgres(db) => {
            if let Some([_]) = indexes {
                return walk::postgres(db, collection, args).await;
            }
            let sql = compile::<PostgresDialect>(collection, args, None);
            let found = match indexes {
                // Planned for this text: the planner finds the candidates of each field in its index.
                Some(_) => {
                    bound!(sql)
                        .persistent(false)
                        .fetch_all(db.pool_of(collection.partition, Reads::Searches).reads())
                        .await?
                }
                None => bound!(sql).fetch_all(db.pool_of(collection.partition, Reads::Scans).reads()).await?,
            };
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
