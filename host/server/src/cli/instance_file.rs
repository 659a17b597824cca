//! `DATA_DIR/instance.json`: what the last server that started with this data folder runs on, for operators and for
//! commands that are started beside it.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::app::App;
use belvedere_base::files;
use belvedere_instance::config::{Config, Database};
use belvedere_storage::store::{Db, StoreError};

const NAME: &str = "instance.json";

/// The content of the file. It has no secrets.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct InstanceFile {
    pub(super) version: String,
    pub(super) pid: u32,
    /// RFC 3339.
    pub(super) started_at: String,
    pub(super) public_url: String,
    pub(super) did: String,
    pub(super) database: DatabaseLocation,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct DatabaseLocation {
    /// `sqlite` or `postgres`.
    pub(super) kind: String,
    /// The database's URL, with the absolute path of a SQLite file, without a password.
    pub(super) url: String,
    /// Whether the URL is without the password that it was configured with.
    pub(super) lacks_password: bool,
}

impl DatabaseLocation {
    /// # Errors
    /// When the URL is malformed.
    pub(super) fn of(database: &Database) -> Result<Self, StoreError> {
        let kind = if database.is_postgres() { "postgres" } else { "sqlite" }.to_owned();
        let (url, lacks_password) = match Db::file(&database.url)? {
            Some(file) => (sqlite_url(&file, &database.url), false),
            None => database.url_without_password(),
        };
        Ok(Self { kind, url, lacks_password })
    }
}

/// The URL of a SQLite file, with the options of the URL that it was configured with.
fn sqlite_url(file: &Path, configured: &str) -> String {
    // The characters with a meaning in these URLs.
    let path = file.display().to_string().replace('%', "%25").replace('?', "%3F");
    let options = configured.split_once('?').map_or_else(String::new, |(_, options)| format!("?{options}"));
    format!("sqlite://{path}{options}")
}

impl InstanceFile {
    /// Writes the file for a server that runs. A failure is no reason not to serve: it is logged.
    pub(super) fn write(app: &App) {
        let path = Self::path(&app.config);
        let written = || -> anyhow::Result<()> {
            let instance = Self {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                pid: std::process::id(),
                started_at: app.clock.now().to_string(),
                public_url: app.identity.origin.clone(),
                did: app.identity.did.to_string(),
                database: DatabaseLocation::of(&app.config.database)?,
            };
            let folder = &app.config.server.data_dir;
            files::create_private_folder(folder)?;
            Ok(files::replace(&path, serde_json::to_string_pretty(&instance)?.as_bytes())?)
        };
        if let Err(error) = written() {
            tracing::info!(path = %path.display(), %error, "the file that describes this server can't be written");
        }
    }

    /// `None` when there is none, or it is not readable by this user or this version.
    pub(super) fn read(config: &Config) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(Self::path(config)).ok()?).ok()
    }

    /// The absolute path.
    pub(super) fn path(config: &Config) -> PathBuf {
        let path = config.server.data_dir.join(NAME);
        std::path::absolute(&path).unwrap_or(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location(url: &str) -> DatabaseLocation {
        let mut args = belvedere_instance::config::Args::default();
        args.database.url = Some(url.to_owned());
        DatabaseLocation::of(&args.check().unwrap().database).unwrap()
    }

    #[test]
    fn locations_are_absolute_and_without_passwords() {
        let here = std::env::current_dir().unwrap();
        let sqlite = location("sqlite://some data/a%25b.db?cache=private");
        assert_eq!(sqlite.url, format!("sqlite://{}/some data/a%25b.db?cache=private", here.display()));
        assert_eq!(location(&sqlite.url), sqlite);
        let postgres = location("postgres://me:hunter2@db/x");
        assert_eq!((postgres.url.as_str(), postgres.lacks_password), ("postgres://me@db/x", true));
        assert!(!location("postgres://me@db/x").lacks_password);
        let option = location("postgres://db/x?user=me&password=hunter2&sslmode=disable");
        assert_eq!(option.url, "postgres://db/x?user=me&sslmode=disable");
        assert!(option.lacks_password);
    }
}
