//! Scripts' SQL on SQLite. The connection's main file is that of the scripts' own tables; the index is attached to it
//! for reading alone, and seen through temporary views.

use std::path::Path;

use futures_util::TryStreamExt;
use serde_json::Value;
use sqlx::sqlite::{SqliteConnectOptions, SqliteRow};
use sqlx::{AssertSqlSafe, Column, Row, SqliteConnection, TypeInfo, ValueRef};

use super::super::lane::Bound;
use super::MAX_VALUE_BYTES;
use super::guard::{Kind, Parsed, Statement};
use super::{
    Answer, Connections, Lane, MAX_OWN_BYTES, MAX_OWN_RELATIONS, READERS, RawError, Rows, StoreError, WRITERS,
};

/// Bytes of a page of the file, SQLite's own default.
const PAGE_BYTES: u64 = 4096;
/// The longest LIKE pattern: matching takes time in proportion to it, and nothing can stop it half-way.
const MAX_PATTERN_BYTES: i32 = 250;

/// What SQLite itself keeps to on these connections.
const BOUNDS: [Bound; 2] = [
    Bound { what: libsqlite3_sys::SQLITE_LIMIT_LENGTH, most: MAX_VALUE_BYTES },
    Bound { what: libsqlite3_sys::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, most: MAX_PATTERN_BYTES },
];

impl Connections<SqliteConnection> {
    /// For the database that `options` open.
    pub(in crate::store) fn beside(options: &SqliteConnectOptions) -> Result<Self, StoreError> {
        let index = options.get_filename();
        let own = index.with_extension("scripts.db");
        let mut views = vec![format!("ATTACH DATABASE '{}' AS belvedere", read_only(index)?)];
        views.extend(super::views::sqlite());
        let writer = options
            .clone()
            .filename(own)
            .create_if_missing(true)
            .pragma("page_size", PAGE_BYTES.to_string())
            .pragma("max_page_count", (MAX_OWN_BYTES / PAGE_BYTES).to_string())
            // On disk, where it is counted. The connections to the index keep theirs in memory.
            .pragma("temp_store", "file")
            .vfs(super::room::VFS)
            // The index has schemas of ours, but a default or a check in an own table is a script's.
            .pragma("trusted_schema", "off");
        let reader = writer.clone().thread_name(|n| format!("script-sql-read-{n}"));
        let mut only_reads = views.clone();
        only_reads.push("PRAGMA query_only = on".to_owned());
        Ok(Self {
            readers: Lane::new(reader, READERS).beginning_with(only_reads).bounded_by(&BOUNDS).with_room(),
            writers: Lane::new(writer.thread_name(|_| "script-sql-write".into()), WRITERS)
                .beginning_with(views)
                .bounded_by(&BOUNDS)
                .with_room(),
        })
    }
}

/// The address under which a file is attached without the right to write, as the inside of an SQL literal.
fn read_only(path: &Path) -> Result<String, StoreError> {
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
    parsed: &Parsed,
    params: &[Value],
) -> Result<Answer, RawError> {
    let mut held = connections.get(parsed).await?;
    let columns = columns(&mut held, parsed.own_tables()).await?;
    let statement = match super::resolve(parsed, params, columns) {
        Ok(statement) => statement,
        Err(refused) => {
            held.keep();
            return Err(refused);
        }
    };
    if statement.kind == (Kind::Define { makes: true }) {
        let sql = "SELECT count(*) FROM main.sqlite_schema";
        let count: i64 = sqlx::query_scalar(sql).fetch_one(&mut *held).await?;
        if count >= MAX_OWN_RELATIONS {
            held.keep();
            return Err(RawError::TooManyRelations);
        }
    }
    let result = fetch(&mut held, &statement, params).await;
    match result {
        // A statement that was stopped leaves its connection in doubt; one that is merely wrong does not.
        Err(RawError::Store(_) | RawError::TooSlow | RawError::TooManyRows | RawError::TooLarge) => {}
        _ => held.keep(),
    }
    result
}

/// The columns of own tables.
async fn columns(
    connection: &mut SqliteConnection,
    tables: &[String],
) -> Result<Vec<(String, String)>, RawError> {
    const COLUMNS: &str = "SELECT m.name, c.name FROM main.sqlite_schema m, pragma_table_info(m.name, 'main') c \
        WHERE m.type = 'table' AND m.name IN (SELECT value FROM json_each($1))";
    if tables.is_empty() {
        return Ok(Vec::new());
    }
    let tables = Value::from(tables).to_string();
    Ok(sqlx::query_as(COLUMNS).bind(tables).fetch_all(connection).await?)
}

async fn fetch(
    connection: &mut SqliteConnection,
    statement: &Statement,
    params: &[Value],
) -> Result<Answer, RawError> {
    let mut query = sqlx::query(AssertSqlSafe(statement.sql.as_str())).persistent(false);
    for place in &statement.binds {
        query = match &params[*place] {
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
        let done = query.execute(connection).await.map_err(|error| of_file(error, statement.kind))?;
        let changed = matches!(statement.kind, Kind::Write { .. }).then(|| done.rows_affected());
        return Ok(Rows::default().finish(changed));
    }
    let mut rows = Rows::default();
    let mut found = query.fetch(connection);
    while let Some(row) = found.try_next().await.map_err(|error| of_file(error, statement.kind))? {
        rows.add(|out| object(&row, out))?;
    }
    let changed = matches!(statement.kind, Kind::Write { .. }).then_some(rows.count as u64);
    Ok(rows.finish(changed))
}

/// A full file is the scripts' own doing. One that only reads has filled its temporary files.
fn of_file(error: sqlx::Error, kind: Kind) -> RawError {
    const FULL: &str = "13";
    match &error {
        sqlx::Error::Database(database) if database.code().as_deref() == Some(FULL) => {
            if kind == Kind::Select { RawError::TooLarge } else { RawError::Full }
        }
        _ => error.into(),
    }
}

/// One row as a JSON object.
fn object(row: &SqliteRow, out: &mut Vec<u8>) -> Result<(), RawError> {
    out.push(b'{');
    let mut first = true;
    for column in row.columns() {
        let (place, name) = (column.ordinal(), column.name());
        let raw = row.try_get_raw(place)?;
        if raw.is_null() {
            continue;
        }
        let value = match raw.type_info().name() {
            "INTEGER" => Value::from(row.try_get_unchecked::<i64, _>(place)?),
            "REAL" => match serde_json::Number::from_f64(row.try_get_unchecked(place)?) {
                Some(number) => Value::Number(number),
                None => return Err(RawError::Database(format!("column {name} is not a finite number"))),
            },
            "BLOB" => return Err(RawError::Database(format!("column {name} is binary: use hex({name})"))),
            _ => Value::from(row.try_get_unchecked::<String, _>(place)?),
        };
        if !std::mem::take(&mut first) {
            out.push(b',');
        }
        // Writing to memory never fails, and a value of these kinds always serializes.
        serde_json::to_writer(&mut *out, name).map_err(|e| RawError::Database(e.to_string()))?;
        out.push(b':');
        serde_json::to_writer(&mut *out, &value).map_err(|e| RawError::Database(e.to_string()))?;
    }
    out.push(b'}');
    Ok(())
}

#[cfg(test)]
mod tests {
    use sqlx::Executor;

    use super::*;
    use crate::store::script_sql::guard;

    /// A second wall behind the guard: what the connections could do if a statement got to them as it is.
    #[tokio::test]
    async fn the_index_can_not_be_written_even_by_ourselves() {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}/it's 100%.db", directory.path().display());
        let db = crate::store::Db::open(&url, 1).await.unwrap();
        db.migrate().await.unwrap();
        let crate::store::Db::Sqlite(db) = db else { unreachable!("it was made so") };

        let mut writer = db.script_sql.writers.get().await.unwrap();
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
        let refused = reader.execute("INSERT INTO main.script_x VALUES (1)").await.unwrap_err().to_string();
        assert!(refused.contains("readonly"), "{refused}");
        for sql in
            ["SELECT length(zeroblob(300000))", "SELECT 'x' LIKE replace(hex(zeroblob(300)), '0', '%')"]
        {
            let refused = reader.execute(sql).await.unwrap_err().to_string();
            assert!(refused.contains("too big") || refused.contains("too complex"), "{sql}: {refused}");
        }
    }

    /// The statements that people write first walk along an index.
    #[tokio::test]
    async fn ordinary_statements_find_an_index() {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}/test.db", directory.path().display());
        let db = crate::store::Db::open(&url, 1).await.unwrap();
        db.migrate().await.unwrap();
        let crate::store::Db::Sqlite(db) = db else { unreachable!("it was made so") };
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
        let quoted = |path: &str| read_only(Path::new(path)).unwrap();
        assert_eq!(quoted("/a b/it's?#100%.db"), "file:/a b/it%27s%3f%23100%25.db?mode=ro");
    }
}
