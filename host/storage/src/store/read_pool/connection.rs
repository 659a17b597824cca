//! Prepares new connections of either database.

use std::ffi::c_int;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::future::BoxFuture;
use libsqlite3_sys::SQLITE_DBCONFIG_ENABLE_QPSG;
use sqlx::sqlite::LockedSqliteHandle;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, SqliteConnection};

use super::deadline::Deadline;
use super::position::REPLAYED;

/// Steps of SQLite's virtual machine between two checks of the deadline. Most take less than a microsecond, but a function
/// call over the largest values is one step of some milliseconds, and one that looks for a pattern takes up to a second.
const STEPS_PER_CHECK: i32 = 50;

/// The preparation of a new connection.
#[derive(Debug, Default)]
pub(in crate::store) struct ConnectionSetup {
    pub(super) statements: Vec<String>,
    pub(super) limits: &'static [SqliteLimit],
    /// SQLite: what the owner of the pool does with its connections.
    pub(super) hooks: Option<SqliteHooks>,
    /// PostgreSQL: a query that returns what is wrong with the connection's role, or NULL.
    pub(super) role_check: Option<String>,
}

/// A privilege that a connection's role has but must not have.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(in crate::store) struct ExcessPrivilege(String);

/// Calls by which the owner of a pool restricts its connections to SQLite.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct SqliteHooks {
    /// Runs once, after connecting.
    pub(in crate::store) opened: fn(&mut LockedSqliteHandle<'_>) -> Result<(), sqlx::Error>,
    /// Runs while the first statement after a checkout does.
    pub(in crate::store) begun: fn(),
}

/// A limit that SQLite enforces (`sqlite3_limit`).
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct SqliteLimit {
    /// `SQLITE_LIMIT_…`
    pub(in crate::store) what: i32,
    pub(in crate::store) most: i32,
}

#[expect(
    unsafe_code,
    reason = "sqlx does not wrap these functions; the handle is locked and open while it is borrowed"
)]
fn configure(handle: &mut LockedSqliteHandle<'_>, limits: &[SqliteLimit]) {
    let database = handle.as_raw_handle().as_ptr();
    for limit in limits {
        // Returns the previous limit.
        unsafe { libsqlite3_sys::sqlite3_limit(database, limit.what, limit.most) };
    }
    // Makes SQLite plan a statement without looking at its parameters. Otherwise SQLite prepares a statement on a table
    // with a partial index again for every new parameter value. Fails only for an option that SQLite
    // does not know.
    let (on, no_answer) = (c_int::from(true), ptr::null_mut::<c_int>());
    unsafe { libsqlite3_sys::sqlite3_db_config(database, SQLITE_DBCONFIG_ENABLE_QPSG, on, no_answer) };
}

/// A connection type that a [`ReadPool`](super::ReadPool) can pool.
pub(in crate::store) trait Poolable: Connection {
    /// Whether the other side may close a connection.
    const MAY_GET_LOST: bool;

    /// Runs once, after connecting.
    fn set_up<'a>(
        &'a mut self,
        setup: &'a ConnectionSetup,
        deadline: &'a Arc<Deadline>,
    ) -> BoxFuture<'a, Result<(), sqlx::Error>>;

    /// The position that a replica has replayed; 0 for a server that is not a replica.
    fn replayed(&mut self) -> BoxFuture<'_, Result<i64, sqlx::Error>> {
        Box::pin(async { Ok(0) })
    }
}

impl Poolable for SqliteConnection {
    const MAY_GET_LOST: bool = false;

    fn set_up<'a>(
        &'a mut self,
        setup: &'a ConnectionSetup,
        deadline: &'a Arc<Deadline>,
    ) -> BoxFuture<'a, Result<(), sqlx::Error>> {
        Box::pin(async move {
            for statement in &setup.statements {
                self.execute(AssertSqlSafe(statement.as_str())).await?;
            }
            let deadline = Arc::clone(deadline);
            let mut handle = self.lock_handle().await?;
            configure(&mut handle, setup.limits);
            if let Some(SqliteHooks { opened, begun }) = setup.hooks {
                opened(&mut handle)?;
                let mut seen = 0;
                handle.set_progress_handler(STEPS_PER_CHECK, move || {
                    let checkouts = deadline.checkouts.load(Ordering::Relaxed);
                    if std::mem::replace(&mut seen, checkouts) != checkouts {
                        begun();
                    }
                    deadline.is_ahead()
                });
            } else {
                handle.set_progress_handler(STEPS_PER_CHECK, move || deadline.is_ahead());
            }
            Ok(())
        })
    }
}

impl Poolable for PgConnection {
    const MAY_GET_LOST: bool = true;

    fn set_up<'a>(
        &'a mut self,
        setup: &'a ConnectionSetup,
        _deadline: &'a Arc<Deadline>,
    ) -> BoxFuture<'a, Result<(), sqlx::Error>> {
        Box::pin(async move {
            for statement in &setup.statements {
                self.execute(AssertSqlSafe(statement.as_str())).await?;
            }
            if let Some(check) = &setup.role_check {
                let check = sqlx::query_scalar::<_, Option<String>>(AssertSqlSafe(check.as_str()));
                if let Some(excess) = check.persistent(false).fetch_one(self).await? {
                    return Err(sqlx::Error::Configuration(Box::new(ExcessPrivilege(excess))));
                }
            }
            Ok(())
        })
    }

    fn replayed(&mut self) -> BoxFuture<'_, Result<i64, sqlx::Error>> {
        Box::pin(sqlx::query_scalar(REPLAYED).persistent(false).fetch_one(self))
    }
}
