//! Connections for hot reads, without a pool's ceremony.
//!
//! sqlx's pool pings a connection whenever it comes back, in a task of its own: for a read of a few microseconds
//! that doubles the round trips and wakes another thread. Here a connection is taken and put back under a lock. One
//! that did not end well (an error, a caller that went away) is closed; one that rested for long is pinged first.
//!
//! Every read has a deadline: scripts ask questions here that nobody has seen before. PostgreSQL keeps it by itself
//! (`statement_timeout`, in the options that the lane is given); SQLite asks a [`Watch`] every few thousand steps.

use std::ffi::c_int;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use libsqlite3_sys::SQLITE_DBCONFIG_ENABLE_QPSG;
use sqlx::sqlite::LockedSqliteHandle;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, SqliteConnection};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::script_sql::room;

/// A read waits this long for a connection before it fails as "unavailable".
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection that rested longer is pinged before use: a PostgreSQL server may have restarted.
const PING_AFTER: Duration = Duration::from_secs(5);

/// The longest that one read may take: many times what a scan of a million records does. Whoever asked has given up by
/// then.
pub(super) const READ_TIME: Duration = Duration::from_secs(5);

/// Steps of SQLite's machine between two looks at the clock: some tens of microseconds.
const STEPS_PER_LOOK: i32 = 4_000;

/// Until when the statement that runs may run, in microseconds since the watch was made.
#[derive(Debug)]
pub(super) struct Watch {
    since: Instant,
    until: AtomicU64,
    /// How often the connection was taken.
    taken: AtomicU64,
}

impl Watch {
    fn new() -> Arc<Self> {
        Arc::new(Self { since: Instant::now(), until: AtomicU64::new(u64::MAX), taken: AtomicU64::new(0) })
    }

    fn allow(&self, time: Duration) {
        self.taken.fetch_add(1, Ordering::Relaxed);
        self.until.store((self.since.elapsed() + time).as_micros() as u64, Ordering::Relaxed);
    }

    /// What runs shall end at the next look.
    fn end(&self) {
        self.until.store(0, Ordering::Relaxed);
    }

    fn holds(&self) -> bool {
        self.since.elapsed().as_micros() as u64 <= self.until.load(Ordering::Relaxed)
    }
}

/// What a new connection begins with.
#[derive(Debug, Default)]
pub(super) struct Beginning {
    statements: Vec<String>,
    bounds: &'static [Bound],
    /// SQLite: whether each statement has bounds on its memory and temporary files (`script_sql::room`).
    is_bound: bool,
    /// PostgreSQL: a query for what is wrong with the connection, NULL if nothing is.
    proof: Option<String>,
}

/// What a connection's role may do that it should not.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Offence(String);

/// A bound that SQLite itself keeps to (`sqlite3_limit`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    /// `SQLITE_LIMIT_…`
    pub(super) what: i32,
    pub(super) most: i32,
}

#[expect(
    unsafe_code,
    reason = "sqlx has no name for these functions; the handle is locked and open while we hold it"
)]
fn keep_to(handle: &mut LockedSqliteHandle<'_>, bounds: &[Bound]) {
    let database = handle.as_raw_handle().as_ptr();
    for bound in bounds {
        // Returns the bound of before.
        unsafe { libsqlite3_sys::sqlite3_limit(database, bound.what, bound.most) };
    }
    // Plans are made without looking at the parameters. As soon as there is an index of a part of `records`, SQLite would
    // otherwise prepare every statement again for every parameter. Says no only to options that it does not know.
    let (on, no_answer) = (c_int::from(true), ptr::null_mut::<c_int>());
    unsafe { libsqlite3_sys::sqlite3_db_config(database, SQLITE_DBCONFIG_ENABLE_QPSG, on, no_answer) };
}

/// A connection that a lane can set up.
pub(super) trait Laned: Connection {
    /// After connecting, once.
    fn set_up<'a>(
        &'a mut self,
        beginning: &'a Beginning,
        watch: &'a Arc<Watch>,
    ) -> BoxFuture<'a, Result<(), sqlx::Error>>;
}

impl Laned for SqliteConnection {
    fn set_up<'a>(
        &'a mut self,
        beginning: &'a Beginning,
        watch: &'a Arc<Watch>,
    ) -> BoxFuture<'a, Result<(), sqlx::Error>> {
        Box::pin(async move {
            for statement in &beginning.statements {
                self.execute(AssertSqlSafe(statement.as_str())).await?;
            }
            let watch = Arc::clone(watch);
            let mut handle = self.lock_handle().await?;
            keep_to(&mut handle, beginning.bounds);
            if beginning.is_bound {
                if !room::add_short(handle.as_raw_handle().as_ptr()) {
                    return Err(sqlx::Error::Configuration("a function can't be added".into()));
                }
                let mut seen = 0;
                handle.set_progress_handler(room::STEPS_PER_LOOK, move || {
                    let taken = watch.taken.load(Ordering::Relaxed);
                    if std::mem::replace(&mut seen, taken) != taken {
                        room::begin();
                    }
                    watch.holds()
                });
            } else {
                handle.set_progress_handler(STEPS_PER_LOOK, move || watch.holds());
            }
            Ok(())
        })
    }
}

impl Laned for PgConnection {
    fn set_up<'a>(
        &'a mut self,
        beginning: &'a Beginning,
        _watch: &'a Arc<Watch>,
    ) -> BoxFuture<'a, Result<(), sqlx::Error>> {
        Box::pin(async move {
            for statement in &beginning.statements {
                self.execute(AssertSqlSafe(statement.as_str())).await?;
            }
            if let Some(proof) = &beginning.proof {
                let proof = sqlx::query_scalar::<_, Option<String>>(AssertSqlSafe(proof.as_str()));
                if let Some(offence) = proof.persistent(false).fetch_one(self).await? {
                    return Err(sqlx::Error::Configuration(Box::new(Offence(offence))));
                }
            }
            Ok(())
        })
    }
}

pub(super) struct Lane<C: Connection> {
    options: C::Options,
    beginning: Beginning,
    idle: Mutex<Vec<Parked<C>>>,
    permits: Semaphore,
    /// How long one read may take. PostgreSQL keeps to its own setting.
    time: Duration,
}

struct Parked<C> {
    connection: C,
    watch: Arc<Watch>,
    since: Instant,
}

/// A connection on loan: [`Held::keep`] puts it back, dropping it closes it.
pub(super) struct Held<'a, C: Connection> {
    lane: &'a Lane<C>,
    // Taken out only by `keep`, which consumes the loan.
    connection: Option<C>,
    watch: Arc<Watch>,
    _permit: SemaphorePermit<'a>,
}

impl<C: Laned> Lane<C> {
    /// Opens no connection yet; at most `size` at a time.
    pub(super) fn new(options: C::Options, size: u32) -> Self {
        Self {
            options,
            beginning: Beginning::default(),
            idle: Mutex::default(),
            permits: Semaphore::new(size as usize),
            time: READ_TIME,
        }
    }

    /// Another bound on the time of a read than [`READ_TIME`].
    pub(super) fn within(mut self, time: Duration) -> Self {
        self.time = time;
        self
    }

    /// What each new connection begins with.
    pub(super) fn beginning_with(mut self, statements: Vec<String>) -> Self {
        self.beginning.statements = statements;
        self
    }

    /// Bounds that SQLite keeps to on each connection.
    pub(super) fn bounded_by(mut self, bounds: &'static [Bound]) -> Self {
        self.beginning.bounds = bounds;
        self
    }

    /// Bounds on the memory and the temporary files of each statement on SQLite.
    pub(super) fn with_room(mut self) -> Self {
        self.beginning.is_bound = true;
        self
    }

    /// What each new connection has to prove before it is used.
    pub(super) fn proving(mut self, proof: Option<String>) -> Self {
        self.beginning.proof = proof;
        self
    }

    pub(super) async fn get(&self) -> Result<Held<'_, C>, sqlx::Error> {
        let permit = tokio::time::timeout(ACQUIRE_TIMEOUT, self.permits.acquire())
            .await
            .map_err(|_| sqlx::Error::PoolTimedOut)?
            .map_err(|_| sqlx::Error::PoolClosed)?;
        let (connection, watch) = loop {
            // The lock is let go before anything is awaited.
            let parked = self.lock().pop();
            if let Some(Parked { mut connection, watch, since }) = parked {
                watch.allow(self.time);
                if since.elapsed() < PING_AFTER || connection.ping().await.is_ok() {
                    break (connection, watch);
                }
            } else {
                let (mut connection, watch) = (C::connect_with(&self.options).await?, Watch::new());
                connection.set_up(&self.beginning, &watch).await?;
                watch.allow(self.time);
                break (connection, watch);
            }
        };
        Ok(Held { lane: self, connection: Some(connection), watch, _permit: permit })
    }

    /// Lets nobody in any more and closes what is idle; what is on loan closes when it comes back.
    pub(super) async fn close(&self) {
        self.permits.close();
        let idle = std::mem::take(&mut *self.lock());
        for parked in idle {
            // It goes either way.
            let _ = parked.connection.close().await;
        }
    }
}

impl<C: Connection> Lane<C> {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Parked<C>>> {
        // Push and pop leave a list whole.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C: Connection> Held<'_, C> {
    /// Puts the connection back: what was asked of it was answered in full.
    pub(super) fn keep(mut self) {
        if let Some(connection) = self.connection.take()
            && !self.lane.permits.is_closed()
        {
            let watch = Arc::clone(&self.watch);
            self.lane.lock().push(Parked { connection, watch, since: Instant::now() });
        }
    }
}

impl<C: Connection> Drop for Held<'_, C> {
    /// What was not kept ends: its caller may be gone. SQLite notices at its next look at the clock, PostgreSQL by the
    /// connection.
    fn drop(&mut self) {
        if self.connection.is_some() {
            self.watch.end();
        }
    }
}

impl<C: Connection> Deref for Held<'_, C> {
    type Target = C;

    fn deref(&self) -> &C {
        self.connection.as_ref().expect("a loan has its connection until it is kept")
    }
}

impl<C: Connection> DerefMut for Held<'_, C> {
    fn deref_mut(&mut self) -> &mut C {
        self.connection.as_mut().expect("a loan has its connection until it is kept")
    }
}

impl<C: Connection> std::fmt::Debug for Lane<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The options may hold a password.
        f.debug_struct("Lane").field("available", &self.permits.available_permits()).finish_non_exhaustive()
    }
}

/// Runs a read on a connection of a lane, which is put back when the read succeeds.
macro_rules! read {
    ($lane:expr, |$conn:ident| $body:expr) => {{
        let mut held = $lane.get().await?;
        let $conn = &mut *held;
        let value = $body?;
        held.keep();
        value
    }};
}
pub(super) use read;

#[cfg(test)]
mod tests {
    use sqlx::Row as _;
    use sqlx::sqlite::SqliteConnectOptions;

    use super::*;
    use crate::store::error::is_timeout;
    use crate::store::scans::SCAN_TIME;
    use crate::store::{Db, scratch};

    /// SQLite takes an index of a part of a table for a parameter only when it may look at the parameter, and then prepares
    /// the statement anew for each.
    #[tokio::test]
    async fn plans_do_not_look_at_parameters() {
        assert!(room::install());
        let lane = Lane::<SqliteConnection>::new(SqliteConnectOptions::new().in_memory(true), 1)
            .beginning_with(vec![
                "CREATE TABLE t (part INTEGER, n INTEGER)".to_owned(),
                "CREATE INDEX of_one ON t (n) WHERE part = 1".to_owned(),
            ]);
        let mut held = lane.get().await.unwrap();
        let plan = async |connection: &mut SqliteConnection, sql: &'static str| {
            let row = sqlx::query(sql).bind(1).fetch_one(connection).await.unwrap();
            row.get::<String, _>("detail")
        };
        let bound = plan(&mut held, "EXPLAIN QUERY PLAN SELECT n FROM t WHERE part = $1 AND n > 5").await;
        assert!(!bound.contains("of_one"), "{bound}");
        let named = plan(&mut held, "EXPLAIN QUERY PLAN SELECT n FROM t WHERE part = 1 AND n > $1").await;
        assert!(named.contains("of_one"), "a statement that names the part has its index: {named}");
    }

    #[tokio::test]
    async fn a_read_ends_at_its_deadline() {
        assert!(room::install());
        let sqlite = Lane::<SqliteConnection>::new(SqliteConnectOptions::new().in_memory(true), 1)
            .within(Duration::from_millis(20));
        let mut held = sqlite.get().await.unwrap();
        let forever =
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
        let error = sqlx::query(forever).fetch_one(&mut *held).await.unwrap_err();
        let code = error
            .as_database_error()
            .and_then(sqlx::error::DatabaseError::code)
            .unwrap_or_default()
            .into_owned();
        assert!(is_timeout(&code), "{error}");

        let url = scratch::create_database().await;
        let Db::Postgres(postgres) = Db::open(&url, 1).await.unwrap() else { panic!("{url} is PostgreSQL") };
        for (lane, time) in [(&postgres.lane, READ_TIME), (&postgres.scan_lane, SCAN_TIME)] {
            let mut held = lane.get().await.unwrap();
            let limit: String =
                sqlx::query_scalar("SHOW statement_timeout").fetch_one(&mut *held).await.unwrap();
            assert_eq!(limit, format!("{}s", time.as_secs()));
        }
        postgres.close().await;
        scratch::drop_database(&url);
    }
}
