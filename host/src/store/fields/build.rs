//! Builds and drops indexes of record fields.
//!
//! PostgreSQL builds them `CONCURRENTLY`, without blocking writes. On SQLite building an index is one statement that
//! holds the write lock: other writes (not reads) wait, a few microseconds per record. Above [`MAX_SQLITE_RECORDS`] it
//! is refused. A search table on SQLite is filled in small steps between other writes.
//!
//! An index covers one collection, so it does not slow down writes to others.

use sqlx::{AssertSqlSafe, Connection, PgConnection, SqlitePool};

use crate::store::partitions::{Partition, partition_number};
use crate::store::query::{Classes, Dialect, Keys, PostgresDialect, SqliteDialect};
use crate::store::{Db, Postgres, StoreError};

use super::{IndexKey, IndexKind};

/// Maximum number of records for an index on SQLite. With more, the build would block writes for longer than their
/// timeout (10 s; a build takes some 5 µs per record).
const MAX_SQLITE_RECORDS: i64 = 1_500_000;

/// Number of ids that one step of filling a search table covers. A write waits for one step: some 50 ms.
const FILL_STEP: i64 = 2_000;

/// Key of the advisory lock for building and dropping indexes: "fieldidx" in ASCII.
const LOCK: i64 = 0x6669_656c_6469_6478;

/// The exclusive right of one process to build and drop indexes. It ends when this value is dropped.
#[derive(Debug)]
pub enum BuildLock<'a> {
    /// No lock: only one server uses the file.
    Sqlite(&'a SqlitePool),
    /// A connection that holds the lock until it is closed.
    Postgres(PgConnection),
}

/// Why building an index failed.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error(
        "too many records for an index on SQLite, which blocks writes ({0}; at most {MAX_SQLITE_RECORDS})"
    )]
    TooMany(i64),
    #[error("the index was not completed")]
    Invalid,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<sqlx::Error> for BuildError {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

/// The name of an index, or of a search table.
pub(in crate::store) fn name(kind: IndexKind, id: i64) -> String {
    match kind {
        IndexKind::Filter | IndexKind::Sort => format!("field_index_{id}"),
        IndexKind::Search => format!("field_search_{id}"),
    }
}

/// Acquires the build lock; `None` while another host holds it.
pub async fn lock(db: &Db) -> Result<Option<BuildLock<'_>>, StoreError> {
    match db {
        Db::Sqlite(db) => Ok(Some(BuildLock::Sqlite(&db.writer))),
        Db::Postgres(db) => Ok(try_lock(db).await?.map(BuildLock::Postgres)),
    }
}

async fn try_lock(db: &Postgres) -> Result<Option<PgConnection>, StoreError> {
    // Detached from the pool, so that dropping it closes the connection and releases the lock.
    let mut conn = db.pool.acquire().await?.detach();
    let got: bool =
        sqlx::query_scalar("SELECT pg_try_advisory_lock($1)").bind(LOCK).fetch_one(&mut conn).await?;
    if !got {
        return Ok(None);
    }
    sqlx::query("SET statement_timeout = 0").execute(&mut conn).await?;
    Ok(Some(conn))
}

impl BuildLock<'_> {
    /// Releases the lock. Without this call PostgreSQL releases it once it notices that the connection is closed.
    ///
    /// # Errors
    /// When the database fails. The lock is released anyway.
    pub async fn release(self) -> Result<(), StoreError> {
        if let Self::Postgres(mut conn) = self {
            sqlx::query("SELECT pg_advisory_unlock($1)").bind(LOCK).execute(&mut conn).await?;
            conn.close().await?;
        }
        Ok(())
    }

    /// Builds an index. No part of it may exist yet.
    ///
    /// # Errors
    /// The incomplete index stays until [`Self::drop_index`].
    pub async fn build(&mut self, key: &IndexKey, id: i64) -> Result<(), BuildError> {
        match self {
            Self::Sqlite(pool) => match key.kind {
                IndexKind::Filter | IndexKind::Sort => sqlite_index(pool, key, id).await,
                IndexKind::Search => sqlite_search(pool, key, id).await,
            },
            Self::Postgres(conn) => postgres_index(conn, key, id).await,
        }
    }

    /// Drops an index, or what an interrupted build left of it. Succeeds if there is none.
    pub async fn drop_index(&mut self, kind: IndexKind, id: i64) -> Result<(), StoreError> {
        let name = name(kind, id);
        match self {
            Self::Sqlite(pool) => {
                let sql = match kind {
                    IndexKind::Filter | IndexKind::Sort => format!("DROP INDEX IF EXISTS {name}"),
                    IndexKind::Search => format!(
                        "DROP TRIGGER IF EXISTS {name}_insert; DROP TRIGGER IF EXISTS {name}_update; \
                         DROP TRIGGER IF EXISTS {name}_delete; DROP TABLE IF EXISTS {name}"
                    ),
                };
                let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *tx).await?;
                tx.commit().await?;
            }
            Self::Postgres(conn) => {
                let sql = format!("DROP INDEX CONCURRENTLY IF EXISTS {name}");
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(conn).await?;
            }
        }
        Ok(())
    }
}

/// The columns of an index for filters or sorts. SQLite appends the row id to every index; for PostgreSQL it is added.
fn columns<D: Dialect>(key: &IndexKey) -> String {
    let Keys { class, num, txt } = D::keys("record", &key.path, Classes::INDEXED);
    match key.kind {
        IndexKind::Filter => format!("{class}, {num}, {txt}, indexed_at"),
        IndexKind::Sort | IndexKind::Search => format!("{class}, {num}, {txt}"),
    }
}

async fn sqlite_index(pool: &SqlitePool, key: &IndexKey, id: i64) -> Result<(), BuildError> {
    let records: i64 = sqlx::query_scalar("SELECT coalesce(max(id), 0) FROM records").fetch_one(pool).await?;
    if records > MAX_SQLITE_RECORDS {
        return Err(BuildError::TooMany(records));
    }
    let (name, collection) = (name(key.kind, id), key.collection_id);
    let columns = columns::<SqliteDialect>(key);
    let sql = format!(
        "CREATE INDEX IF NOT EXISTS {name} ON records ({columns}) WHERE collection_id = {collection}"
    );
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(pool).await?;
    Ok(())
}

/// Creates a search table of trigrams, without the texts. SQL triggers update it in each transaction that changes
/// records.
async fn sqlite_search(pool: &SqlitePool, key: &IndexKey, id: i64) -> Result<(), BuildError> {
    let (name, collection) = (name(key.kind, id), key.collection_id);
    let text = |row: &str| SqliteDialect::text(&format!("{row}record"), &key.path);
    let insert = |row: &str| {
        let text = text(&format!("{row}."));
        format!("INSERT INTO {name} (rowid, txt) SELECT {row}.id, {text} WHERE {text} IS NOT NULL;")
    };
    let (new, old) = (insert("NEW"), format!("DELETE FROM {name} WHERE rowid = OLD.id;"));
    let sql = format!(
        "CREATE VIRTUAL TABLE {name} USING fts5(txt, content='', contentless_delete=1, tokenize='trigram'); \
         CREATE TRIGGER {name}_insert AFTER INSERT ON records WHEN NEW.collection_id = {collection} \
             BEGIN {new} END; \
         CREATE TRIGGER {name}_update AFTER UPDATE OF record ON records WHEN NEW.collection_id = {collection} \
             BEGIN {old} {new} END; \
         CREATE TRIGGER {name}_delete AFTER DELETE ON records WHEN OLD.collection_id = {collection} \
             BEGIN {old} END;"
    );
    let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *tx).await?;
    tx.commit().await?;

    // The triggers handle all changes from here on; older records are added in steps.
    let last: i64 = sqlx::query_scalar("SELECT coalesce(max(id), 0) FROM records").fetch_one(pool).await?;
    let text = text("");
    let fill = format!(
        "INSERT OR REPLACE INTO {name} (rowid, txt) SELECT id, {text} FROM records NOT INDEXED \
         WHERE id > $1 AND id <= $2 AND collection_id = {collection} AND {text} IS NOT NULL"
    );
    let mut from = 0;
    while from < last {
        let to = last.min(from + FILL_STEP);
        sqlx::query(AssertSqlSafe(fill.clone())).bind(from).bind(to).execute(pool).await?;
        from = to;
    }
    Ok(())
}

async fn postgres_index(conn: &mut PgConnection, key: &IndexKey, id: i64) -> Result<(), BuildError> {
    let (name, collection) = (name(key.kind, id), key.collection_id);
    let shape = match key.kind {
        IndexKind::Filter | IndexKind::Sort => format!("({}, id)", columns::<PostgresDialect>(key)),
        IndexKind::Search => {
            // A standard contrib extension. Since PostgreSQL 13 a superuser is not needed.
            sqlx::raw_sql("CREATE EXTENSION IF NOT EXISTS pg_trgm").execute(&mut *conn).await?;
            format!("USING gin ({} gin_trgm_ops)", PostgresDialect::text("record", &key.path))
        }
    };
    // Builds on one partition: the table itself can't have an index built concurrently.
    let number: i32 = sqlx::query_scalar(concat!("SELECT ", partition_number!("$1")))
        .bind(collection)
        .fetch_one(&mut *conn)
        .await?;
    let records = Partition::of_number(number)?.records();
    let sql =
        format!("CREATE INDEX CONCURRENTLY {name} ON {records} {shape} WHERE collection_id = {collection}");
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *conn).await?;
    let valid: Option<bool> =
        sqlx::query_scalar("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass($1)")
            .bind(&name)
            .fetch_optional(&mut *conn)
            .await?;
    if valid != Some(true) {
        return Err(BuildError::Invalid);
    }
    // Without ANALYZE the planner has no statistics of the index's expressions.
    sqlx::raw_sql(AssertSqlSafe(format!("ANALYZE {records}"))).execute(&mut *conn).await?;
    Ok(())
}
