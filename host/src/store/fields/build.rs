//! Making and dropping indexes of fields.
//!
//! PostgreSQL builds them `CONCURRENTLY`: nobody waits. On SQLite an index is one statement that holds the write lock,
//! so writes of that time wait for it (reads do not): a few microseconds for each record, and refused beyond
//! [`MAX_SQLITE_RECORDS`]. A search table on SQLite is filled in small steps between other writes.
//!
//! An index covers one collection, so that writes to the others pay nothing for it.

use sqlx::{AssertSqlSafe, Connection, PgConnection, SqlitePool};

use crate::store::query::{Classes, Dialect, Keys, PostgresDialect, SqliteDialect};
use crate::store::{Db, Postgres, StoreError};

use super::{Key, Kind};

/// More records than this and an index on SQLite would hold up writers for longer than they are willing to wait
/// (10 s; an index takes some 5 µs a record).
const MAX_SQLITE_RECORDS: i64 = 1_500_000;

/// Ids that one step of filling a search table looks at: some 50 ms, which a write may wait.
const FILL_STEP: i64 = 2_000;

/// The advisory lock of whoever builds and drops indexes: ASCII of "fieldidx".
const LOCK: i64 = 0x6669_656c_6469_6478;

/// The right to build and drop, of one process at a time. It ends with this value.
#[derive(Debug)]
pub enum BuildLock<'a> {
    /// A file has one server, and SQLite's own lock keeps statements apart.
    Sqlite(&'a SqlitePool),
    /// A connection of its own, which holds the lock for as long as it is open.
    Postgres(PgConnection),
}

/// Why there is no index.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error("too many records to index while writes wait ({0}; at most {MAX_SQLITE_RECORDS})")]
    TooMany(i64),
    #[error("the index was not built to its end")]
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
pub(in crate::store) fn name(kind: Kind, id: i64) -> String {
    match kind {
        Kind::Filter | Kind::Sort => format!("field_index_{id}"),
        Kind::Search => format!("field_search_{id}"),
    }
}

/// `None` while another host has the turn.
pub async fn lock(db: &Db) -> Result<Option<BuildLock<'_>>, StoreError> {
    match db {
        Db::Sqlite(db) => Ok(Some(BuildLock::Sqlite(&db.writer))),
        Db::Postgres(db) => Ok(try_lock(db).await?.map(BuildLock::Postgres)),
    }
}

async fn try_lock(db: &Postgres) -> Result<Option<PgConnection>, StoreError> {
    // Out of the pool: closing the connection is what lets go of the lock, however this ends.
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
    /// Gives the turn back. Without this PostgreSQL does so in its own time, once it sees the connection gone.
    ///
    /// # Errors
    /// Of the database; the turn is gone all the same.
    pub async fn release(self) -> Result<(), StoreError> {
        if let Self::Postgres(mut conn) = self {
            sqlx::query("SELECT pg_advisory_unlock($1)").bind(LOCK).execute(&mut conn).await?;
            conn.close().await?;
        }
        Ok(())
    }

    /// Makes an index of which nothing must be there.
    ///
    /// # Errors
    /// What was made until then is dropped by [`Self::drop_index`].
    pub async fn build(&mut self, key: &Key, id: i64) -> Result<(), BuildError> {
        match self {
            Self::Sqlite(pool) => match key.kind {
                Kind::Filter | Kind::Sort => sqlite_index(pool, key, id).await,
                Kind::Search => sqlite_search(pool, key, id).await,
            },
            Self::Postgres(conn) => postgres(conn, key, id).await,
        }
    }

    /// Drops an index, or what a build left of it. Nothing there is fine.
    pub async fn drop_index(&mut self, kind: Kind, id: i64) -> Result<(), StoreError> {
        let name = name(kind, id);
        match self {
            Self::Sqlite(pool) => {
                let sql = match kind {
                    Kind::Filter | Kind::Sort => format!("DROP INDEX IF EXISTS {name}"),
                    Kind::Search => format!(
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

/// The columns of an index for filters or sorts. SQLite ends every index with the row id; PostgreSQL is told to.
fn columns<D: Dialect>(key: &Key) -> String {
    let Keys { class, num, txt } = D::keys("record", &key.path, Classes::INDEXED);
    match key.kind {
        Kind::Filter => format!("{class}, {num}, {txt}, indexed_at"),
        Kind::Sort | Kind::Search => format!("{class}, {num}, {txt}"),
    }
}

async fn sqlite_index(pool: &SqlitePool, key: &Key, id: i64) -> Result<(), BuildError> {
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

/// A search table of trigrams, without the texts. EventScripts keep it in the transaction of whatever changes a record.
async fn sqlite_search(pool: &SqlitePool, key: &Key, id: i64) -> Result<(), BuildError> {
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

    // The triggers have everything from here on; what is older comes in steps.
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

async fn postgres(conn: &mut PgConnection, key: &Key, id: i64) -> Result<(), BuildError> {
    let (name, collection) = (name(key.kind, id), key.collection_id);
    let shape = match key.kind {
        Kind::Filter | Kind::Sort => format!("({}, id)", columns::<PostgresDialect>(key)),
        Kind::Search => {
            // Part of every PostgreSQL's contrib; since 13 it takes no superuser.
            sqlx::raw_sql("CREATE EXTENSION IF NOT EXISTS pg_trgm").execute(&mut *conn).await?;
            format!("USING gin ({} gin_trgm_ops)", PostgresDialect::text("record", &key.path))
        }
    };
    let sql =
        format!("CREATE INDEX CONCURRENTLY {name} ON records {shape} WHERE collection_id = {collection}");
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *conn).await?;
    let valid: Option<bool> =
        sqlx::query_scalar("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass($1)")
            .bind(&name)
            .fetch_optional(&mut *conn)
            .await?;
    if valid != Some(true) {
        return Err(BuildError::Invalid);
    }
    // The planner knows nothing of an expression's values before.
    sqlx::raw_sql("ANALYZE records").execute(&mut *conn).await?;
    Ok(())
}
