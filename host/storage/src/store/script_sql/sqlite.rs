//! Runs scripts' SQL on SQLite. The main database of a connection is the file of the scripts' own tables; the index is
//! attached read-only, and temporary views show it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::TryStreamExt;
use serde_json::Value;
use sqlx::sqlite::{LockedSqliteHandle, SqliteConnectOptions, SqliteRow};
use sqlx::{AssertSqlSafe, Column, Row, SqliteConnection, TypeInfo, ValueRef};

use super::super::read_pool::{SqliteHooks, SqliteLimit};
use super::authorizer::{self, Rights};
use super::guard::{Kind, Parsed, Statement};
use super::plan;
use super::statement_limits;
use super::{
    Answer, Connections, INDEX, MAX_CHEAP, MAX_OWN_BYTES, MAX_OWN_RELATIONS, MAX_READERS, MAX_VALUE_BYTES,
    MAX_WRITERS, OWN_COLUMNS, OwnColumn, ReadPool, Rows, ScriptSqlError, StoreError, timed,
    write_json_member, write_member,
};

/// Page size of the file, in bytes: SQLite's default.
const PAGE_BYTES: u64 = 4096;
/// Longest LIKE pattern. The time of a match grows with the pattern's length, and a match can't be interrupted.
const MAX_PATTERN_BYTES: i32 = 250;

/// Limits that SQLite enforces on these connections.
const BOUNDS: [SqliteLimit; 2] = [
    SqliteLimit { what: libsqlite3_sys::SQLITE_LIMIT_LENGTH, most: MAX_VALUE_BYTES },
    SqliteLimit { what: libsqlite3_sys::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, most: MAX_PATTERN_BYTES },
];

/// Limits what a statement may access, and its memory and temporary files.
const HOOKS: SqliteHooks = SqliteHooks { opened: restrict, begun: statement_limits::begin };

fn restrict(handle: &mut LockedSqliteHandle<'_>) -> Result<(), sqlx::Error> {
    if !statement_limits::add_length_check(handle.as_raw_handle().as_ptr()) {
        return Err(sqlx::Error::Configuration(
            "the SQL function belvedere_short can't be registered".into(),
        ));
    }
    authorizer::install(handle.as_raw_handle().as_ptr(), Rights::Read);
    Ok(())
}

impl Connections<SqliteConnection> {
    /// Creates the connections for the database of `options`. The own tables are in a file beside it.
    pub(in crate::store) fn beside(options: &SqliteConnectOptions) -> Result<Self, StoreError> {
        let index = options.get_filename();
        let own = own_file(index);
        let mut views = vec![format!("ATTACH DATABASE '{}' AS {INDEX}", read_only_uri(index)?)];
        views.extend(super::views::sqlite());
        let writer = options
            .clone()
            .filename(own)
            .create_if_missing(true)
            .pragma("page_size", PAGE_BYTES.to_string())
            .pragma("max_page_count", (MAX_OWN_BYTES / PAGE_BYTES).to_string())
            // Temporary tables and sorts go to files, whose size is limited (`statement_limits`).
            .pragma("temp_store", "file")
            .vfs(statement_limits::VFS)
            // Defaults and checks of own tables come from scripts and must not call unsafe functions.
            .pragma("trusted_schema", "off");
        let mut reader_views = views.clone();
        reader_views.push("PRAGMA query_only = on".to_owned());
        let reader = |name: &'static str, connections| {
            ReadPool::new(writer.clone().thread_name(move |n| format!("{name}-{n}")), connections)
                .setup_statements(reader_views.clone())
                .sqlite_limits(&BOUNDS)
                .sqlite_hooks(HOOKS)
        };
        Ok(Self {
            readers: reader("script-sql-read", MAX_READERS),
            cheap: reader("script-sql-cheap", MAX_CHEAP),
            writers: ReadPool::new(writer.thread_name(|_| "script-sql-write".into()), MAX_WRITERS)
                .setup_statements(views)
                .sqlite_limits(&BOUNDS)
                .sqlite_hooks(HOOKS),
        })
    }
}

/// The file of the scripts' own tables of a database.
pub(in crate::store) fn own_file(index: &Path) -> PathBuf {
    index.with_extension("scripts.db")
}

/// The URI that attaches a file read-only, escaped for an SQL literal.
fn read_only_uri(path: &Path) -> Result<String, StoreError> {
    let path = std::path::absolute(path).map_err(|e| StoreError::Open(format!("{}: {e}", path.display())))?;
    let path = path.to_str().ok_or_else(|| StoreError::Open("the database's path is not UTF-8".into()))?;
    let escaped: String = path
        .chars()
        .map(|c| match c {
            '%' => "%25".to_owned(),
            '?' => "%3f".to_owned(),
            '#' => "%23".to_owned(),
            '\'' => "%27".to_owned(),
            other => other.to_string(),
        })
        .collect();
    Ok(format!("file:{escaped}?mode=ro"))
}

pub(super) async fn run(
    connections: &Connections<SqliteConnection>,
    parsed: Parsed,
    params: &[Value],
    time_limit: Option<Duration>,
) -> Result<(Answer, Duration), ScriptSqlError> {
    let mut pooled = connections.get(&parsed, time_limit).await?;
    // The connections for SELECT always have the rights to read.
    if !parsed.is_select() {
        let rights = if parsed.is_write() { Rights::Write } else { Rights::Define };
        authorizer::allow(&mut pooled, rights).await?;
    }
    let columns = own_columns(&mut pooled, parsed.own_tables()).await?;
    let statement = match super::resolve(parsed, params, columns) {
        Ok(statement) => statement,
        Err(refused) => {
            pooled.keep();
            return Err(refused);
        }
    };
    if statement.kind == (Kind::Define { creates: true }) {
        let sql = "SELECT count(*) FROM main.sqlite_schema";
        let count: i64 = sqlx::query_scalar(sql).fetch_one(&mut *pooled).await?;
        if count >= MAX_OWN_RELATIONS {
            pooled.keep();
            return Err(ScriptSqlError::TooManyRelations);
        }
    }
    let result = timed(time_limit, fetch(&mut pooled, &statement, params)).await;
    match result {
        // After a statement was stopped, its connection is closed.
        Err(
            ScriptSqlError::Store(_)
            | ScriptSqlError::TooSlow
            | ScriptSqlError::Overrun
            | ScriptSqlError::TooManyRows
            | ScriptSqlError::TooLarge,
        ) => {}
        _ => pooled.keep(),
    }
    result
}

async fn own_columns(
    connection: &mut SqliteConnection,
    tables: &[String],
) -> Result<Vec<OwnColumn>, ScriptSqlError> {
    let sql = format!(
        "SELECT table_name, column_name, is_json FROM temp.{OWN_COLUMNS} \
         WHERE table_name IN (SELECT value FROM json_each($1))"
    );
    if tables.is_empty() {
        return Ok(Vec::new());
    }
    let tables = Value::from(tables).to_string();
    Ok(sqlx::query_as(AssertSqlSafe(sql)).bind(tables).fetch_all(connection).await?)
}

async fn fetch(
    connection: &mut SqliteConnection,
    statement: &Statement,
    params: &[Value],
) -> Result<Answer, ScriptSqlError> {
    let mut query = sqlx::query(AssertSqlSafe(statement.sql.as_str())).persistent(false);
    for index in &statement.binds {
        query = match &params[*index] {
            Value::String(text) => query.bind(text),
            Value::Bool(b) => query.bind(*b),
            Value::Number(n) => match n.as_i64() {
                Some(n) => query.bind(n),
                None => query.bind(n.as_f64()),
            },
            Value::Null | Value::Array(_) | Value::Object(_) => query.bind(None::<String>),
        };
    }
    if matches!(statement.kind, Kind::Write { rows: false } | Kind::Define { .. }) {
        let done = query.execute(connection).await.map_err(|error| disk_full_error(error, statement.kind))?;
        let changed = matches!(statement.kind, Kind::Write { .. }).then(|| done.rows_affected());
        return Ok(Rows::default().finish(changed));
    }
    if statement.kind == Kind::Explain {
        return plan::of_sqlite(&query.fetch_all(connection).await?);
    }
    let mut rows = Rows::default();
    let mut found = query.fetch(connection);
    while let Some(row) = found.try_next().await.map_err(|error| disk_full_error(error, statement.kind))? {
        if rows.count == 0 {
            rows.columns = row.columns().iter().map(|column| column.name().to_owned()).collect();
        }
        rows.add(|out| write_row(&row, &statement.json, out))?;
    }
    let changed = matches!(statement.kind, Kind::Write { .. }).then_some(rows.count as u64);
    Ok(rows.finish(changed))
}

/// Converts SQLITE_FULL: for a read the temporary files are full, for a write the own tables.
fn disk_full_error(error: sqlx::Error, kind: Kind) -> ScriptSqlError {
    const FULL: &str = "13";
    match &error {
        sqlx::Error::Database(database) if database.code().as_deref() == Some(FULL) => {
            if kind == Kind::Select { ScriptSqlError::TooLarge } else { ScriptSqlError::Full }
        }
        _ => error.into(),
    }
}

/// Appends a row as a JSON object. `json` says which columns hold JSON.
fn write_row(row: &SqliteRow, json: &[bool], out: &mut Vec<u8>) -> Result<(), ScriptSqlError> {
    out.push(b'{');
    for column in row.columns() {
        let (index, name) = (column.ordinal(), column.name());
        let raw = row.try_get_raw(index)?;
        if raw.is_null() {
            continue;
        }
        match raw.type_info().name() {
            "INTEGER" => write_member(out, name, &row.try_get_unchecked::<i64, _>(index)?)?,
            "REAL" => match serde_json::Number::from_f64(row.try_get_unchecked(index)?) {
                Some(number) => write_member(out, name, &number)?,
                None => {
                    return Err(ScriptSqlError::Database(format!("column {name} is not a finite number")));
                }
            },
            "BLOB" => {
                return Err(ScriptSqlError::Database(format!("column {name} is binary: use hex({name})")));
            }
            _ => {
                let text = row.try_get_unchecked::<&str, _>(index)?;
                match json.get(index) {
                    Some(true) => write_json_member(out, name, text)?,
                    _ => write_member(out, name, text)?,
                }
            }
        }
    }
    out.push(b'}');
    Ok(())
}

#[cfg(test)]
mod tests {
    use sqlx::Executor;

    use super::*;
    use crate::store::script_sql::guard;

    /// The connections protect the index even without the guard and the authorizer.
    #[tokio::test]
    async fn the_index_can_not_be_written_even_by_ourselves() {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}/it's 100%.db", directory.path().display());
        let db = crate::store::Db::open(&url, 1).await.unwrap();
        db.migrate().await.unwrap();
        let crate::store::Db::Sqlite(db) = db else { unreachable!("the test opened SQLite") };

        let mut writer = db.script_sql.writers.get().await.unwrap();
        authorizer::remove(&mut writer).await.unwrap();
        for sql in [
            "DELETE FROM belvedere.records",
            "CREATE TABLE belvedere.x (a)",
            "UPDATE belvedere.users SET did = ''",
        ] {
            let refused = writer.execute(sql).await.unwrap_err().to_string();
            assert!(refused.contains("readonly"), "{sql}: {refused}");
        }
        writer.execute("CREATE TABLE main.script_x (a)").await.unwrap();
        let pages: i64 = sqlx::query_scalar("PRAGMA max_page_count").fetch_one(&mut *writer).await.unwrap();
        assert_eq!(pages as u64 * PAGE_BYTES, MAX_OWN_BYTES);

        let mut reader = db.script_sql.readers.get().await.unwrap();
        authorizer::remove(&mut reader).await.unwrap();
        let refused = reader.execute("INSERT INTO main.script_x VALUES (1)").await.unwrap_err().to_string();
        assert!(refused.contains("readonly"), "{refused}");
        for sql in
            ["SELECT length(zeroblob(300000))", "SELECT 'x' LIKE replace(hex(zeroblob(300)), '0', '%')"]
        {
            let refused = reader.execute(sql).await.unwrap_err().to_string();
            assert!(refused.contains("too big") || refused.contains("too complex"), "{sql}: {refused}");
        }
    }

    /// Simple statements read the index in its order, without a scan or a sort.
    #[tokio::test]
    async fn ordinary_statements_find_an_index() {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}/test.db", directory.path().display());
        let db = crate::store::Db::open(&url, 1).await.unwrap();
        db.migrate().await.unwrap();
        let crate::store::Db::Sqlite(db) = db else { unreachable!("the test opened SQLite") };
        let mut reader = db.script_sql.readers.get().await.unwrap();
        for (sql, index) in [
            (
                "SELECT uri, record FROM records WHERE collection = 'a.b.c' ORDER BY indexed_at DESC LIMIT 20",
                "records_list",
            ),
            ("SELECT record FROM records WHERE uri = 'at://did:plc:a/a.b.c/1'", "records_key"),
            (
                "SELECT record FROM records WHERE collection = 'a.b.c' AND did = 'did:plc:a' ORDER BY indexed_at",
                "records_list_did",
            ),
            ("SELECT source_uri FROM record_refs WHERE target_uri = 'at://did:plc:a/a.b.c/1'", "PRIMARY KEY"),
        ] {
            let catalog = guard::Catalog::default();
            let sql = guard::check(sql, &[], crate::store::Backend::Sqlite, &catalog).unwrap().sql;
            let explain = format!("EXPLAIN QUERY PLAN {sql}");
            let plan: Vec<(i64, i64, i64, String)> =
                sqlx::query_as(AssertSqlSafe(explain)).fetch_all(&mut *reader).await.unwrap();
            let plan: Vec<String> = plan.into_iter().map(|(.., step)| step).collect();
            assert!(plan.iter().any(|step| step.contains(index)), "{sql}: {plan:?}");
            assert!(
                !plan.iter().any(|step| step.contains("SCAN") || step.contains("TEMP B-TREE")),
                "{sql}: {plan:?}"
            );
        }
    }

    #[test]
    fn paths_are_quoted() {
        let quoted = |path: &str| read_only_uri(Path::new(path)).unwrap();
        assert_eq!(quoted("/a b/it's?#100%.db"), "file:/a b/it%27s%3f%23100%25.db?mode=ro");
    }
}
