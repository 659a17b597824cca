//! Opens a SQLite file and owns its connections, one writer and several readers: the SQLite variant of [`super::Db`].

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, Row as _, SqliteConnection, SqlitePool};

use super::StoreError;
use super::fields::FieldUsage;
use super::health::FileId;
use super::in_place::InPlace;
use super::intern::Interner;
use super::partitions::Partition;
use super::read_pool::ReadPool;
use super::reads::{self, Reads};
use super::resources::{Resources, STATEMENT_CACHE};
use super::scans::{self, SCAN_TIME_LIMIT};
use super::script_sql;
use super::select::{Sql, bound};
use belvedere_base::files;
use belvedere_web::fair_share::FairPool;

/// Another process (`belvedere admin`, a backup) may hold the write lock for a moment.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// A request that waits longer than this for a connection fails with [`StoreError::Unavailable`].
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);
/// The WAL is truncated to this size after a checkpoint, so that one burst doesn't occupy the disk for ever.
const JOURNAL_SIZE_LIMIT: &str = "67108864";
/// WAL pages between checkpoints: 16 MiB amortises a checkpoint well over the writer's batches.
const WAL_AUTOCHECKPOINT: &str = "4000";

/// One file, one writer connection, several readers.
#[derive(Clone, Debug)]
pub struct Sqlite {
    pub reader: SqlitePool,
    /// A pool of one connection: SQLite has one writer, and waiting for it here is fair and needs no busy loop.
    pub writer: SqlitePool,
    /// Connections for quick reads, which are tried there first.
    pub(super) in_place: Arc<InPlace>,
    /// Connections for hot reads.
    pub(super) read_pool: Arc<ReadPool<SqliteConnection>>,
    pub(super) reads: FairPool,
    /// Connections for reads that hold a permit in `scans`.
    pub(super) scan_pool: Arc<ReadPool<SqliteConnection>>,
    pub(super) scans: FairPool,
    /// Connections for scripts' own SQL.
    pub(super) script_sql: Arc<script_sql::Connections<SqliteConnection>>,
    pub(super) script_costs: Arc<script_sql::Costs>,
    /// The file that was opened, to detect when another file replaces it.
    pub(super) file: FileId,
    pub(super) connections: u32,
    pub(super) ids: Arc<Interner>,
    pub(super) fields: Arc<FieldUsage>,
}

/// Connections for reads that are not hot, such as the admin API's.
const POOLED_READERS: u32 = 4;

impl Sqlite {
    /// The path in a SQLite URL.
    pub(super) fn file(url: &str) -> Result<PathBuf, StoreError> {
        let options = SqliteConnectOptions::from_str(url).map_err(|e| StoreError::Open(e.to_string()))?;
        Ok(options.get_filename().to_owned())
    }

    pub(super) async fn open(url: &str, resources: Resources) -> Result<Self, StoreError> {
        let readers = resources.connections;
        let options = SqliteConnectOptions::from_str(url).map_err(|e| StoreError::Open(e.to_string()))?;
        if !script_sql::statement_limits::install() {
            return Err(StoreError::Open(
                "SQLite was initialised before its memory accounting could be installed".into(),
            ));
        }
        if url.contains(":memory:") || url.contains("mode=memory") {
            return Err(StoreError::Open("SQLite in memory is not supported: give a file".into()));
        }
        if let Some(directory) = options.get_filename().parent().filter(|d| *d != Path::new("")) {
            files::create_private_folder(directory)
                .map_err(|e| StoreError::Open(format!("{}: {e}", directory.display())))?;
        }
        let options = options
            .create_if_missing(true)
            .disable_statement_logging()
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Normal)
            .busy_timeout(BUSY_TIMEOUT)
            .foreign_keys(true)
            .statement_cache_capacity(STATEMENT_CACHE)
            .pragma("journal_size_limit", JOURNAL_SIZE_LIMIT)
            .pragma("wal_autocheckpoint", WAL_AUTOCHECKPOINT)
            .pragma("temp_store", "memory");

        let path = options.get_filename();
        refuse_part_of_page(path, SMALLEST_PAGE)?;
        // The writer is opened first: it creates the file and switches to WAL mode.
        let writer = pool(1)
            .connect_with(
                options
                    .clone()
                    .pragma("cache_size", resources.writer_cache())
                    .thread_name(|_| "sqlite-writer".into()),
            )
            .await
            .map_err(|error| damaged(path, error))?;
        let page: i64 = sqlx::query_scalar("PRAGMA page_size").fetch_one(&writer).await?;
        refuse_part_of_page(path, u64::try_from(page).unwrap_or(SMALLEST_PAGE))?;
        let file = FileId::of(options.get_filename())
            .map_err(|e| StoreError::Open(format!("{}: {e}", options.get_filename().display())))?;
        let script_sql = Arc::new(script_sql::Connections::beside(&options)?);
        let pooled = readers.min(POOLED_READERS);
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let cache = resources.reader_cache(readers + pooled + u32::try_from(cores).unwrap_or(u32::MAX));
        let in_place = Arc::new(InPlace::new(options.get_filename(), cache.clone(), cores));
        let options = options
            .pragma("cache_size", cache)
            .pragma("query_only", "on")
            .thread_name(|n| format!("sqlite-read-{n}"));
        let reader = pool(pooled).connect_with(options.clone()).await?;
        let max_scans = scans::max_on_sqlite(readers);
        let scan_pool = Arc::new(ReadPool::new(options.clone(), max_scans).within(SCAN_TIME_LIMIT));
        let max_reads = readers.saturating_sub(max_scans).max(1);
        let read_pool = Arc::new(ReadPool::new(options, max_reads));
        Ok(Self {
            reader,
            writer,
            in_place,
            read_pool,
            reads: reads::pool("reads", max_reads, reads::per_tenant_on_sqlite(cores, max_reads)),
            scan_pool,
            scans: scans::pool("scans", max_scans),
            script_sql,
            script_costs: Arc::default(),
            file,
            connections: readers,
            ids: Arc::new(resources.interner(&[])),
            fields: Arc::default(),
        })
    }

    /// The connections for reads of records, which all partitions share.
    pub(super) fn pool_of(&self, _: Partition, reads: Reads) -> &ReadPool<SqliteConnection> {
        match reads {
            Reads::Hot => &self.read_pool,
            Reads::Scans | Reads::Searches => &self.scan_pool,
        }
    }

    /// Reads the one text of a statement, on the pool of scans or where it is quick.
    pub(super) async fn text(&self, sql: Sql, scans: bool) -> Result<Option<String>, StoreError> {
        if !scans && let Ok(text) = self.in_place.text(sql.text(), sql.values()) {
            return Ok(text);
        }
        let pool = self.pool_of(Partition::Whole, Reads::of_scan(scans));
        Ok(bound!(sql).fetch_one(pool.reads()).await?.try_get(0)?)
    }

    pub(super) async fn close(&self) {
        self.in_place.close();
        self.read_pool.close().await;
        self.scan_pool.close().await;
        self.script_sql.close().await;
        self.reader.close().await;
        // The last connection to close checkpoints the WAL and removes it.
        self.writer.close().await;
    }
}

/// Bytes. The size of every database is a multiple of it.
const SMALLEST_PAGE: u64 = 512;

/// Refuses a file whose last page is not whole: SQLite would read zeros for what is missing. It recognises a file that
/// lacks whole pages by itself. With a WAL the page may be in there: a full disk can interrupt a checkpoint.
fn refuse_part_of_page(path: &Path, page: u64) -> Result<(), StoreError> {
    // A file that does not exist yet is created.
    let length = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    if length(path).is_multiple_of(page) || length(Path::new(&wal)) > 0 {
        Ok(())
    } else {
        Err(damage(path, "its last page is not whole"))
    }
}

/// Says what to do about a file that SQLite does not accept: SQLITE_CORRUPT, SQLITE_NOTADB, SQLITE_IOERR_SHORT_READ.
fn damaged(path: &Path, error: sqlx::Error) -> StoreError {
    let is_damage =
        error.as_database_error().and_then(sqlx::error::DatabaseError::code).is_some_and(|code| {
            code.parse::<u32>().is_ok_and(|code| matches!(code & 0xff, 11 | 26) || code == 522)
        });
    if is_damage { damage(path, &error.to_string()) } else { error.into() }
}

fn damage(path: &Path, what: &str) -> StoreError {
    StoreError::Open(format!(
        "{} is damaged or truncated ({what}); restore a whole backup (docs/operations.md, Backup)",
        path.display()
    ))
}

fn pool(size: u32) -> SqlitePoolOptions {
    SqlitePoolOptions::new()
        .max_connections(size)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        // A slow acquisition ends well or with an error. sqlx's warning before that calls for no action.
        .acquire_slow_threshold(ACQUIRE_TIMEOUT)
        // A connection is a thread in this process: it neither expires nor breaks, and a ping costs as much as a read.
        .test_before_acquire(false)
        .idle_timeout(None)
        .max_lifetime(None)
        .after_release(|connection, _| Box::pin(has_no_transaction(connection)))
}

/// Whether a returned connection can be used again. On a full disk SQLite ends the transaction by itself; sqlx's
/// rollback then fails, and sqlx counts the transaction as open for ever, so that no other can begin.
async fn has_no_transaction(connection: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
    if !connection.is_in_transaction() {
        return Ok(true);
    }
    // The rollback of a dropped transaction is queued; the ping runs after it.
    connection.ping().await?;
    let ended = !connection.is_in_transaction();
    if !ended {
        tracing::warn!("a transaction could not be rolled back; its connection is closed");
        metrics::counter!("belvedere_sqlite_connections_closed_total").increment(1);
    }
    Ok(ended)
}
