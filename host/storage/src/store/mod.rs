//! Reads and writes the database. All SQL is in this module, and only this module distinguishes SQLite from PostgreSQL.
//!
//! [`Db`] is an enum over SQLite and PostgreSQL. Each table family has one file with all of its statements; where
//! one SQL text serves both databases it is written once (`$1` placeholders work on both), where the dialects
//! differ the two statements are next to each other. SQL is never rewritten at run time, except that statements on
//! `records` and `record_refs` name the partition of their collection (`partitions`).
//!
//! Values: times are BIGINT microseconds UTC, ids are text, JSON is text (records are `jsonb` on PostgreSQL).
//! A missing row is `None`; the caller decides whether that is a 404. Errors are [`StoreError`].

pub mod account_sessions;
pub mod alerts;
pub mod api_client_keys;
pub mod api_clients;
pub mod api_keys;
pub mod app_push;
pub mod backfill;
pub mod backup;
mod change_notes;
mod counts;
pub mod cursors;
pub mod dead_letters;
mod dedicated_connection;
mod definitions;
pub mod delegates;
mod disk_space;
pub mod domains;
pub mod dpop_keys;
mod error;
pub mod events;
mod executor;
pub mod external_accounts;
pub mod external_auth_states;
mod fence;
pub mod fields;
pub mod foreign;
pub mod gaps;
pub mod health;
pub mod identities;
mod in_place;
mod incomplete;
pub mod index;
pub mod instance_keys;
pub mod instance_oauth_keys;
mod intern;
pub mod issued_labels;
pub mod jobs;
pub mod labelers;
pub mod labels;
pub mod lease;
pub mod lexicon_revisions;
pub mod lexicons;
pub mod linked_repos;
mod lost;
pub mod metric_history;
pub mod metric_resolution;
pub mod moderation;
pub mod notifications;
pub mod oauth_sessions;
pub mod oauth_states;
mod packed;
mod partitions;
mod patch;
pub mod plugin_secrets;
pub mod plugins;
pub mod plugin_pauses;
pub mod plugin_values;
mod pools;
mod postgres;
pub mod query;
mod read_pool;
pub mod readiness;
pub mod record_changes;
pub mod record_trace;
pub mod records;
pub mod request_latencies;
mod resources;
pub mod revisions;
pub mod revocations;
mod read_cost;
mod reads;
mod scans;
pub mod script_recordings;
pub mod script_revisions;
pub mod script_rollouts;
pub mod script_sql;
pub mod schedules;
pub mod script_variables;
pub mod scripts;
pub mod search;
mod select;
pub mod server_lock;
pub mod service_entries;
pub mod service_identity;
pub mod settings;
pub mod shards;
pub mod sizes;
pub mod spaces;
mod sqlite;
pub mod status;
mod text_enum;
pub mod temporary_databases;
pub mod transfer;
mod types;
pub mod used_proofs;
pub mod users;
pub mod validations;
pub mod verification_methods;
pub mod web_sessions;

#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;
use sqlx::migrate::{Migrate, MigrateError, Migrator};

pub use error::StoreError;
pub use patch::Patch;
use pools::{hot, in_transaction, on};
pub use postgres::{Postgres, nodes, replicas};
pub use resources::Resources;
use script_sql::role::ScriptRole;
pub use sqlite::Sqlite;

/// A handle to the database; cheap to clone.
#[derive(Clone, Debug)]
pub enum Db {
    Sqlite(Sqlite),
    Postgres(Postgres),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
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

/// The only row that a write with `RETURNING` produced. Outside a transaction such a statement must run with
/// `fetch_all`: `fetch_one` and `fetch_optional` stop reading after the first row, but SQLite commits after the last,
/// so a failed commit would go unnoticed.
fn only_row<T>(mut rows: Vec<T>) -> Option<T> {
    rows.pop()
}

/// The embedded migrations; `migrations/README.md` has their rules.
static SQLITE_MIGRATIONS: Migrator = sqlx::migrate!("../../migrations/sqlite");
static POSTGRES_MIGRATIONS: Migrator = sqlx::migrate!("../../migrations/postgres");

/// sqlx's table of applied migrations.
const MIGRATIONS_TABLE: &str = "_sqlx_migrations";

impl Db {
    /// Opens `sqlite:PATH`, `sqlite://PATH` or `postgres://…`. A SQLite file and its directory are created.
    /// `connections` sizes the PostgreSQL pool or the SQLite reader pool. Runs no migrations.
    ///
    /// # Errors
    /// [`StoreError::Open`] for a URL of another form, otherwise the error of the database.
    pub async fn open(url: &str, connections: u32) -> Result<Self, StoreError> {
        let resources = Resources::little(connections);
        Self::open_with(url, resources, &ScriptRole::Own { password: None }).await
    }

    /// Like [`Db::open`]; `scripts` determines which PostgreSQL role scripts' SQL runs under.
    ///
    /// # Errors
    /// As [`Db::open`].
    pub async fn open_with(
        url: &str,
        resources: Resources,
        scripts: &ScriptRole,
    ) -> Result<Self, StoreError> {
        let db = Self::open_incomplete(url, resources, scripts).await?;
        if let Err(error) = incomplete::refuse(&db).await {
            db.close().await;
            return Err(error);
        }
        Ok(db)
    }

    /// Like [`Db::open_with`], also for a database that a move has not completed.
    async fn open_incomplete(
        url: &str,
        resources: Resources,
        scripts: &ScriptRole,
    ) -> Result<Self, StoreError> {
        let resources = Resources { connections: resources.connections.max(1), ..resources };
        if url.starts_with("sqlite:") {
            Sqlite::open(url, resources).await.map(Self::Sqlite)
        } else if url.starts_with("postgres:") || url.starts_with("postgresql:") {
            Postgres::open(url, resources, scripts).await.map(Self::Postgres)
        } else {
            // The URL may contain a password: it is left out.
            Err(StoreError::Open("the database URL must begin with sqlite: or postgres:".into()))
        }
    }

    /// `false` for a SQLite file that does not exist yet, always `true` for PostgreSQL. Opens and creates nothing.
    ///
    /// # Errors
    /// [`StoreError::Open`] when the URL is malformed or the file system can't be read.
    pub fn exists(url: &str) -> Result<bool, StoreError> {
        let Some(file) = Self::file(url)? else { return Ok(true) };
        file.try_exists().map_err(|error| StoreError::Open(error.to_string()))
    }

    /// The file of a SQLite database, as an absolute path; `None` for PostgreSQL.
    ///
    /// # Errors
    /// [`StoreError::Open`] when the URL is malformed.
    pub fn file(url: &str) -> Result<Option<PathBuf>, StoreError> {
        if !url.starts_with("sqlite:") {
            return Ok(None);
        }
        let path = Sqlite::file(url)?;
        std::path::absolute(path).map(Some).map_err(|error| StoreError::Open(error.to_string()))
    }

    /// The number of migrations that a new database needs.
    pub fn all_migrations(url: &str) -> usize {
        if url.starts_with("sqlite:") { &SQLITE_MIGRATIONS } else { &POSTGRES_MIGRATIONS }.iter().count()
    }

    /// Applies pending migrations and prepares the database role of scripts' SQL. Several processes may call it at
    /// the same time.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        self.apply_migrations().await?;
        self.prepare_script_role().await;
        Ok(())
    }

    /// Creates the PostgreSQL role that scripts' SQL runs under. A failure is logged and disables only `db.raw`.
    pub async fn prepare_script_role(&self) {
        let Self::Postgres(db) = self else { return };
        let reason = match db.prepare_script_role().await {
            Ok(Ok(())) => return,
            Ok(Err(no_role)) => no_role.to_string(),
            Err(error) => error.to_string(),
        };
        tracing::warn!(
            reason,
            "scripts can't use db.raw: its database role can't be prepared; run belvedere doctor for instructions"
        );
    }

    async fn apply_migrations(&self) -> Result<(), StoreError> {
        let mut missing = usize::MAX;
        if let Self::Postgres(db) = self
            && db.nodes.is_some()
            && self.pending_migrations().await? > 0
        {
            nodes::prepare_migrations(db).await?;
        }
        loop {
            let result = match self {
                Self::Sqlite(db) => SQLITE_MIGRATIONS.run(&db.writer).await,
                Self::Postgres(db) => POSTGRES_MIGRATIONS.run(&db.pool).await,
            };
            let error = match result {
                Ok(()) => return Ok(()),
                // Applying a migration failed, or recording it did.
                Err(error @ (MigrateError::ExecuteMigration(..) | MigrateError::Execute(_))) => error,
                Err(error) => return Err(error.into()),
            };
            // sqlx takes no lock on SQLite: when two processes migrate at once, one fails if the other has just applied
            // the same migration. Retry as long as the number of pending migrations falls.
            match self.pending_migrations().await {
                Ok(0) => return Ok(()),
                Ok(pending) if pending < missing => missing = pending,
                _ => return Err(error.into()),
            }
        }
    }

    /// Number of embedded migrations that are not applied yet.
    pub async fn pending_migrations(&self) -> Result<usize, StoreError> {
        async fn pending<C: Migrate>(conn: &mut C, migrator: &Migrator) -> Result<usize, StoreError> {
            let applied = conn.list_applied_migrations(MIGRATIONS_TABLE).await?;
            Ok(migrator.iter().filter(|m| !applied.iter().any(|a| a.version == m.version)).count())
        }
        const EXISTS_SQLITE: &str =
            "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = '_sqlx_migrations')";
        const EXISTS_POSTGRES: &str = "SELECT to_regclass('_sqlx_migrations') IS NOT NULL";
        match self {
            Self::Sqlite(db) => {
                let mut conn = db.reader.acquire().await?;
                if !sqlx::query_scalar::<_, bool>(EXISTS_SQLITE).fetch_one(&mut *conn).await? {
                    return Ok(SQLITE_MIGRATIONS.iter().count());
                }
                pending(&mut *conn, &SQLITE_MIGRATIONS).await
            }
            Self::Postgres(db) => {
                let mut conn = db.pool.acquire().await?;
                if !sqlx::query_scalar::<_, bool>(EXISTS_POSTGRES).fetch_one(&mut *conn).await? {
                    return Ok(POSTGRES_MIGRATIONS.iter().count());
                }
                pending(&mut *conn, &POSTGRES_MIGRATIONS).await
            }
        }
    }

    pub fn backend(&self) -> Backend {
        match self {
            Self::Sqlite(_) => Backend::Sqlite,
            Self::Postgres(_) => Backend::Postgres,
        }
    }

    /// Number of connections in the main pool, as shown in db-info.
    pub fn max_connections(&self) -> u32 {
        match self {
            Self::Sqlite(db) => db.connections,
            Self::Postgres(db) => db.connections,
        }
    }

    /// PostgreSQL's `max_connections`; `None` on SQLite.
    pub async fn server_max_connections(&self) -> Result<Option<i64>, StoreError> {
        match self {
            Self::Sqlite(_) => Ok(None),
            Self::Postgres(db) => {
                let sql = "SELECT setting::bigint FROM pg_settings WHERE name = 'max_connections'";
                Ok(sqlx::query_scalar(sql).fetch_optional(db.reader()).await?)
            }
        }
    }

    /// The bytes of pages that PostgreSQL itself keeps in memory (`shared_buffers`), and those of the database. `None` on SQLite, and in
    /// shards, whose records are on other servers.
    pub async fn server_buffers(&self) -> Result<Option<(i64, i64)>, StoreError> {
        match self {
            Self::Postgres(db) if db.nodes.is_none() => {
                let sql = "SELECT pg_size_bytes(current_setting('shared_buffers')), pg_database_size(current_database())";
                Ok(Some(sqlx::query_as(sql).fetch_one(db.reader()).await?))
            }
            _ => Ok(None),
        }
    }

    /// Waits for running statements, then closes all connections; SQLite checkpoints its WAL.
    pub async fn close(&self) {
        match self {
            Self::Sqlite(db) => db.close().await,
            Self::Postgres(db) => db.close().await,
        }
    }

    fn fields(&self) -> &fields::FieldUsage {
        match self {
            Self::Sqlite(db) => &db.fields,
            Self::Postgres(db) => &db.fields,
        }
    }

    fn ids(&self) -> &intern::Interner {
        match self {
            Self::Sqlite(db) => &db.ids,
            Self::Postgres(db) => &db.ids,
        }
    }
}
