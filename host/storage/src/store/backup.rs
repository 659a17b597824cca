//! Copies a SQLite database into a file while a server uses it.
//!
//! `VACUUM INTO` reads in one transaction, so the copy is the database at one moment. In WAL mode a reader does not
//! block the writer; the WAL grows as long as the copy takes. The copy is written beside its final name, checked, made
//! durable and renamed: a file with that name is always a whole backup.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection};

use super::script_sql::sqlite::own_file;
use super::script_sql::statement_limits;
use super::{Db, MIGRATIONS_TABLE, StoreError};
use belvedere_base::files;

/// Time between two reports of the progress.
const REPORT_INTERVAL: Duration = Duration::from_millis(250);

/// Time that a statement waits while another process recovers or checkpoints the WAL.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// A file of a backup that was completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupFile {
    pub path: PathBuf,
    pub bytes: u64,
}

/// The reason why a backup was not made.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("PostgreSQL has its own tools for backups")]
    Postgres,
    #[error("{0} exists already; name a new file")]
    Exists(PathBuf),
    #[error("{0} is not the database of an instance; check DATABASE_URL and DATA_DIR")]
    NotAnInstance(PathBuf),
    #[error("another backup writes {0}; wait until it is done")]
    Running(PathBuf),
    #[error("the path {0} is not UTF-8")]
    Path(PathBuf),
    #[error("the copy is damaged ({0}): check the disk, and the database with PRAGMA integrity_check")]
    Damaged(String),
    #[error("{path}: {error}")]
    Io { path: PathBuf, error: io::Error },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<sqlx::Error> for BackupError {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

/// Copies the database of `url` to the file `to`, and the scripts' own tables, if there are any, to the file that a
/// server expects beside it. `report` gets the bytes that are written and those that are expected.
///
/// # Errors
/// When one of the files exists, or the database can't be read or the copy not be written. Nothing is left then.
pub async fn run(
    url: &str,
    to: &Path,
    mut report: impl FnMut(u64, u64),
) -> Result<Vec<BackupFile>, BackupError> {
    let database = Db::file(url)?.ok_or(BackupError::Postgres)?;
    let to = std::path::absolute(to).map_err(|error| BackupError::Io { path: to.to_owned(), error })?;
    let pairs = [(own_file(&database), own_file(&to)), (database.clone(), to.clone())];
    for (_, copy) in &pairs {
        if copy.try_exists().map_err(|error| BackupError::Io { path: copy.clone(), error })? {
            return Err(BackupError::Exists(copy.clone()));
        }
    }
    if !is_instance(&database).await? {
        return Err(BackupError::NotAnInstance(database));
    }
    let mut copied: Vec<BackupFile> = Vec::new();
    for (from, copy) in pairs {
        // Before the first statement of a script there is no file of its tables.
        if !from.exists() {
            continue;
        }
        match copy_file(&from, &copy, &mut report).await {
            Ok(file) => copied.push(file),
            Err(error) => {
                for file in copied {
                    let _ = std::fs::remove_file(file.path);
                }
                return Err(error);
            }
        }
    }
    copied.reverse();
    Ok(copied)
}

async fn open(path: &Path) -> Result<SqliteConnection, BackupError> {
    // Before any connection of this process.
    statement_limits::install();
    let options = SqliteConnectOptions::new().filename(path).busy_timeout(BUSY_TIMEOUT);
    Ok(options.disable_statement_logging().connect().await?)
}

async fn is_instance(path: &Path) -> Result<bool, BackupError> {
    let mut connection = open(path).await?;
    let sql = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = $1)";
    let found = sqlx::query_scalar(sql).bind(MIGRATIONS_TABLE).fetch_one(&mut connection).await?;
    connection.close().await?;
    Ok(found)
}

async fn copy_file(
    from: &Path,
    to: &Path,
    report: &mut impl FnMut(u64, u64),
) -> Result<BackupFile, BackupError> {
    let failed = |error| BackupError::Io { path: to.to_owned(), error };
    let partial = to.with_added_extension("partial");
    let _lock = claim(&partial)?;
    // An interrupted backup leaves its journal too, and SQLite would apply that to the new file.
    remove_journal(&partial).map_err(failed)?;
    let copied = vacuum(from, &partial, report).await;
    let result = match copied {
        Ok(()) => files::publish(&partial, to).map_err(failed),
        Err(error) => Err(error),
    };
    if let Err(error) = result {
        let _ = std::fs::remove_file(&partial);
        let _ = remove_journal(&partial);
        return Err(error);
    }
    let bytes = std::fs::metadata(to).map_err(failed)?.len();
    Ok(BackupFile { path: to.to_owned(), bytes })
}

/// Removes SQLite's rollback journal of a file, if there is one.
fn remove_journal(of: &Path) -> io::Result<()> {
    let mut name = of.as_os_str().to_owned();
    name.push("-journal");
    match std::fs::remove_file(name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Locks the file for this backup, and empties it: an interrupted one may have left it behind. SQLite takes an empty
/// file, and keeps its permissions.
fn claim(partial: &Path) -> Result<File, BackupError> {
    let failed = |error| BackupError::Io { path: partial.to_owned(), error };
    let running = || BackupError::Running(partial.to_owned());
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(partial)
        .map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(running()),
        Err(TryLockError::Error(error)) => return Err(failed(error)),
    }
    // The other backup may have been completed since the file was opened: it has its final name then.
    let of_file = file.metadata().map(|file| file.ino()).map_err(failed)?;
    if !std::fs::metadata(partial).is_ok_and(|named| named.ino() == of_file) {
        return Err(running());
    }
    file.set_len(0).map_err(failed)?;
    Ok(file)
}

async fn vacuum(from: &Path, partial: &Path, report: &mut impl FnMut(u64, u64)) -> Result<(), BackupError> {
    let name = partial.to_str().ok_or_else(|| BackupError::Path(partial.to_owned()))?;
    let mut connection = open(from).await?;
    let sql = "SELECT (page_count - freelist_count) * page_size \
               FROM pragma_page_count, pragma_freelist_count, pragma_page_size";
    let total: i64 = sqlx::query_scalar(sql).fetch_one(&mut connection).await?;
    let total = u64::try_from(total).unwrap_or_default();
    {
        let copy = sqlx::query("VACUUM INTO $1").bind(name).execute(&mut connection);
        tokio::pin!(copy);
        loop {
            if let Ok(done) = tokio::time::timeout(REPORT_INTERVAL, &mut copy).await {
                done?;
                break;
            }
            let written = std::fs::metadata(partial).map_or(0, |file| file.len());
            report(written.min(total), total);
        }
    }
    connection.close().await?;
    let mut copy = open(partial).await?;
    let check: String = sqlx::query_scalar("PRAGMA quick_check(1)").fetch_one(&mut copy).await?;
    copy.close().await?;
    if check != "ok" {
        return Err(BackupError::Damaged(check));
    }
    report(total, total);
    Ok(())
}
