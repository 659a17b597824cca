//! Creates an empty, migrated database per test, on either backend.

use std::ops::Deref;

use belvedere::testing::store::Db;
use tempfile::TempDir;

/// Dereferences to the [`Db`]. Dropping it removes the database.
pub struct TestDb {
    db: Db,
    pub url: String,
    _directory: Option<TempDir>,
}

impl Deref for TestDb {
    type Target = Db;

    fn deref(&self) -> &Db {
        &self.db
    }
}

impl Drop for TestDb {
    fn drop(&mut self) {
        if self.url.starts_with("postgres") {
            belvedere_standins::postgres::drop_database(&self.url);
        }
    }
}

/// The URL of a SQLite file that doesn't exist yet, and the directory that it will be in.
pub fn sqlite_url() -> (String, TempDir) {
    let directory = tempfile::tempdir().expect("a temporary directory is created");
    (format!("sqlite://{}/test.db", directory.path().display()), directory)
}

pub async fn sqlite() -> TestDb {
    let (url, directory) = sqlite_url();
    open(url, Some(directory)).await
}

pub async fn postgres() -> TestDb {
    open(belvedere_standins::postgres::create_database().await, None).await
}

async fn open(url: String, directory: Option<TempDir>) -> TestDb {
    let db = Db::open(&url, 4).await.expect("the database opens");
    db.migrate().await.expect("the migrations apply");
    TestDb { db, url, _directory: directory }
}

/// Turns each test function into two tests: `name::sqlite` and `name::postgres`.
#[macro_export]
macro_rules! on_both {
    ($($(#[$meta:meta])* async fn $name:ident($db:ident) $body:block)*) => {
        $(mod $name {
            use super::*;

            $(#[$meta])*
            async fn run($db: $crate::support::db::TestDb) $body

            #[tokio::test]
            async fn sqlite() {
                run($crate::support::db::sqlite().await).await;
            }

            #[tokio::test]
            async fn postgres() {
                run($crate::support::db::postgres().await).await;
            }
        })*
    };
}
