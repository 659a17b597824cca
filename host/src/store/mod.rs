//! All SQL. The one place that knows there are two databases.
//!
//! [`Db`] is an enum over SQLite and PostgreSQL. Each table family has one file with all of its statements; where
//! one SQL text serves both databases it is written once (`$1` placeholders work on both), where the dialects
//! differ the two statements stand side by side. SQL is never rewritten at run time.
//!
//! Values: times are BIGINT microseconds UTC, ids are text, JSON is text (records are `jsonb` on PostgreSQL).
//! Absence is `Option`; whether it is a 404 is the caller's business. Errors are [`StoreError`].

pub mod api_clients;
pub mod api_keys;
pub mod cursors;
pub mod events;
pub mod index;
pub mod lexicons;
pub mod query;
pub mod records;
pub mod scripts;
pub mod settings;
pub mod users;

use sqlx::{PgPool, SqlitePool};

/// The database, cheap to clone.
#[derive(Clone, Debug)]
pub enum Db {
    Sqlite(Sqlite),
    Postgres(Postgres),
}

/// One file, one writer connection, several readers.
#[derive(Clone, Debug)]
pub struct Sqlite {
    pub reader: SqlitePool,
    /// A pool of one: SQLite has one writer, and waiting for it here is fair and needs no busy loop.
    pub writer: SqlitePool,
}

#[derive(Clone, Debug)]
pub struct Postgres {
    pub pool: PgPool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    Sqlite,
    Postgres,
}

impl Backend {
    /// The name that `db.backend()` and db-info show: `sqlite` or `postgres`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }
}

/// What can go wrong in the store. Callers turn `Conflict` into 409 and the rest into 500.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A unique rule was hit; the text names the table or constraint.
    #[error("already there: {0}")]
    Conflict(String),
    /// The database can't be reached, is overloaded or shutting down; the same call may work later.
    #[error("the database is unavailable: {0}")]
    Unavailable(sqlx::Error),
    /// The database address is unusable, or the data directory can't be made.
    #[error("the database can't be opened: {0}")]
    Open(String),
    #[error("a migration failed: {0}")]
    Migrate(#[from] sqlx::migrate::MigrateError),
    /// A row holds what we would never have written.
    #[error("corrupt row: {0}")]
    Corrupt(String),
    #[error("database error: {0}")]
    Database(sqlx::Error),
}

/// A field of a partial update.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Patch<T> {
    /// Not mentioned: stays as it is.
    #[default]
    Keep,
    /// `null`: back to nothing (or the instance default).
    Clear,
    Set(T),
}

impl Db {
    /// Opens `sqlite:PATH`, `sqlite://PATH` or `postgres://…`. A SQLite file and its directory are created.
    /// `max_connections` sizes the PostgreSQL pool or the SQLite reader pool. Runs no migrations.
    ///
    /// # Errors
    /// [`StoreError::Open`] for an address that is none of these, else what the database says.
    pub async fn open(_url: &str, _max_connections: u32) -> Result<Self, StoreError> {
        todo!()
    }

    /// Brings the schema up to date. Several processes may call it at once.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        todo!()
    }

    /// How many embedded migrations the database has not seen yet.
    pub async fn pending_migrations(&self) -> Result<usize, StoreError> {
        todo!()
    }

    /// A round trip to the database (reader and writer).
    pub async fn ping(&self) -> Result<(), StoreError> {
        todo!()
    }

    pub fn backend(&self) -> Backend {
        match self {
            Self::Sqlite(_) => Backend::Sqlite,
            Self::Postgres(_) => Backend::Postgres,
        }
    }

    /// Connections in the main pool, as db-info shows it.
    pub fn max_connections(&self) -> u32 {
        todo!()
    }

    /// PostgreSQL's `max_connections`; `None` on SQLite.
    pub async fn server_max_connections(&self) -> Result<Option<i64>, StoreError> {
        todo!()
    }

    /// Waits for running statements and closes; SQLite checkpoints its log.
    pub async fn close(&self) {
        todo!()
    }
}
