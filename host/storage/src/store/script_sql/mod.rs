//! Runs SQL that scripts write (`db.raw`): [`guard`] checks and rewrites it, and restricted connections run it.
//!
//! A SELECT runs on a read-only connection. It sees views of the index and the scripts' own tables. The own tables are
//! separate from the server's: on SQLite in a second file beside the database, on PostgreSQL in a separate schema. Only
//! they can be written. Every statement has a deadline and limits on memory and temporary files; results have limits
//! on rows and bytes. On PostgreSQL the connections log in as a separate role ([`role`]).

mod admission;
mod authorizer;
mod costs;
pub mod guard;
mod page;
mod plan;
pub(super) mod postgres;
pub mod role;
pub(super) mod sqlite;
pub(super) mod statement_limits;
mod tables;
mod views;

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::timeout;

use super::lost::NodeLost;
use super::partitions::names_shard;
use super::read_pool::{Poolable, PooledConnection, READ_TIME_LIMIT, ReadPool};
use super::{Db, StoreError};
pub use admission::{explain, mistake, run, select};
pub(super) use costs::Costs;
use guard::GuardError;
pub use page::{RowPage, read as read_page};
use role::RoleError;
pub use tables::{ReadableTable, tables};

/// PostgreSQL: the schema of the views.
pub(super) const VIEW_SCHEMA: &str = "script_views";
/// PostgreSQL: the schema of the scripts' own tables.
pub(super) const OWN_SCHEMA: &str = "script_tables";

/// SQLite: the name under which the index is attached.
const INDEX: &str = "belvedere";
/// SQLite: the view of the columns of the own tables (`views`).
const OWN_COLUMNS: &str = "own_columns";

/// SQLite: the function that rejects values above a size (`guard::bounds`). It exists only on these connections. On
/// PostgreSQL it is `short` in [`VIEW_SCHEMA`].
const SQLITE_LENGTH_CHECK: &str = "belvedere_short";

/// SQLite: longest value of a column or an expression. SQLite's own limit is a gigabyte; it processes a value in time
/// proportional to its length without checking the deadline. Larger records are NULL (`views`).
const MAX_VALUE_BYTES: i32 = 256 << 10;

/// The view of `records` for statements that name their columns: see `guard::index_rewrites`.
const LEAN_RECORDS: &str = "records_lean";
/// The same of `record_refs`, on PostgreSQL.
const LEAN_RECORD_REFS: &str = "record_refs_lean";

/// Time limit of a statement.
pub const STATEMENT_TIME_LIMIT: Duration = READ_TIME_LIMIT;
/// Maximum number of rows of a result: ten pages. Larger results can be read in parts with LIMIT and OFFSET.
pub const MAX_ROWS: usize = 1_000;
/// Maximum size of a result as JSON, in bytes. JSON and Lua tables together fit into a run's memory.
pub const MAX_ANSWER_BYTES: usize = 4 << 20;
/// Maximum size of all own tables and their indexes together, in bytes, so that scripts can't fill the disk.
pub const MAX_OWN_BYTES: u64 = 1 << 30;
/// Maximum number of own tables and indexes together. A script has a few; this stops one table per user.
pub const MAX_OWN_RELATIONS: i64 = 100;
/// Connections for statements that read and for those that write. Few, because they share the machine with all other
/// reads.
const MAX_READERS: u32 = 4;
const MAX_WRITERS: u32 = 1;
/// Connections for statements that are expected to be cheap. Those hold a permit of reads, so they wait for no scan.
const MAX_CHEAP: u32 = 4;

/// The result of a statement.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// A JSON array of objects: columns by name, without NULLs. The value of a JSON column is part of the row's JSON.
    pub rows: Vec<u8>,
    pub count: usize,
    /// Names of the columns in order, also of those that are NULL in all rows. SQLite names none of a result without rows.
    pub columns: Vec<String>,
    /// Number of rows that an INSERT, UPDATE or DELETE affected.
    pub changed: Option<u64>,
}

/// The reason why a statement failed. The script sees all texts but that of [`ScriptSqlError::Store`].
#[derive(Debug, thiserror::Error)]
pub enum ScriptSqlError {
    #[error(transparent)]
    Refused(#[from] GuardError),
    /// The database rejected the statement or a value: its own message.
    #[error("{0}")]
    Database(String),
    #[error("the statement took longer than {} s", STATEMENT_TIME_LIMIT.as_secs())]
    TooSlow,
    /// A statement that was expected to be cheap was not ([`costs`]). It is run again as a scan.
    #[error("the statement took longer than expected")]
    Overrun,
    #[error("more than {MAX_ROWS} rows: add a LIMIT")]
    TooManyRows,
    #[error("the result or an intermediate value is too large: {} MiB at most", MAX_ANSWER_BYTES >> 20)]
    TooLarge,
    /// PostgreSQL: `temp_file_limit`.
    #[error(
        "the statement exceeds the limit of temporary files for sorts and joins: filter earlier or select fewer columns"
    )]
    TemporaryFiles,
    #[error("the scripts' own tables are full: {} MiB at most", MAX_OWN_BYTES >> 20)]
    Full,
    #[error("there are too many own tables and indexes: {MAX_OWN_RELATIONS} at most")]
    TooManyRelations,
    /// PostgreSQL: there is no usable role. The script's author has to pass the text on to the operator.
    #[error(
        "db.raw needs a separate database role, but {0}. For a fix the operator can run `belvedere doctor` and read \
         docs/operations.md, Database rights"
    )]
    RoleError(RoleError),
    /// A host of the server defines the tables that the views read in shards (`nodes::script_tables`), if it may.
    #[error(
        "db.raw can't read the index of this database in shards yet. If that stays, the operator can run `belvedere doctor` \
         and read docs/scaling.md, In shards"
    )]
    InShards,
    #[error(transparent)]
    Store(StoreError),
}

impl From<sqlx::Error> for ScriptSqlError {
    fn from(error: sqlx::Error) -> Self {
        // Messages about the statement may be shown: the statement can only read what the script may read.
        if let sqlx::Error::Database(database) = &error {
            let code = database.code().unwrap_or_default();
            if super::error::is_timeout(&code) {
                return Self::TooSlow;
            }
            if code == "53400" {
                return Self::TemporaryFiles;
            }
            if is_out_of_memory(&code, database.message()) {
                return Self::TooLarge;
            }
            if is_statements_fault(&code) {
                return Self::Database(database.message().to_owned());
            }
        }
        Self::Store(error.into())
    }
}

impl From<StoreError> for ScriptSqlError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Whether the statement ran out of memory. PostgreSQL has no specific code for a value larger than a gigabyte.
fn is_out_of_memory(code: &str, message: &str) -> bool {
    // 53200: PostgreSQL's out_of_memory. 7: SQLITE_NOMEM, also when a statement exceeds its limit (`statement_limits`).
    code == "53200"
        || code == "7"
        || (code == "XX000" && message.starts_with("invalid memory alloc request size"))
}

/// Whether the statement is wrong, rather than the database: PostgreSQL's error classes for data, constraints, syntax
/// and names, limits and features; SQLite's ERROR, TOOBIG, CONSTRAINT, MISMATCH, AUTH and RANGE.
fn is_statements_fault(code: &str) -> bool {
    if code.len() == 5 {
        return ["0A", "21", "22", "23", "25", "2B", "42", "54"].iter().any(|class| code.starts_with(class));
    }
    code.parse::<u32>().is_ok_and(|code| matches!(code & 0xff, 1 | 18 | 19 | 20 | 23 | 25))
}

/// The protection of the rest of the database from scripts' SQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptIsolation {
    /// The guard, and connections that can't write the index.
    Sqlite,
    /// The guard alone (`SCRIPT_SQL=guarded`).
    Guard,
    /// The guard, and a separate role.
    GuardAndRole {
        name: String,
        /// Whether the temporary files of its statements are limited.
        limits_temp_files: bool,
    },
}

/// Reports which protection is active; on PostgreSQL it connects as the role.
///
/// # Errors
/// [`ScriptSqlError::RoleError`] when `db.raw` can't be used.
pub async fn isolation(db: &Db) -> Result<ScriptIsolation, ScriptSqlError> {
    match db {
        Db::Sqlite(_) => Ok(ScriptIsolation::Sqlite),
        Db::Postgres(db) => db.script_isolation().await,
    }
}

/// Connections for scripts' SQL. They are opened on first use.
#[derive(Debug)]
pub(super) struct Connections<C: sqlx::Connection> {
    readers: ReadPool<C>,
    cheap: ReadPool<C>,
    writers: ReadPool<C>,
}

impl<C: Poolable> Connections<C> {
    /// A connection for a statement, which is expected to be cheap if its time is limited.
    async fn get(
        &self,
        parsed: &guard::Parsed,
        time_limit: Option<Duration>,
    ) -> Result<PooledConnection<'_, C>, sqlx::Error> {
        match (parsed.is_select(), time_limit) {
            (true, None) => self.readers.get().await,
            (true, Some(_)) => self.cheap.get().await,
            (false, _) => self.writers.get_pinged().await,
        }
    }

    pub(super) async fn close(&self) {
        for pool in [&self.readers, &self.cheap, &self.writers] {
            pool.close().await;
        }
    }
}

/// Runs one statement, and returns how long it took once it had a connection. With a `time_limit` it is stopped then
/// ([`ScriptSqlError::Overrun`]), and its connection closed.
async fn execute(
    db: &Db,
    sql: &str,
    parsed: guard::Parsed,
    params: &[Value],
    time_limit: Option<Duration>,
) -> Result<(Answer, Duration), ScriptSqlError> {
    match db {
        Db::Sqlite(db) => sqlite::run(&db.script_sql, parsed, params, time_limit).await,
        Db::Postgres(db) => {
            let ran = postgres::run(&db.script_sql, sql, parsed, params, &db.script_role, time_limit).await;
            match ran {
                Err(ScriptSqlError::Database(message)) if db.ids.in_shards() => Err(error_in_shards(message)),
                ran => ran,
            }
        }
    }
}

/// The error that a database's message means in shards: the tables that the views of scripts read are not defined yet, or one of them
/// is of a shard that was moved or split a moment ago.
fn error_in_shards(message: String) -> ScriptSqlError {
    if message.starts_with("permission denied for table ") {
        ScriptSqlError::InShards
    } else if message.contains("relation \"moved_") || names_shard(&message) {
        StoreError::from(sqlx::Error::Configuration(Box::new(NodeLost))).into()
    } else {
        ScriptSqlError::Database(message)
    }
}

/// Waits for the result of a statement on its connection, within a time limit, and measures it.
async fn timed<T>(
    time_limit: Option<Duration>,
    statement: impl Future<Output = Result<T, ScriptSqlError>>,
) -> Result<(T, Duration), ScriptSqlError> {
    let started = Instant::now();
    let done = match time_limit {
        Some(limit) => timeout(limit, statement).await.unwrap_or(Err(ScriptSqlError::Overrun)),
        None => statement.await,
    };
    Ok((done?, started.elapsed()))
}

/// A column of an own table: the names of both, and whether its declared type is JSON.
type OwnColumn = (String, String, bool);

/// Checks and rewrites a statement. `columns` are those of the own tables that it names.
fn resolve(
    parsed: guard::Parsed,
    params: &[Value],
    columns: Vec<OwnColumn>,
) -> Result<guard::Statement, ScriptSqlError> {
    let mut catalog = guard::Catalog::default();
    for (table, column, is_json) in &columns {
        catalog.add(table, column, *is_json);
    }
    parsed.write(params, &catalog).map_err(|refusal| match refusal {
        // A missing table is reported like an error of the database.
        GuardError::Missing(_) => ScriptSqlError::Database(refusal.to_string()),
        other => other.into(),
    })
}

/// Appends a member to the JSON object at the end of `out`, which is open.
fn write_member(
    out: &mut Vec<u8>,
    name: &str,
    value: &(impl Serialize + ?Sized),
) -> Result<(), ScriptSqlError> {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
    // Neither writing to a Vec nor serializing texts and finite numbers can fail.
    let failed = |error: serde_json::Error| ScriptSqlError::Database(error.to_string());
    serde_json::to_writer(&mut *out, name).map_err(failed)?;
    out.push(b':');
    serde_json::to_writer(&mut *out, value).map_err(failed)
}

/// The same for the text of a JSON column. A text that is not JSON stays a text: on SQLite such a column can hold any.
fn write_json_member(out: &mut Vec<u8>, name: &str, text: &str) -> Result<(), ScriptSqlError> {
    match serde_json::from_str::<&RawValue>(text) {
        Ok(json) => write_member(out, name, json),
        Err(_) => write_member(out, name, text),
    }
}

/// The rows of a result, collected as a JSON array.
#[derive(Default)]
struct Rows {
    out: Vec<u8>,
    count: usize,
    columns: Vec<String>,
}

impl Rows {
    /// Adds one JSON object, which `write` appends.
    fn add(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), ScriptSqlError>,
    ) -> Result<(), ScriptSqlError> {
        self.count += 1;
        if self.count > MAX_ROWS {
            return Err(ScriptSqlError::TooManyRows);
        }
        self.out.push(if self.count == 1 { b'[' } else { b',' });
        write(&mut self.out)?;
        if self.out.len() > MAX_ANSWER_BYTES { Err(ScriptSqlError::TooLarge) } else { Ok(()) }
    }

    fn finish(mut self, changed: Option<u64>) -> Answer {
        if self.count == 0 {
            self.out.push(b'[');
        }
        self.out.push(b']');
        Answer { rows: self.out, count: self.count, columns: self.columns, changed }
    }
}
