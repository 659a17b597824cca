//! Finds a text that many records have: reads an index of all texts, in the order of the results, until the page is full.
//!
//! Sorting the candidates of a common text would read a large part of the collection. The more records have it, the
//! sooner a walk along the texts has found a page of them. PostgreSQL's planner estimates from its statistics which of the
//! two is shorter, each time. SQLite has none: a walk is tried if there are many candidates, and given up after
//! [`WALK_TIME_LIMIT`], because many records may have the trigrams of a text that few have.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use tokio::time::timeout;

use crate::query::sort::MAX_TEXT_CHARS;
use crate::query::{PageSize, Search};
use crate::store::fields::IndexKind;
use crate::store::fields::sqlite::texts_name;
use crate::store::intern::Collection;
use crate::store::reads::Reads;
use crate::store::records::{self, PartialRow, RecordRow, unjoined};
use crate::store::scans::SCAN_TIME_LIMIT;
use crate::store::select::{
    Accounts, By, Columns, Dialect, Placeholder, PostgresDialect, Sql, SqliteDialect, Value, bound, escape,
};
use crate::store::{Postgres, Sqlite, StoreError};

use super::trigrams;

/// Number of texts that a walk reads in the time in which one candidate is read and compared. Measured at ten million
/// records, where each candidate is on a page of its own, while a walk reads pages full of texts.
const TEXTS_PER_CANDIDATE: f64 = 100.0;
/// Bounds for the number of candidates that are read and sorted, in some milliseconds.
const SORTED: RangeInclusive<f64> = 200.0..=5_000.0;

/// Maximum time of a walk on SQLite. It passes over some hundred thousand texts in this time.
pub(super) const WALK_TIME_LIMIT: Duration = Duration::from_millis(100);

/// Whether so many records have the text that a walk is expected to read less than a sort of them.
pub(super) async fn is_better(
    db: &Sqlite,
    index: i64,
    collection: i64,
    args: &Search,
) -> Result<bool, StoreError> {
    let sql = "SELECT records FROM record_counts WHERE collection_id = $1";
    let records = sqlx::query_scalar(sql).bind(collection).fetch_optional(db.scan_pool.reads()).await?;
    let most = most_sorted(records.unwrap_or_default(), args.limit);
    let table = IndexKind::Search.index_name(index);
    let mut sql = Sql::new();
    let (pattern, limit) = (sql.bind(Value::Text(trigrams(&args.text))), sql.bind(Value::Integer(most + 1)));
    sql.push(format_args!(
        "SELECT count(*) FROM (SELECT rowid FROM {table} WHERE {table} MATCH {pattern} LIMIT {limit})"
    ));
    let query = bound!(sql);
    let count: i64 = sqlx::Row::try_get(&query.fetch_one(db.scan_pool.reads()).await?, 0)?;
    Ok(count > most)
}

/// The number of candidates whose sort takes as long as the walk that finds `limit` of them among `records` texts.
fn most_sorted(records: i64, limit: u32) -> i64 {
    let equal = (records as f64 * f64::from(limit) / TEXTS_PER_CANDIDATE).sqrt();
    equal.clamp(*SORTED.start(), *SORTED.end()) as i64
}

/// The kinds of matches of a row with the text, best first, as the rank of a result in the only field.
#[derive(Clone, Copy, Debug)]
enum Match {
    Exact = 0,
    Prefix = 1,
    Elsewhere = 2,
}

/// The records by their texts.
struct Texts<'a> {
    collection: Collection,
    by: By<'a>,
    /// The text as results are sorted by it.
    key: String,
    /// The id of the record.
    id: &'static str,
}

/// Fetches a page of each [`Match`] until there are enough rows.
macro_rules! rows {
    ($args:expr, |$what:ident, $limit:ident| $fetched:expr) => {{
        let (mut found, started) = (Vec::new(), Instant::now());
        for $what in [Match::Exact, Match::Prefix, Match::Elsewhere] {
            let $limit = (PageSize::rows_read($args.limit) as usize).saturating_sub(found.len());
            if $args.after.as_ref().is_some_and(|after| after.rank > $what as u8) {
                continue;
            }
            if $limit == 0 {
                break;
            }
            if started.elapsed() > SCAN_TIME_LIMIT {
                return Err(StoreError::TooSlow);
            }
            found.extend(records::rows($fetched, &$args.collection)?);
        }
        found
    }};
}

/// `None` if the texts that have it elsewhere than at their beginning are not found within `time_limit`.
pub(in crate::store) async fn sqlite(
    db: &Sqlite,
    collection: Collection,
    index: i64,
    args: &Search,
    time_limit: Duration,
) -> Result<Option<Vec<PartialRow<RecordRow>>>, StoreError> {
    let name = texts_name(index);
    let texts = Texts { collection, by: By::Index(&name), key: "f.key".to_owned(), id: "f.id" };
    let contains = |sql: &mut Sql, text: Placeholder| {
        let pattern = sql.bind(Value::Text(format!("%{}%", escape(&args.text))));
        let whole = SqliteDialect::text("w.record", &args.fields[0]);
        format!(
            "(instr(f.key, {text}) > 0 OR (length(f.key) = {MAX_TEXT_CHARS} AND EXISTS (SELECT 1 FROM records w \
                 WHERE w.id = f.id AND {whole} LIKE {pattern} ESCAPE '\\')))"
        )
    };
    Ok(Some(rows!(args, |what, limit| {
        let query = bound!(compile::<SqliteDialect>(&texts, args, contains, what, limit));
        let fetch = query.fetch_all(db.scan_pool.reads());
        match what {
            Match::Exact | Match::Prefix => fetch.await?,
            Match::Elsewhere => match timeout(time_limit, fetch).await {
                Ok(found) => found?,
                Err(_) => return Ok(None),
            },
        }
    })))
}

pub(super) async fn postgres(
    db: &Postgres,
    collection: Collection,
    args: &Search,
) -> Result<Vec<PartialRow<RecordRow>>, StoreError> {
    let pool = db.pool_of(collection.partition, Reads::Searches);
    // Planned for this text each time: a plan for all texts would be wrong for most.
    Ok(rows!(args, |what, limit| {
        let query = bound!(postgres_statement(collection, args, what, limit)).persistent(false);
        unjoined::with_dids(db, query.fetch_all(pool.reads()).await?).await?
    }))
}

fn postgres_statement(collection: Collection, args: &Search, what: Match, limit: usize) -> Sql {
    let text = PostgresDialect::text("r.record", &args.fields[0]);
    let texts = Texts { collection, by: By::Time, key: PostgresDialect::folded(&text), id: "r.id" };
    let contains = |sql: &mut Sql, _: Placeholder| {
        let pattern = sql.bind(Value::Text(format!("%{}%", escape(&args.text))));
        format!("{text} {} {pattern} ESCAPE '\\'", PostgresDialect::LIKE)
    };
    compile::<PostgresDialect>(&texts, args, contains, what, limit)
}

/// PostgreSQL's plan for the rows that have the text elsewhere than at the beginning; `None` on SQLite.
#[cfg(test)]
pub(in crate::store) async fn explain(
    db: &crate::store::Db,
    args: &Search,
) -> Result<Option<String>, StoreError> {
    let crate::store::Db::Postgres(postgres) = db else { return Ok(None) };
    let Some(collection) = crate::store::intern::collection(db, &args.collection).await? else {
        return Ok(None);
    };
    let sql = postgres_statement(collection, args, Match::Elsewhere, args.limit as usize);
    let rows = bound!(sql.with_prefix("EXPLAIN"))
        .persistent(false)
        .fetch_all(postgres.read_pools.searches.reads())
        .await?;
    let lines = rows.iter().map(|row| sqlx::Row::try_get(row, 0)).collect::<Result<Vec<String>, _>>()?;
    Ok(Some(lines.join("\n")))
}

/// `contains`: the condition that a record has the text, from the statement and the placeholder of the text in lower case.
fn compile<D: Dialect>(
    texts: &Texts<'_>,
    args: &Search,
    contains: impl FnOnce(&mut Sql, Placeholder) -> String,
    what: Match,
    limit: usize,
) -> Sql {
    let mut sql = Sql::new();
    let Texts { collection, by, key, id } = texts;
    let folded = args.text.to_ascii_lowercase();
    // No text continues with the last of all characters.
    let end = format!("{folded}\u{10ffff}");
    let text = sql.bind(Value::Text(folded));
    let condition = match what {
        Match::Exact => format!("{key} = {text}"),
        Match::Prefix => format!("{key} > {text} AND {key} < {}", sql.bind(Value::Text(end))),
        Match::Elsewhere => {
            let end = sql.bind(Value::Text(end));
            format!("NOT ({key} >= {text} AND {key} < {end}) AND {}", contains(&mut sql, text))
        }
    };
    let after = match args.after.as_ref().filter(|after| after.rank == what as u8) {
        Some(after) => {
            let after_key = sql.bind(Value::Text(after.key.clone()));
            let after_id = sql.bind(Value::Integer(after.id));
            format!(" AND ({key}, {id}) > ({after_key}, {after_id})")
        }
        None => String::new(),
    };
    let limit = sql.bind(Value::Integer(limit as i64));
    sql.push(format_args!("SELECT {}", D::columns(Columns::Row)));
    D::from(&mut sql, *collection, *by, Accounts::VisibleJoined);
    // An index has the texts of one collection.
    if let By::Time = by {
        sql.push(format_args!(" AND r.collection_id = {}", collection.id));
    }
    sql.push(format_args!(" AND {condition}{after} ORDER BY {key}, {id} LIMIT {limit}"));
    sql
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_candidates_are_sorted_in_larger_collections() {
        let of = |records| most_sorted(records, 20);
        assert_eq!([0, 100_000, 1_000_000, 8_000_000, i64::MAX].map(of), [200, 200, 447, 1_264, 5_000]);
        assert_eq!(most_sorted(1_000_000, 100), 1_000);
    }
}
