//! SQL that scripts write (`db.raw`): checked and rewritten by [`guard`], then run where it can do no harm.
//!
//! A SELECT runs on a connection that only reads, over views of the index and over the scripts' own tables. Those live
//! apart from everything of ours: in a file beside the database on SQLite, in a schema of their own on PostgreSQL, and
//! they alone can be written. Every statement has a deadline and bounds on its memory and temporary files, and an answer
//! has a bound on rows and bytes. On PostgreSQL the connections log in as a role of their own ([`role`]).

pub mod guard;
pub(super) mod postgres;
pub mod role;
pub(super) mod room;
mod sqlite;
mod views;

use std::time::Duration;

use serde_json::Value;

use super::lane::{Held, Lane, Laned, READ_TIME};
use super::{Db, StoreError};
use guard::Refusal;
use role::NoRole;

/// PostgreSQL: where the views are.
const VIEW_SCHEMA: &str = "script_views";
/// PostgreSQL: where the scripts' own tables are.
const OWN_SCHEMA: &str = "script_tables";

/// SQLite: the function that refuses a value above a size, on these connections (`guard::bounds`). PostgreSQL has its own
/// in the schema of the views.
const SQLITE_SHORT: &str = "belvedere_short";

/// SQLite: the longest value, of a column or an expression. SQLite would go up to a gigabyte, and takes time in proportion to it
/// without a look at the clock. Larger records are NULL (`views`).
pub(super) const MAX_VALUE_BYTES: i32 = 256 << 10;

/// `records` for statements that name the columns that they want: see `guard::quick`.
const LEAN_RECORDS: &str = "records_lean";

/// How long a statement may take.
pub const STATEMENT_TIME: Duration = READ_TIME;
/// Rows of an answer: ten pages. More is a report, which LIMIT and OFFSET cut into pieces.
pub const MAX_ROWS: usize = 1_000;
/// Bytes of an answer: with what it becomes in Lua, within a run's memory.
pub const MAX_ANSWER_BYTES: usize = 4 << 20;
/// Room for all own tables and their indexes together, so that scripts can't fill the disk under the index.
pub const MAX_OWN_BYTES: u64 = 1 << 30;
/// Own tables and indexes: scripts keep results, not customers.
pub const MAX_OWN_RELATIONS: i64 = 100;
/// Statements of scripts that run at once, and in how many of them something may be written: they share the machine
/// with everybody else's reads.
const READERS: u32 = 4;
const WRITERS: u32 = 1;

/// What a statement gave.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// A JSON array of objects: columns by name, without those that are NULL. JSON in a column is text.
    pub rows: Vec<u8>,
    pub count: usize,
    /// How many rows an INSERT, UPDATE or DELETE touched.
    pub changed: Option<u64>,
}

/// Why a statement gave nothing. All but the last are told to the script's author.
#[derive(Debug, thiserror::Error)]
pub enum RawError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The database does not understand it, or a value or a rule is against it: in the database's words.
    #[error("{0}")]
    Database(String),
    #[error("the statement took longer than {} s", STATEMENT_TIME.as_secs())]
    TooSlow,
    #[error("more than {MAX_ROWS} rows: add a LIMIT")]
    TooManyRows,
    #[error("the answer, or a value on the way to it, is too large: {} MiB at most", MAX_ANSWER_BYTES >> 20)]
    TooLarge,
    /// PostgreSQL: `temp_file_limit`.
    #[error(
        "the statement sorts or joins more than may lie in temporary files: filter before, or select fewer columns"
    )]
    TemporaryFiles,
    #[error("the scripts' own tables have all the room that they may have ({} MiB)", MAX_OWN_BYTES >> 20)]
    Full,
    #[error("there are {MAX_OWN_RELATIONS} own tables and indexes already")]
    TooManyRelations,
    /// PostgreSQL: the second wall is missing. For the operator, through the script's author.
    #[error(
        "db.raw needs a database role of its own, and {0}. The operator finds what to do with `belvedere doctor` and in \
         docs/operations.md, Database rights"
    )]
    NoRole(NoRole),
    #[error(transparent)]
    Store(StoreError),
}

impl From<sqlx::Error> for RawError {
    fn from(error: sqlx::Error) -> Self {
        // What is wrong with the statement has no secrets: it sees nothing that it may not see.
        if let sqlx::Error::Database(database) = &error {
            let code = database.code().unwrap_or_default();
            if super::error::is_timeout(&code) {
                return Self::TooSlow;
            }
            if code == "53400" {
                return Self::TemporaryFiles;
            }
            if is_out_of_room(&code, database.message()) {
                return Self::TooLarge;
            }
            if is_statements_fault(&code) {
                return Self::Database(database.message().to_owned());
            }
        }
        Self::Store(error.into())
    }
}

/// PostgreSQL has no code of its own for a value that grows beyond a gigabyte.
fn is_out_of_room(code: &str, message: &str) -> bool {
    // SQLite's NOMEM: the room of a statement (`room`).
    code == "53200"
        || code == "7"
        || (code == "XX000" && message.starts_with("invalid memory alloc request size"))
}

/// PostgreSQL's classes for data, constraints, syntax and names, limits and features; SQLite's ERROR, TOOBIG,
/// CONSTRAINT, MISMATCH and RANGE.
fn is_statements_fault(code: &str) -> bool {
    if code.len() == 5 {
        return ["0A", "21", "22", "23", "25", "2B", "42", "54"].iter().any(|class| code.starts_with(class));
    }
    code.parse::<u32>().is_ok_and(|code| matches!(code & 0xff, 1 | 18 | 19 | 20 | 25))
}

/// What stands between scripts' SQL and the rest of the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptWalls {
    /// The guard, and connections that see views of the index and can't write it.
    Sqlite,
    /// The guard alone (`SCRIPT_SQL=guarded`).
    Guard,
    /// The guard, and a role.
    GuardAndRole {
        name: String,
        /// Whether what its statements keep in temporary files is bounded.
        bounds_files: bool,
    },
}

/// Looks which walls stand.
///
/// # Errors
/// [`RawError::NoRole`] when `db.raw` can't be used.
pub async fn walls(db: &Db) -> Result<ScriptWalls, RawError> {
    match db {
        Db::Sqlite(_) => Ok(ScriptWalls::Sqlite),
        Db::Postgres(db) => db.script_walls().await,
    }
}

/// Connections for scripts' SQL, opened when first used.
#[derive(Debug)]
pub(super) struct Connections<C: sqlx::Connection> {
    readers: Lane<C>,
    writers: Lane<C>,
}

impl<C: Laned> Connections<C> {
    async fn get(&self, parsed: &guard::Parsed) -> Result<Held<'_, C>, sqlx::Error> {
        if parsed.is_select() { self.readers.get().await } else { self.writers.get().await }
    }

    pub(super) async fn close(&self) {
        self.readers.close().await;
        self.writers.close().await;
    }
}

/// Runs one statement with its parameters: texts, numbers, booleans and nulls.
///
/// # Errors
/// [`RawError`].
pub async fn run(db: &Db, sql: &str, params: &[Value]) -> Result<Answer, RawError> {
    let parsed = guard::Parsed::new(sql, db.backend())?;
    match db {
        Db::Sqlite(db) => sqlite::run(&db.script_sql, &parsed, params).await,
        Db::Postgres(db) => postgres::run(&db.script_sql, &parsed, params, &db.script_role).await,
    }
}

/// Checks a statement with the columns of the own tables that it names.
fn resolve(
    parsed: &guard::Parsed,
    params: &[Value],
    columns: Vec<(String, String)>,
) -> Result<guard::Statement, RawError> {
    let mut catalog = guard::Catalog::default();
    for (table, column) in &columns {
        catalog.add(table, column);
    }
    parsed.write(params, &catalog).map_err(|refusal| match refusal {
        // As the database would say it.
        Refusal::Missing(_) => RawError::Database(refusal.to_string()),
        other => other.into(),
    })
}

/// Rows being collected.
#[derive(Default)]
struct Rows {
    out: Vec<u8>,
    count: usize,
}

impl Rows {
    /// Adds one object, written by `write`.
    fn add(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Result<(), RawError>) -> Result<(), RawError> {
        self.count += 1;
        if self.count > MAX_ROWS {
            return Err(RawError::TooManyRows);
        }
        self.out.push(if self.count == 1 { b'[' } else { b',' });
        write(&mut self.out)?;
        if self.out.len() > MAX_ANSWER_BYTES { Err(RawError::TooLarge) } else { Ok(()) }
    }

    fn finish(mut self, changed: Option<u64>) -> Answer {
        if self.count == 0 {
            self.out.push(b'[');
        }
        self.out.push(b']');
        Answer { rows: self.out, count: self.count, changed }
    }
}
