//! Checks whether the database can be read and written.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, SqliteConnection};

use super::index::SET_CURSOR;
use super::{Db, Sqlite, StoreError, on};
use belvedere_base::clock::Timestamp;

/// A writer that is busy for longer than this counts as healthy: a long write is no outage, and failing commits are
/// reported by the stream.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// The row of `stream_cursors` that the write check sets. No stream has this name.
const PROBE: &str = "probe";

/// The reason why the database is unhealthy.
#[derive(Debug, thiserror::Error)]
pub enum Unhealthy {
    #[error("the database file was deleted or replaced: restore it and restart")]
    FileReplaced,
    #[error("the database can't be read")]
    Unreadable(#[source] StoreError),
    #[error("the database can't be written")]
    Unwritable(#[source] StoreError),
}

/// The identity of a file: its device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId(u64, u64);

impl FileId {
    pub(super) fn of(path: &Path) -> std::io::Result<Self> {
        // The file is not opened: closing any handle of it would release SQLite's locks on it.
        std::fs::metadata(path).map(|file| Self(file.dev(), file.ino()))
    }
}

impl Db {
    /// Makes a round trip to the database, which need not be migrated.
    pub async fn ping(&self) -> Result<(), StoreError> {
        on!(self, reader, |pool| sqlx::query("SELECT 1").fetch_one(pool).await.map(drop))?;
        Ok(())
    }

    /// Reads from the database itself, not from a cache. On SQLite a new connection reads a page of every table, so
    /// that a file that was deleted, replaced or overwritten is noticed; a damaged page deep within a table is not.
    pub async fn check_readable(&self) -> Result<(), Unhealthy> {
        match self {
            Self::Sqlite(db) => {
                let path = db.reader.connect_options();
                if FileId::of(path.get_filename()).ok() != Some(db.file) {
                    return Err(Unhealthy::FileReplaced);
                }
                read_tables(db).await.map_err(|error| Unhealthy::Unreadable(error.into()))
            }
            Self::Postgres(_) => self.ping().await.map_err(Unhealthy::Unreadable),
        }
    }

    /// Commits one small row. The database must be migrated.
    pub async fn check_writable(&self, now: Timestamp) -> Result<(), Unhealthy> {
        let write = async {
            on!(self, writer, |pool| sqlx::query(SET_CURSOR)
                .bind(PROBE)
                .bind(0_i64)
                .bind(None::<i64>)
                .bind(now)
                .execute(pool)
                .await
                .map(drop))
        };
        match tokio::time::timeout(WRITE_TIMEOUT, write).await {
            Ok(Err(error)) => Err(Unhealthy::Unwritable(error.into())),
            Ok(Ok(())) | Err(_) => Ok(()),
        }
    }
}

async fn read_tables(db: &Sqlite) -> Result<(), sqlx::Error> {
    let options = (*db.reader.connect_options()).clone().create_if_missing(false);
    let mut connection = options.connect().await?;
    let read = read_with(&mut connection).await;
    connection.close().await?;
    read
}

async fn read_with(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    // Virtual tables have no root page. Tables of field indexes come and go.
    let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 AND name NOT GLOB 'field_[a-z]*_[0-9]*'";
    let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(&mut *connection).await?;
    for table in tables {
        let sql = format!("SELECT 1 FROM \"{}\" LIMIT 1", table.replace('"', "\"\""));
        sqlx::query(AssertSqlSafe(sql)).persistent(false).fetch_optional(&mut *connection).await?;
    }
    Ok(())
}
