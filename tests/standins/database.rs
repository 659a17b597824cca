//! A database for a test, on either backend.
//!
//! It has no rows. A test run that has made templates (`tests/support/postgres.sh`) saves each test the migrations: the
//! database is a copy, and to migrate it only finds that nothing is left to do.

use std::ffi::OsString;

use tempfile::TempDir;

use crate::postgres;

/// Dropping it removes the database.
#[derive(Debug)]
pub struct Database {
    pub url: String,
    _directory: Option<TempDir>,
}

impl Database {
    pub fn sqlite() -> Self {
        let (url, directory) = sqlite_url();
        Self { url, _directory: Some(directory) }
    }

    pub async fn postgres() -> Self {
        Self { url: postgres::create_database().await, _directory: None }
    }

    /// A SQLite file that doesn't exist yet.
    pub fn new_sqlite() -> Self {
        let (url, directory) = new_sqlite_url();
        Self { url, _directory: Some(directory) }
    }

    /// A database without tables.
    pub async fn new_postgres() -> Self {
        Self { url: postgres::create_new_database().await, _directory: None }
    }
}

/// The URL of a SQLite database, and the directory that it is in.
pub fn sqlite_url() -> (String, TempDir) {
    let (url, directory) = new_sqlite_url();
    if let Some(template) = given("BELVEDERE_TEST_SQLITE_TEMPLATE") {
        std::fs::copy(template, directory.path().join(SQLITE_FILE)).expect("the template is copied");
    }
    (url, directory)
}

/// The URL of a SQLite file that doesn't exist yet, and the directory that it will be in.
pub fn new_sqlite_url() -> (String, TempDir) {
    let directory = tempfile::tempdir().expect("a temporary directory is created");
    (format!("sqlite://{}/{SQLITE_FILE}", directory.path().display()), directory)
}

const SQLITE_FILE: &str = "test.db";

/// The value of a variable of the test run; `None` if it is empty.
#[expect(clippy::disallowed_methods, reason = "tests have no configuration")]
pub(crate) fn given(variable: &str) -> Option<OsString> {
    std::env::var_os(variable).filter(|value| !value.is_empty())
}

impl Drop for Database {
    fn drop(&mut self) {
        if self.url.starts_with("postgres") {
            postgres::drop_database(&self.url);
        }
    }
}
