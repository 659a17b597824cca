//! Opens an empty, migrated database per test, on either backend.

use std::ops::Deref;

use belvedere_standins::database::Database;

use crate::store::Db;

/// Dereferences to the [`Db`]. Dropping it removes the database.
#[derive(Debug)]
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

pub async fn sqlite() -> TestDb {
    open(Database::sqlite()).await
}

pub async fn postgres() -> TestDb {
    open(Database::postgres().await).await
}

/// One of each backend.
pub async fn both() -> [TestDb; 2] {
    [sqlite().await, postgres().await]
}

async fn open(database: Database) -> TestDb {
    let db = Db::open(&database.url, 4).await.expect("the database opens");
    db.migrate().await.expect("the migrations apply");
    TestDb { db, url: database.url.clone(), _database: database }
}
