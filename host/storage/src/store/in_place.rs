//! Reads quick statements from SQLite on the caller's own thread (ADR 171).
//!
//! A connection of sqlx has a thread: a read of ten microseconds wakes it, and then its caller, which costs the kernel more than the
//! read. Here the caller takes a connection that is free and runs the statement itself. Nothing is waited for: without a free
//! connection, and for a statement that is not quick or fails, the caller reads on the connections of sqlx, which report errors.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::types::ToSqlOutput;
use rusqlite::{Connection, ErrorCode, OpenFlags, ToSql};

use super::resources::STATEMENT_CACHE;
use super::select::Value;

/// Steps of SQLite's virtual machine between two checks.
const STEPS_PER_CHECK: i32 = 1_000;

/// Checks after which a statement is given up: some half a millisecond. Steps don't pass while another thread has the processor.
const MAX_CHECKS: u32 = 20;

/// A read that takes longer has waited for the disk, or for the processor.
const SLOW: Duration = Duration::from_millis(2);

/// Slow reads in a row on one connection after which the disk is to blame: then none is read here for a [`PAUSE`], because a
/// thread that waits for the disk serves no other request.
const MAX_SLOW: u32 = 3;

const PAUSE: Duration = Duration::from_millis(100);

/// Connections that are used without waiting, as many as there are processors.
pub(super) struct InPlace {
    file: PathBuf,
    /// For `PRAGMA cache_size`.
    cache_size: String,
    slots: Box<[Mutex<Slot>]>,
    epoch: Instant,
    /// Microseconds after `epoch`.
    paused_until: AtomicU64,
}

/// A statement was not run to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotRead;

enum Slot {
    /// No connection yet, or none since an error.
    Empty,
    Open(Box<Reader>),
    Closed,
}

struct Reader {
    connection: Connection,
    /// Checks that the running statement has left.
    checks: Arc<AtomicU32>,
    slow_in_a_row: u32,
}

impl InPlace {
    /// Opens no connection yet.
    pub(super) fn new(file: &Path, cache_size: String, connections: usize) -> Self {
        let slots = std::iter::repeat_with(|| Mutex::new(Slot::Empty)).take(connections.max(1)).collect();
        let (file, epoch) = (file.to_owned(), Instant::now());
        Self { file, cache_size, slots, epoch, paused_until: AtomicU64::new(0) }
    }

    /// The first column of the first row of a statement, whose parameters are `$1`, `$2` and so on. `None`: it is NULL, or there is
    /// no row.
    pub(super) fn text(&self, sql: &str, values: &[Value]) -> Result<Option<String>, NotRead> {
        let started = Instant::now();
        let now = started.duration_since(self.epoch).as_micros() as u64;
        if now < self.paused_until.load(Ordering::Relaxed) {
            return Err(NotRead);
        }
        for place in &self.slots {
            let mut slot = match place.try_lock() {
                Ok(slot) => slot,
                // A thread that panicked may have left a statement open.
                Err(TryLockError::Poisoned(poisoned)) => {
                    place.clear_poison();
                    let mut slot = poisoned.into_inner();
                    *slot = Slot::Empty;
                    slot
                }
                Err(TryLockError::WouldBlock) => continue,
            };
            let read = self.open(&mut slot)?.text(sql, values);
            if let Err(error) = &read {
                tracing::debug!(%error, "a read is repeated on another connection");
            }
            // A caller whose statements fail must not cost others the cache of the connection.
            if read.as_ref().is_err_and(is_of_connection) {
                *slot = Slot::Empty;
            }
            self.note(&mut slot, started.elapsed());
            return read.map_err(|_| NotRead);
        }
        Err(NotRead)
    }

    /// Closes the connections. Those in use are closed at the end of their statement.
    pub(super) fn close(&self) {
        for slot in &self.slots {
            *slot.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Slot::Closed;
        }
    }

    fn open<'a>(&self, slot: &'a mut Slot) -> Result<&'a mut Reader, NotRead> {
        if matches!(slot, Slot::Empty) {
            match Reader::open(&self.file, &self.cache_size) {
                Ok(reader) => *slot = Slot::Open(Box::new(reader)),
                Err(error) => {
                    tracing::debug!(%error, "no connection for reads on the caller's thread");
                    self.pause();
                }
            }
        }
        match slot {
            Slot::Open(reader) => Ok(reader),
            Slot::Empty | Slot::Closed => Err(NotRead),
        }
    }

    fn note(&self, slot: &mut Slot, took: Duration) {
        let Slot::Open(reader) = slot else { return };
        reader.slow_in_a_row = if took > SLOW { reader.slow_in_a_row + 1 } else { 0 };
        if reader.slow_in_a_row >= MAX_SLOW {
            reader.slow_in_a_row = 0;
            self.pause();
        }
    }

    fn pause(&self) {
        let until = self.epoch.elapsed() + PAUSE;
        self.paused_until.store(until.as_micros() as u64, Ordering::Relaxed);
    }
}

impl Reader {
    fn open(file: &Path, cache_size: &str) -> rusqlite::Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(file, flags)?;
        connection.busy_timeout(Duration::ZERO)?;
        connection.pragma_update(None, "cache_size", cache_size)?;
        connection.pragma_update(None, "temp_store", "memory")?;
        connection.pragma_update(None, "query_only", "on")?;
        // The same holds for sqlx's connections (`read_pool`).
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        connection.set_prepared_statement_cache_capacity(STATEMENT_CACHE);
        let checks = Arc::new(AtomicU32::new(MAX_CHECKS));
        let left = Arc::clone(&checks);
        let is_over = move || left.fetch_sub(1, Ordering::Relaxed) <= 1;
        connection.progress_handler(STEPS_PER_CHECK, Some(is_over))?;
        Ok(Self { connection, checks, slow_in_a_row: 0 })
    }

    fn text(&mut self, sql: &str, values: &[Value]) -> rusqlite::Result<Option<String>> {
        self.checks.store(MAX_CHECKS, Ordering::Relaxed);
        let mut statement = self.connection.prepare_cached(sql)?;
        for at in 1..=statement.parameter_count() {
            // SQLite numbers `$2` by where it occurs first.
            let number = statement.parameter_name(at).and_then(|name| name.get(1..)?.parse::<usize>().ok());
            let value = number.and_then(|number| values.get(number.checked_sub(1)?));
            statement.raw_bind_parameter(at, value)?;
        }
        let mut rows = statement.raw_query();
        rows.next()?.map(|row| row.get::<_, Option<String>>(0)).transpose().map(Option::flatten)
    }
}

/// Whether an error may be the connection's, not that of the statement or its time.
fn is_of_connection(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    // `Unknown` is SQLITE_ERROR: what is wrong with a statement.
    !matches!(code, None | Some(ErrorCode::Unknown | ErrorCode::TooBig | ErrorCode::OperationInterrupted))
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            Self::Text(text) => text.to_sql(),
            Self::Integer(n) => n.to_sql(),
            Self::Float(n) => n.to_sql(),
            Self::Boolean(b) => b.to_sql(),
        }
    }
}

impl std::fmt::Debug for InPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InPlace").field("connections", &self.slots.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_a_file(connections: usize) -> (tempfile::TempDir, InPlace) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("test.db");
        Connection::open(&file).unwrap().execute_batch("CREATE TABLE t (a TEXT)").unwrap();
        (folder, InPlace::new(&file, "-512".into(), connections))
    }

    #[test]
    fn a_statement_gets_its_values_by_the_numbers_of_its_parameters() {
        let (_folder, reads) = on_a_file(1);
        let values = [Value::Text("a".into()), Value::Integer(2), Value::Boolean(true)];
        let read = |sql| reads.text(sql, &values);
        assert_eq!(read("SELECT $2 || $1 || $3"), Ok(Some("2a1".into())));
        assert_eq!(read("SELECT NULL"), Ok(None));
        assert_eq!(read("SELECT a FROM t"), Ok(None), "no row");
        assert_eq!(read("SELECT $4"), Ok(None), "no value");
    }

    #[test]
    fn what_is_long_or_fails_is_left_to_others() {
        let (_folder, reads) = on_a_file(1);
        let count = |to: u32| {
            let sql = format!(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {to}) \
                               SELECT 'to ' || max(i) FROM n"
            );
            reads.text(&sql, &[])
        };
        assert_eq!(count(10_000_000), Err(NotRead));
        assert_eq!(count(100), Ok(Some("to 100".into())), "each statement has all its steps");
        let is_open = || matches!(*reads.slots[0].lock().unwrap(), Slot::Open(_));
        assert_eq!(reads.text("SELECT nonsense", &[]), Err(NotRead));
        assert_eq!(reads.text("SELECT json('nonsense')", &[]), Err(NotRead));
        assert!(is_open(), "others keep its cache");
        assert_eq!(reads.text("DELETE FROM t RETURNING a", &[]), Err(NotRead), "nothing is written");
        assert_eq!(count(100), Ok(Some("to 100".into())));
    }

    #[test]
    fn a_connection_in_use_is_not_waited_for() {
        let (_folder, reads) = on_a_file(2);
        let read = || reads.text("SELECT 'x'", &[]);
        let first = reads.slots[0].lock().unwrap();
        assert!(read().is_ok());
        let second = reads.slots[1].lock().unwrap();
        assert_eq!(read(), Err(NotRead));
        drop((first, second));
        assert!(read().is_ok());
        reads.close();
        assert_eq!(read(), Err(NotRead));
    }

    #[test]
    fn slow_reads_in_a_row_are_followed_by_a_pause() {
        let (_folder, reads) = on_a_file(1);
        let read = || reads.text("SELECT 'x'", &[]).is_ok();
        let note = |took| reads.note(&mut reads.slots[0].lock().unwrap(), took);
        assert!(read());
        let slow = SLOW * 2;
        for took in [slow, slow, Duration::ZERO, slow, slow] {
            note(took);
        }
        assert!(read());
        for _ in 0..MAX_SLOW {
            note(slow);
        }
        assert!(!read());
        reads.paused_until.store(0, Ordering::Relaxed);
        assert!(read());
    }
}
