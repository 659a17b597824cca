//! An empty database for one server.

use tempfile::TempDir;

pub struct Database {
    pub url: String,
    /// Goes when the test is over.
    _directory: Option<TempDir>,
}

impl Database {
    pub fn sqlite() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory is made");
        Self { url: format!("sqlite://{}/test.db", directory.path().display()), _directory: Some(directory) }
    }

    pub async fn postgres() -> Self {
        Self { url: crate::postgres::create_database().await, _directory: None }
    }
}
