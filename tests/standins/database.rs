//! An empty database for a test, on either backend.

use tempfile::TempDir;

use crate::postgres;

/// Dropping it removes the database.
#[derive(Debug)]
pub struct Database {
    pub url: String,
    _directory: Option<TempDir>,
}

impl Database {
    /// A SQLite file that doesn't exist yet.
    pub fn sqlite() -> Self {
        let (url, directory) = sqlite_url();
        Self { url, _directory: Some(directory) }
    }

    pub async fn postgres() -> Self {
        Self { url: postgres::create_database().await, _directory: None }
    }
}

/// The URL of a SQLite file that doesn't exist yet, and the directory that it will be in.
pub fn sqlite_url() -> (String, TempDir) {
    let directory = tempfile::tempdir().expect("a temporary directory is created");
    (format!("sqlite://{}/test.db", directory.path().display()), directory)
}

impl Drop for Database {
    fn drop(&mut self) {
        if self.url.starts_with("postgres") {
            postgres::drop_database(&self.url);
        }
    }
}
