//! Opens an empty, migrated database per test, on either backend.

use std::ops::Deref;

use belvedere_standins::database::Database;

use crate::store::Db;

/// Dereferences to the [`Db`]. Dropping it removes the database.
pub(super) struct TestDb {
    db: Db,
    pub(super) url: String,
    _database: Database,
}

impl Deref for TestDb {
    type Target = Db;

    fn deref(&self) -> &Db {
        &self.db
    }
}

pub(super) async fn sqlite() -> TestDb {
    open(Database::sqlite()).await
}

pub(super) async fn postgres() -> TestDb {
    open(Database::postgres().await).await
}

async fn open(database: Database) -> TestDb {
    let db = Db::open(&database.url, 4).await.expect("the database opens");
    db.migrate().await.expect("the migrations apply");
    TestDb { db, url: database.url.clone(), _database: database }
}
