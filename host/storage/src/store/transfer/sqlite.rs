//! SQLite as the source or the target of a move.

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::TryStreamExt as _;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteRow, SqliteSynchronous};
use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Connection as _, Row as _, SqliteConnection, TypeInfo as _,
    ValueRef as _,
};

use super::catalog::{Catalog, DERIVED, Space, State, Table};
use super::value::{Row, Value, without_nul};
use super::{BATCH_BYTES, BATCH_ROWS, MoveError};
use crate::store::counts::sqlite::ANNOUNCE;
use crate::store::incomplete::{CLEAR, IS_SET_SQLITE, MARKER, SET};
use crate::store::script_sql::role::quoted;
use crate::store::script_sql::sqlite::own_file;
use crate::store::script_sql::statement_limits;
use crate::store::{MIGRATIONS_TABLE, StoreError};
use belvedere_base::files;

/// Values of one statement: below SQLite's limit of 32,766.
const MAX_VALUES: usize = 30_000;

/// The schema under which the file of the scripts' own tables is attached.
const SCRIPTS: &str = "scripts";

pub(super) struct Sqlite {
    pub connection: SqliteConnection,
    has_scripts: bool,
}

/// The files of a database.
fn files_of(path: &Path) -> impl Iterator<Item = PathBuf> {
    [path.to_owned(), own_file(path)]
        .into_iter()
        .flat_map(|file| ["", "-wal", "-shm"].map(|end| PathBuf::from(format!("{}{end}", file.display()))))
}

/// Whether a file is free to be filled.
pub(super) async fn state(path: &Path) -> Result<State, StoreError> {
    if !path.try_exists().map_err(|error| StoreError::Open(error.to_string()))? {
        let own = own_file(path);
        return Ok(if own.exists() { State::Used } else { State::Empty });
    }
    let mut connection = connect(path, false).await?;
    let is_marked: bool = sqlx::query_scalar(IS_SET_SQLITE).fetch_one(&mut connection).await?;
    let count: i64 =
        sqlx::query_scalar("SELECT count(*) FROM sqlite_schema").fetch_one(&mut connection).await?;
    connection.close().await?;
    Ok(match (is_marked, count) {
        (true, _) => State::Incomplete,
        (false, 0) => State::Empty,
        (false, _) => State::Used,
    })
}

/// Removes what an interrupted move left. Only for a database with the marker.
pub(super) fn clear(path: &Path) -> Result<(), StoreError> {
    for file in files_of(path) {
        match std::fs::remove_file(&file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(StoreError::Open(format!("{}: {error}", file.display())));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Creates the file with the mark.
pub(super) async fn mark(path: &Path) -> Result<(), StoreError> {
    files::create_private_file(path)
        .map_err(|error| StoreError::Open(format!("{}: {error}", path.display())))?;
    let mut connection = connect(path, true).await?;
    sqlx::raw_sql(SET).execute(&mut connection).await?;
    connection.close().await?;
    Ok(())
}

/// Removes the mark, once everything is durable: it was written without waiting for the disk.
pub(super) async fn release(path: &Path) -> Result<(), StoreError> {
    let sync = || {
        for file in files_of(path).filter(|file| file.exists()) {
            std::fs::File::open(file)?.sync_all()?;
        }
        Ok(())
    };
    let failed = |error: std::io::Error| StoreError::Open(format!("{}: {error}", path.display()));
    sync().map_err(failed)?;
    let mut connection = connect(path, true).await?;
    sqlx::raw_sql("ANALYZE").execute(&mut connection).await?;
    sqlx::raw_sql(CLEAR).execute(&mut connection).await?;
    connection.close().await?;
    sync().map_err(failed)
}

/// A connection to the file, which is created if `create` is set.
pub(super) async fn connect(path: &Path, create: bool) -> Result<SqliteConnection, StoreError> {
    // Before any connection of this process.
    statement_limits::install();
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(create)
        .busy_timeout(Duration::from_secs(10))
        .foreign_keys(false)
        .disable_statement_logging();
    // An interrupted move begins again, so no batch has to survive a power failure.
    let options = if create {
        options.journal_mode(SqliteJournalMode::Wal).synchronous(SqliteSynchronous::Off)
    } else {
        options
    };
    Ok(options.connect().await?)
}

impl Sqlite {
    pub(super) async fn open(path: &Path, create: bool) -> Result<Self, StoreError> {
        let mut connection = connect(path, create).await?;
        let own = own_file(path);
        let has_scripts = create || own.exists();
        if has_scripts {
            let own = own.to_str().ok_or_else(|| StoreError::Open("the path is not UTF-8".into()))?;
            sqlx::query("ATTACH DATABASE $1 AS scripts").bind(own).execute(&mut connection).await?;
            if create {
                sqlx::raw_sql("PRAGMA scripts.synchronous = off").execute(&mut connection).await?;
            }
        }
        Ok(Self { connection, has_scripts })
    }

    pub(super) async fn execute(&mut self, sql: String) -> Result<(), StoreError> {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut self.connection).await?;
        Ok(())
    }

    /// Names of the ordinary tables: no views, and none of those that are indexes of record fields.
    pub(super) async fn tables(&mut self, space: Space) -> Result<Vec<String>, StoreError> {
        if space == Space::Scripts && !self.has_scripts {
            return Ok(Vec::new());
        }
        let sql = "SELECT name FROM pragma_table_list WHERE schema = $1 AND type = 'table' \
                   AND name NOT LIKE 'sqlite~_%' ESCAPE '~' AND name NOT IN ($2, $3) \
                   AND NOT (schema = 'main' AND (name GLOB 'field_index_[0-9]*' OR name GLOB 'field_texts_[0-9]*')) \
                   ORDER BY name";
        Ok(sqlx::query_scalar(sql)
            .bind(schema(space))
            .bind(MIGRATIONS_TABLE)
            .bind(MARKER)
            .fetch_all(&mut self.connection)
            .await?)
    }

    pub(super) async fn catalog(&mut self) -> Result<Catalog, StoreError> {
        let mut catalog = Catalog::new();
        for table in self.tables(Space::Server).await? {
            let sql = "SELECT name, type FROM pragma_table_xinfo($1, 'main') WHERE hidden = 0 ORDER BY cid";
            let columns = sqlx::query_as(sql).bind(&table).fetch_all(&mut self.connection).await?;
            catalog.insert(table, columns);
        }
        Ok(catalog)
    }

    /// Empties the tables, and drops the indexes, which are cheaper to build once. Returns their definitions.
    pub(super) async fn prepare(&mut self, tables: &[Table]) -> Result<Vec<String>, StoreError> {
        for table in tables {
            self.execute(format!("DELETE FROM {}", target(table))).await?;
        }
        for derived in DERIVED {
            self.execute(format!("DELETE FROM {derived}")).await?;
        }
        self.execute(ANNOUNCE.to_owned()).await?;
        let sql = "SELECT name, sql FROM main.sqlite_schema WHERE type = 'index' AND sql IS NOT NULL";
        let indexes: Vec<(String, String)> = sqlx::query_as(sql).fetch_all(&mut self.connection).await?;
        for (name, _) in &indexes {
            self.execute(format!("DROP INDEX main.{}", quoted(name))).await?;
        }
        Ok(indexes.into_iter().map(|(_, sql)| sql).collect())
    }

    pub(super) async fn count(&mut self, table: &Table) -> Result<u64, StoreError> {
        let sql = format!("SELECT count(*) FROM {}", target(table));
        let count: i64 = sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut self.connection).await?;
        Ok(u64::try_from(count).unwrap_or_default())
    }

    /// Reads a table in batches. Returns how many values had U+0000, which is replaced.
    pub(super) async fn read(
        &mut self,
        table: &Table,
        each: &mut impl AsyncFnMut(Vec<Row>) -> Result<(), MoveError>,
    ) -> Result<u64, MoveError> {
        let sql = format!("SELECT {} FROM {}", names(table), target(table));
        let (mut batch, mut bytes, mut replaced) = (Vec::new(), 0, 0);
        let mut rows = sqlx::query(AssertSqlSafe(sql)).persistent(false).fetch(&mut self.connection);
        while let Some(row) = rows.try_next().await? {
            let row = values(table, &row, &mut replaced)?;
            bytes += row.iter().map(Value::size).sum::<usize>();
            batch.push(row);
            if batch.len() >= BATCH_ROWS || bytes >= BATCH_BYTES {
                each(std::mem::take(&mut batch)).await?;
                bytes = 0;
            }
        }
        if !batch.is_empty() {
            each(batch).await?;
        }
        Ok(replaced)
    }

    pub(super) async fn write(&mut self, table: &Table, rows: &[Row]) -> Result<(), StoreError> {
        let width = table.columns.len().max(1);
        let mut tx = self.connection.begin().await?;
        for rows in rows.chunks(MAX_VALUES / width) {
            let one = format!("({})", vec!["?"; width].join(", "));
            let sql = format!(
                "INSERT INTO {} ({}) VALUES {}",
                target(table),
                names(table),
                vec![one.as_str(); rows.len()].join(", ")
            );
            let mut query = sqlx::query(AssertSqlSafe(sql)).persistent(false);
            for value in rows.iter().flatten() {
                query = match value {
                    Value::Null => query.bind(None::<i64>),
                    Value::Int(n) => query.bind(n),
                    Value::Float(x) => query.bind(x),
                    Value::Text(text) => query.bind(text),
                    Value::Bytes(bytes) => query.bind(bytes),
                };
            }
            query.execute(&mut *tx).await?;
        }
        tx.commit().await?;
        Ok(())
    }

    /// The first table with a row whose foreign key refers to nothing.
    pub(super) async fn broken_reference(&mut self) -> Result<Option<String>, StoreError> {
        let sql = "SELECT \"table\" FROM pragma_foreign_key_check LIMIT 1";
        Ok(sqlx::query_scalar(sql).fetch_optional(&mut self.connection).await?)
    }
}

pub(super) fn schema(space: Space) -> &'static str {
    match space {
        Space::Server => "main",
        Space::Scripts => SCRIPTS,
    }
}

fn target(table: &Table) -> String {
    format!("{}.{}", schema(table.space), quoted(&table.name))
}

fn names(table: &Table) -> String {
    table.columns.iter().map(|column| quoted(&column.name)).collect::<Vec<_>>().join(", ")
}

fn values(table: &Table, row: &SqliteRow, replaced: &mut u64) -> Result<Row, MoveError> {
    let mut values = Vec::with_capacity(table.columns.len());
    for (index, column) in table.columns.iter().enumerate() {
        let raw = row.try_get_raw(index)?;
        let stored = if raw.is_null() {
            Value::Null
        } else {
            match raw.type_info().name() {
                "INTEGER" => Value::Int(row.try_get_unchecked(index)?),
                "REAL" => Value::Float(row.try_get_unchecked(index)?),
                "BLOB" => Value::Bytes(row.try_get_unchecked(index)?),
                // SQLite does not check the encoding.
                _ => {
                    let bytes: &[u8] = row.try_get_unchecked(index)?;
                    Value::Text(String::from_utf8_lossy(bytes).into_owned())
                }
            }
        };
        let mut value = stored
            .into_kind(column.kind)
            .ok_or_else(|| MoveError::Value { table: table.name.clone(), column: column.name.clone() })?;
        *replaced += u64::from(without_nul(&mut value, column.kind));
        values.push(value);
    }
    Ok(values)
}
