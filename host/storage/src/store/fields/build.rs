//! Builds and drops indexes of record fields.
//!
//! Writes go on meanwhile. An index covers one collection, so it does not slow down writes to others.

use sqlx::{Connection, PgConnection};

use crate::store::{Db, Postgres, Sqlite, StoreError};

use super::error::BuildError;
use super::{IndexKey, IndexKind, postgres, sqlite};

/// Key of the advisory lock for building and dropping indexes: "fieldidx" in ASCII.
const LOCK: i64 = 0x6669_656c_6469_6478;

/// The exclusive right of one process to build and drop indexes. It ends when this value is dropped.
#[derive(Debug)]
pub enum BuildLock<'a> {
    /// No lock: only one server uses the file.
    Sqlite(&'a Sqlite),
    /// A connection that holds the lock until it is closed.
    Postgres(PgConnection),
}

/// Acquires the build lock; `None` while another host holds it.
pub async fn lock(db: &Db) -> Result<Option<BuildLock<'_>>, StoreError> {
    match db {
        Db::Sqlite(db) => Ok(Some(BuildLock::Sqlite(db))),
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
    // One process, not also parallel workers: the readers and writers of this time need the processors more.
    sqlx::raw_sql("SET statement_timeout = 0; SET max_parallel_maintenance_workers = 0")
        .execute(&mut conn)
        .await?;
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
            Self::Sqlite(db) => sqlite::build(db, key, id).await,
            Self::Postgres(conn) => postgres::build(conn, key, id).await,
        }
    }

    /// Drops an index, or what an interrupted build left of it. Succeeds if there is none.
    pub async fn drop_index(&mut self, kind: IndexKind, id: i64) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(db) => sqlite::drop_index(db, kind, id).await?,
            Self::Postgres(conn) => postgres::drop_index(conn, kind, id).await?,
        }
        Ok(())
    }
}
