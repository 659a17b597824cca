//! The two databases of a move, whichever kinds they are.

use std::path::PathBuf;

use super::catalog::{Catalog, State, Table};
use super::value::Row;
use super::{MoveError, postgres, sqlite};
use crate::store::{Db, StoreError, counts, incomplete};
use belvedere_base::files;

/// The address of a database.
pub(super) enum Place {
    Sqlite(PathBuf),
    Postgres(String),
}

impl Place {
    pub(super) fn of(url: &str) -> Result<Self, StoreError> {
        Ok(match Db::file(url)? {
            Some(path) => Self::Sqlite(path),
            None => Self::Postgres(url.to_owned()),
        })
    }

    pub(super) fn is_postgres(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }

    pub(super) async fn open(&self, is_target: bool) -> Result<End, StoreError> {
        Ok(match self {
            Self::Sqlite(path) => End::Sqlite(sqlite::Sqlite::open(path, is_target).await?),
            Self::Postgres(url) => End::Postgres(postgres::Postgres::open(url).await?),
        })
    }

    /// Marks an empty database as incomplete, or begins again with one that is.
    pub(super) async fn claim(&self) -> Result<(), MoveError> {
        match self {
            Self::Sqlite(path) => {
                match sqlite::state(path).await? {
                    State::Used => return Err(MoveError::TargetUsed),
                    State::Incomplete => sqlite::clear(path)?,
                    State::Empty => {}
                }
                if let Some(folder) = path.parent() {
                    files::create_private_folder(folder)
                        .map_err(|error| StoreError::Open(format!("{}: {error}", folder.display())))?;
                }
                sqlite::mark(path).await?;
            }
            Self::Postgres(url) => {
                let mut postgres = postgres::Postgres::open(url).await?;
                match postgres.state().await? {
                    State::Used => return Err(MoveError::TargetUsed),
                    State::Incomplete => postgres.clear().await?,
                    State::Empty => {}
                }
                postgres.execute(incomplete::SET.to_owned()).await?;
            }
        }
        Ok(())
    }

    /// Removes the mark of a database that was filled.
    pub(super) async fn release(&self) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(path) => sqlite::release(path).await,
            Self::Postgres(url) => {
                let mut postgres = postgres::Postgres::open(url).await?;
                postgres.execute("ANALYZE".to_owned()).await?;
                postgres.execute(incomplete::CLEAR.to_owned()).await
            }
        }
    }
}

/// One of the two databases.
pub(super) enum End {
    Sqlite(sqlite::Sqlite),
    Postgres(postgres::Postgres),
}

impl End {
    /// Begins the transaction in which the source is read.
    pub(super) async fn begin(&mut self) -> Result<(), MoveError> {
        self.check_unused().await?;
        match self {
            Self::Sqlite(sqlite) => sqlite.execute("BEGIN".to_owned()).await?,
            Self::Postgres(postgres) => postgres.begin_snapshot().await?,
        }
        Ok(())
    }

    /// Refuses a source on PostgreSQL that a server uses. A SQLite file is locked by the caller.
    pub(super) async fn check_unused(&mut self) -> Result<(), MoveError> {
        let is_used = match self {
            Self::Postgres(postgres) => postgres.is_used_by_servers().await?,
            Self::Sqlite(_) => false,
        };
        if is_used { Err(MoveError::SourceInUse) } else { Ok(()) }
    }

    pub(super) async fn catalog(&mut self) -> Result<Catalog, StoreError> {
        match self {
            Self::Sqlite(sqlite) => sqlite.catalog().await,
            Self::Postgres(postgres) => postgres.catalog().await,
        }
    }

    pub(super) async fn prepare(&mut self, tables: &[Table]) -> Result<Vec<String>, StoreError> {
        match self {
            Self::Sqlite(sqlite) => sqlite.prepare(tables).await,
            Self::Postgres(postgres) => postgres.prepare(tables).await,
        }
    }

    pub(super) async fn count(&mut self, table: &Table) -> Result<u64, StoreError> {
        match self {
            Self::Sqlite(sqlite) => sqlite.count(table).await,
            Self::Postgres(postgres) => postgres.count(table).await,
        }
    }

    pub(super) async fn read(
        &mut self,
        table: &Table,
        each: &mut impl AsyncFnMut(Vec<Row>) -> Result<(), MoveError>,
    ) -> Result<u64, MoveError> {
        match self {
            Self::Sqlite(sqlite) => sqlite.read(table, each).await,
            Self::Postgres(postgres) => postgres.read(table, each).await.map(|()| 0),
        }
    }

    pub(super) async fn write(&mut self, table: &Table, rows: &[Row]) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(sqlite) => sqlite.write(table, rows).await,
            Self::Postgres(postgres) => postgres.write(table, rows).await,
        }
    }

    pub(super) async fn execute(&mut self, sql: String) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(sqlite) => sqlite.execute(sql).await,
            Self::Postgres(postgres) => postgres.execute(sql).await,
        }
    }

    /// Once all rows are there: the records are counted, sequences continue after them, and no reference is broken.
    pub(super) async fn complete(&mut self) -> Result<(), MoveError> {
        for sql in counts::RECOUNT {
            self.execute(sql.to_owned()).await?;
        }
        match self {
            Self::Sqlite(sqlite) => match sqlite.broken_reference().await? {
                Some(table) => Err(MoveError::References(table)),
                None => Ok(()),
            },
            Self::Postgres(postgres) => Ok(postgres.set_sequences().await?),
        }
    }

    pub(super) async fn close(self) -> Result<(), StoreError> {
        use sqlx::Connection as _;
        match self {
            Self::Sqlite(sqlite) => sqlite.connection.close().await?,
            Self::Postgres(postgres) => postgres.connection.close().await?,
        }
        Ok(())
    }
}
