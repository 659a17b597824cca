//! Opens an empty, migrated database per test, on either backend.

use std::ops::Deref;

use belvedere::testing::store::Db;
use belvedere_standins::database::Database;
use tempfile::TempDir;

/// Dereferences to the [`Db`]. Dropping it removes the database.
pub struct TestDb {
    db: Db,
    pub url: String,
    _database: Database,
}

impl Deref for TestDb {
    type Target = Db;

    fn deref(&self) -> &Db {
        &self.db
    }
}

impl TestDb {
    pub async fn sqlite() -> Self {
        Self::open(Database::sqlite()).await
    }

    pub async fn postgres() -> Self {
        Self::open(Database::postgres().await).await
    }

    async fn open(database: Database) -> Self {
        let db = Db::open(&database.url, 4).await.expect("the database opens");
        db.migrate().await.expect("the migrations apply");
        Self { db, url: database.url.clone(), _database: database }
    }
}

/// The URL of a SQLite file that doesn't exist yet, and the directory that it will be in.
pub fn sqlite_url() -> (String, TempDir) {
    let directory = tempfile::tempdir().expect("a temporary directory is created");
    (format!("sqlite://{}/test.db", directory.path().display()), directory)
}
