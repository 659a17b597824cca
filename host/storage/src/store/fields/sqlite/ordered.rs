//! Tables that are ordered by the value of a field.
//!
//! Inserting millions of values in the order of the records would touch a page for almost every one. So they are first
//! sorted into a temporary table, in a file of its own connection, and then appended in order. Records that change in the
//! meantime are left to the triggers.

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, SqliteConnection};

use crate::query::path::Path;
use crate::store::select::{Dialect, MISSING, SqliteDialect};
use crate::store::{Sqlite, StoreError};

use super::super::IndexKey;
use super::super::error::BuildError;
use super::{Turn, create_triggers, drop_triggers, execute};

/// Rows that one step appends. Another write waits for one step.
const STEP: i64 = 5_000;

/// Memory for sorting (negative: KiB); the rest goes to a temporary file.
const SORT_CACHE: &str = "-32768";

/// The table of the records that changed while the index `name` was built.
pub(super) fn changed(name: &str) -> String {
    format!("{name}_changed")
}

/// The columns of a table in their order, with the expressions for them.
pub(super) struct Columns {
    names: &'static str,
    definitions: &'static str,
    /// The expressions for a row of `records`, with the prefix of its columns.
    of: fn(row: &str, field: &Path) -> String,
    /// The condition for records that are in the table.
    condition: String,
}

/// Newest first within a value. No filter finds a record without a value.
pub(super) fn filter() -> Columns {
    Columns {
        names: "class, key, indexed_at, id",
        definitions: "class INTEGER NOT NULL, key ANY NOT NULL, indexed_at INTEGER NOT NULL, id INTEGER NOT NULL",
        of: |row, field| {
            let (class, value) = SqliteDialect::index_columns(&format!("{row}record"), field);
            format!("{class} AS class, {value} AS key, {row}indexed_at AS indexed_at, {row}id AS id")
        },
        condition: format!("class <> {MISSING}"),
    }
}

pub(super) fn sort() -> Columns {
    Columns {
        names: "class, key, id",
        definitions: "class INTEGER NOT NULL, key ANY NOT NULL, id INTEGER NOT NULL",
        of: |row, field| {
            let (class, value) = SqliteDialect::index_columns(&format!("{row}record"), field);
            format!("{class} AS class, {value} AS key, {row}id AS id")
        },
        condition: "true".into(),
    }
}

/// The texts of a search, in the order of its results.
pub(super) fn texts() -> Columns {
    Columns {
        names: "key, id",
        definitions: "key TEXT NOT NULL, id INTEGER NOT NULL",
        of: |row, field| {
            let text = SqliteDialect::text(&format!("{row}record"), field);
            format!("{} AS key, {row}id AS id", SqliteDialect::folded(&text))
        },
        condition: "key IS NOT NULL".into(),
    }
}

/// Creates and fills the table `name`.
pub(super) async fn build(
    db: &Sqlite,
    columns: &Columns,
    name: &str,
    key: &IndexKey,
) -> Result<(), BuildError> {
    let Columns { names, definitions, condition, .. } = columns;
    let (collection, changed) = (key.collection_id, changed(name));
    let values = |row: &str| (columns.of)(row, &key.path);
    let insert = format!(
        "INSERT OR IGNORE INTO {name} ({names}) SELECT {names} FROM (SELECT {}) WHERE {condition};",
        values("NEW.")
    );
    let delete =
        format!("DELETE FROM {name} WHERE ({names}) = (SELECT {names} FROM (SELECT {}));", values("OLD."));
    let note = format!("INSERT OR IGNORE INTO {changed} (id) VALUES (OLD.id); {delete}");
    let create = format!(
        "CREATE TABLE {name} ({definitions}, PRIMARY KEY ({names})) STRICT, WITHOUT ROWID; \
         CREATE TABLE {changed} (id INTEGER PRIMARY KEY) STRICT; {}",
        create_triggers(name, collection, &note, &insert)
    );
    execute(db, create).await?;

    let mut source = connect(db).await?;
    let sort = format!(
        "CREATE TEMP TABLE sorted AS SELECT {names} FROM (SELECT {} FROM records WHERE collection_id = {collection}) \
         WHERE {condition} ORDER BY {names}",
        values("")
    );
    sqlx::raw_sql(AssertSqlSafe(sort)).execute(&mut source).await?;
    let append = format!(
        "INSERT OR IGNORE INTO {name} ({names}) SELECT {names} FROM temp.sorted \
         WHERE rowid > $1 AND rowid <= $2 AND id NOT IN (SELECT id FROM {changed})"
    );
    append_in_steps(db, &mut source, append).await?;
    source.close().await?;

    let finish = format!(
        "{} DROP TABLE {changed}; {}",
        drop_triggers(name),
        create_triggers(name, collection, &delete, &insert)
    );
    Ok(execute(db, finish).await?)
}

/// A connection that sorts in a file, and may write.
async fn connect(db: &Sqlite) -> Result<SqliteConnection, StoreError> {
    let options: SqliteConnectOptions = (*db.writer.connect_options()).clone();
    let options = options.pragma("temp_store", "file").pragma("cache_size", SORT_CACHE);
    Ok(options.connect().await?)
}

/// Appends the sorted rows. The server's own writer is held during each step: it is the queue in which writers wait.
async fn append_in_steps(
    db: &Sqlite,
    source: &mut SqliteConnection,
    append: String,
) -> Result<(), StoreError> {
    let last: i64 =
        sqlx::query_scalar("SELECT coalesce(max(rowid), 0) FROM temp.sorted").fetch_one(&mut *source).await?;
    let mut from = 0;
    let mut turn = Turn::wait(db).await?;
    while from < last {
        turn = turn.next(db).await?;
        let step = sqlx::query(AssertSqlSafe(append.clone())).bind(from).bind(from + STEP);
        step.execute(&mut *source).await?;
        from += STEP;
    }
    Ok(())
}
