//! An empty database for one server.

use tempfile::TempDir;

pub struct Database {
    pub url: String,
    /// The folder of a SQLite file; `None` on PostgreSQL. Removed after the test, like a PostgreSQL database.
    directory: Option<TempDir>,
}

impl Database {
    pub fn sqlite() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory is created");
        Self { url: format!("sqlite://{}/test.db", directory.path().display()), directory: Some(directory) }
    }

    pub async fn postgres() -> Self {
        Self { url: belvedere_standins::postgres::create_database().await, directory: None }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if self.directory.is_none() {
            belvedere_standins::postgres::drop_database(&self.url);
        }
    }
}
