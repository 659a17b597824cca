//! The databases of the cases: copies of a file, or databases of a PostgreSQL server whose names begin with `belvedere_test_`.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use belvedere_base::random::Random;
use belvedere_storage::store::temporary_databases::TemporaryDatabases;

/// The name of the database that is copied.
const TEMPLATE: &str = "template";

/// The extension of the file beside a database of SQLite that has the tables of scripts.
const OWN_TABLES: &str = "scripts.db";

/// Random bytes in the names of databases on a server.
const ID_BYTES: usize = 6;

/// The source of databases.
#[derive(Debug)]
pub(super) enum Databases {
    Sqlite(PathBuf),
    Postgres(TemporaryDatabases),
}

impl Databases {
    /// Copies in a folder, or with `database` on that server.
    ///
    /// # Errors
    /// When the server can't be used.
    pub(super) async fn new(dir: &Path, database: Option<&str>) -> anyhow::Result<Self> {
        let Some(url) = database else { return Ok(Self::Sqlite(dir.to_owned())) };
        let id = Random::system().hex(ID_BYTES);
        let databases = TemporaryDatabases::connect(url, &id).await;
        let databases = databases.context("the server of --database can't be used")?;
        databases.create(TEMPLATE, None).await.context("a database for the tests can't be created")?;
        Ok(Self::Postgres(databases))
    }

    /// The URL of the database that is copied.
    pub(super) fn template(&self) -> String {
        self.url(TEMPLATE)
    }

    /// Copies it for a case, and returns the URL of the copy.
    ///
    /// # Errors
    /// When it can't be copied.
    pub(super) async fn copy(&self, number: usize) -> anyhow::Result<String> {
        let copy = name(number);
        match self {
            Self::Sqlite(dir) => {
                std::fs::copy(file(dir, TEMPLATE), file(dir, &copy))?;
                let own_tables = file(dir, TEMPLATE).with_extension(OWN_TABLES);
                if own_tables.exists() {
                    std::fs::copy(own_tables, file(dir, &copy).with_extension(OWN_TABLES))?;
                }
            }
            Self::Postgres(databases) => databases.create(&copy, Some(TEMPLATE)).await?,
        }
        Ok(self.url(&copy))
    }

    /// Removes the copy for a case, which is closed.
    pub(super) async fn remove(&self, number: usize) {
        match self {
            Self::Sqlite(dir) => {
                let path = file(dir, &name(number));
                for path in [path.with_extension("db.lock"), path.with_extension(OWN_TABLES), path] {
                    // The folder is removed at the end in any case.
                    let _ = std::fs::remove_file(path);
                }
            }
            Self::Postgres(databases) => drop_from(databases, &name(number)).await,
        }
    }

    /// Removes the database that is copied.
    pub(super) async fn finish(&self) {
        if let Self::Postgres(databases) = self {
            drop_from(databases, TEMPLATE).await;
        }
    }

    fn url(&self, name: &str) -> String {
        match self {
            Self::Sqlite(dir) => format!("sqlite://{}", file(dir, name).display()),
            Self::Postgres(databases) => databases.url(name),
        }
    }
}

async fn drop_from(databases: &TemporaryDatabases, name: &str) {
    if let Err(error) = databases.drop(name).await {
        tracing::warn!(%error, database = databases.full_name(name), "a database of a test was not dropped");
    }
}

fn name(number: usize) -> String {
    format!("case{number}")
}

fn file(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.db"))
}
