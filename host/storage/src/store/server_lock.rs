//! Keeps a second server from using the same SQLite file: both would follow the stream and write the index.
//!
//! The server locks a file beside the database. The operating system releases the lock when the process ends, also
//! after SIGKILL. Other commands take no lock: they may run beside the server.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::{Db, StoreError};
use belvedere_base::files;

/// Held by the server while it uses its database.
#[derive(Debug)]
pub struct ServerLock {
    _file: Option<File>,
}

/// The reason why a server may not use a database.
#[derive(Debug, thiserror::Error)]
pub enum ServerLockError {
    #[error(
        "another server{process} uses the database {database}, and a SQLite database has one server. Stop it, or give this one \
         another DATA_DIR or DATABASE_URL"
    )]
    Taken { database: String, process: String },
    #[error("{path} can't be locked: {error}")]
    Io { path: PathBuf, error: io::Error },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ServerLock {
    /// Locks a database for this server. PostgreSQL has any number of servers, which share their work.
    ///
    /// # Errors
    /// [`ServerLockError::Taken`] while another server has it.
    pub fn take(url: &str) -> Result<Self, ServerLockError> {
        let Some(database) = Db::file(url)? else { return Ok(Self { _file: None }) };
        let database =
            resolved(&database).map_err(|error| ServerLockError::Io { path: database.clone(), error })?;
        let mut path = OsString::from(&database);
        path.push(".lock");
        let path = PathBuf::from(path);
        let failed = |error| ServerLockError::Io { path: path.clone(), error };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // The number only helps the operator.
                let _ = file.read_to_string(&mut holder);
                let holder = holder.trim();
                let process = if holder.is_empty() { String::new() } else { format!(" (process {holder})") };
                return Err(ServerLockError::Taken { database: database.display().to_string(), process });
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(failed)?;
        Ok(Self { _file: Some(file) })
    }
}

/// The path of a file without symbolic links, so that each of its names leads to the same lock. Creates the folder of a
/// file that does not exist yet.
fn resolved(file: &Path) -> io::Result<PathBuf> {
    let (Some(folder), Some(name)) = (file.parent(), file.file_name()) else { return Ok(file.to_owned()) };
    files::create_private_folder(folder)?;
    std::fs::canonicalize(file).or_else(|_| Ok(std::fs::canonicalize(folder)?.join(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sqlite_file_has_one_server_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}/data/test.db", folder.path().display());
        let lock = ServerLock::take(&url).unwrap();
        let error = ServerLock::take(&url).unwrap_err().to_string();
        let holder = format!("(process {})", std::process::id());
        assert!(error.contains(&holder) && error.contains("/data/test.db"), "{error}");
        std::os::unix::fs::symlink(folder.path().join("data"), folder.path().join("link")).unwrap();
        let other_name = format!("sqlite://{}/link/test.db", folder.path().display());
        ServerLock::take(&other_name).unwrap_err();
        drop(lock);
        ServerLock::take(&url).unwrap();
        let both = "postgres://db/x";
        let _locks = (ServerLock::take(both).unwrap(), ServerLock::take(both).unwrap());
    }
}
