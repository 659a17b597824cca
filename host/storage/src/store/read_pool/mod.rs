//! A connection pool for hot reads that avoids the overhead of sqlx's pool.
//!
//! sqlx's pool pings every connection that is returned to it, in a task of its own: for a read of a few microseconds
//! that doubles the round trips and wakes another thread. Here a connection is taken and returned under a lock. It is
//! closed after an error or when its caller was cancelled, and not used any more when another one was lost while it
//! was idle ([`Losses`]).
//!
//! Every read has a time limit, because scripts send arbitrary queries. PostgreSQL enforces it (`statement_timeout`, in
//! the options passed to the pool); on SQLite a progress handler checks a [`Deadline`] every few thousand steps.

mod connection;
mod deadline;
pub(super) mod position;
mod probe;
mod service;

use std::future::pending;
use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sqlx::Connection;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

use self::connection::ConnectionSetup;
pub(super) use self::connection::{ExcessPrivilege, Poolable, SqliteHooks, SqliteLimit};
use self::deadline::Deadline;
pub(super) use self::probe::{PROBE_EVERY, Probe, Watched, watch};
pub(super) use self::service::{Progress, ServerKind, Service};
pub use self::service::{ServerStatus, Unused};
use super::error::is_definite;
use super::executor::{ConnectionPool, Remedy, Statements};
use super::lost::{Losses, NodeLost, is_lost};

/// A read that waits longer than this for a connection fails with `StoreError::Unavailable`.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection that was idle for longer is pinged before use.
const PING_AFTER: Duration = Duration::from_secs(5);
/// A connection whose ping takes longer counts as lost: a cut cable produces no error.
const PING_TIMEOUT: Duration = Duration::from_secs(2);

/// Time limit of one read: many times what a scan of a million records takes. The caller has given up by then.
pub(super) const READ_TIME_LIMIT: Duration = Duration::from_secs(5);

/// Interval at which PostgreSQL checks that the connection of a running statement is still open. It is closed when the caller
/// is gone.
pub(super) const CONNECTION_CHECK_INTERVAL: &str = "250ms";

/// A pool of connections for reads, to the primary or to another server: a replica, or a node that has shards.
pub(super) struct ReadPool<C: Connection> {
    options: C::Options,
    setup: ConnectionSetup,
    idle: Mutex<Vec<IdleConnection<C>>>,
    losses: Arc<Losses>,
    permits: Semaphore,
    size: usize,
    /// Time limit of one read on SQLite; on PostgreSQL `statement_timeout` applies.
    time_limit: Duration,
    /// For a pool of a server beside the primary.
    other_server: Option<OtherServer<C>>,
}

/// The additional parts of the pool of a replica or a node.
struct OtherServer<C: Connection> {
    service: Arc<Service>,
    /// The pool for reads that the server can't answer.
    primary: Arc<ReadPool<C>>,
}

struct IdleConnection<C> {
    connection: C,
    deadline: Arc<Deadline>,
    since: Instant,
    /// Cancelled when the connection's server is abandoned.
    abandoned: Option<CancellationToken>,
}

/// A connection that is checked out: [`PooledConnection::keep`] returns it to the pool, dropping it closes it.
pub(super) struct PooledConnection<'a, C: Connection> {
    pool: &'a ReadPool<C>,
    // Taken only by `keep`, which consumes the value.
    connection: Option<C>,
    deadline: Arc<Deadline>,
    /// For a connection to another server than the primary: cancelled when it is not used any more.
    abandoned: Option<CancellationToken>,
    _permit: SemaphorePermit<'a>,
}

impl<C: Poolable> ReadPool<C> {
    /// Opens no connection yet; at most `size` are open at a time.
    pub(super) fn new(options: C::Options, size: u32) -> Self {
        Self {
            options,
            setup: ConnectionSetup::default(),
            idle: Mutex::default(),
            losses: Arc::default(),
            permits: Semaphore::new(size as usize),
            size: size as usize,
            time_limit: READ_TIME_LIMIT,
            other_server: None,
        }
    }

    /// Makes this the pool of another server than the primary: reads that it can't answer run on `primary`.
    pub(super) fn of_other_server(mut self, service: Arc<Service>, primary: Arc<Self>) -> Self {
        self.other_server = Some(OtherServer { service, primary });
        self
    }

    /// The pool of the primary; this one if it is that.
    pub(super) fn primary(&self) -> &Self {
        self.other_server.as_ref().map_or(self, |other| &other.primary)
    }

    /// The number of connections in use.
    pub(super) fn used(&self) -> usize {
        self.size.saturating_sub(self.permits.available_permits())
    }

    /// Sets the time limit of a read on SQLite; [`READ_TIME_LIMIT`] otherwise.
    pub(super) fn within(mut self, time_limit: Duration) -> Self {
        self.time_limit = time_limit;
        self
    }

    /// Shares the losses of other pools of the same server.
    pub(super) fn losses(mut self, losses: Arc<Losses>) -> Self {
        self.losses = losses;
        self
    }

    /// Sets the statements that run on each new connection.
    pub(super) fn setup_statements(mut self, statements: Vec<String>) -> Self {
        self.setup.statements = statements;
        self
    }

    /// Sets the limits that SQLite enforces on each connection.
    pub(super) fn sqlite_limits(mut self, limits: &'static [SqliteLimit]) -> Self {
        self.setup.limits = limits;
        self
    }

    /// Sets the calls that restrict each connection to SQLite.
    pub(super) fn sqlite_hooks(mut self, hooks: SqliteHooks) -> Self {
        self.setup.hooks = Some(hooks);
        self
    }

    /// Sets the query that checks the role of each new PostgreSQL connection; if it returns a text, the connection is
    /// not used.
    pub(super) fn role_check(mut self, check: Option<String>) -> Self {
        self.setup.role_check = check;
        self
    }

    /// Runs reads on the pool's connections.
    pub(super) fn reads(&self) -> Statements<'_, Self> {
        Statements::new(self, C::MAY_GET_LOST)
    }

    pub(super) async fn get(&self) -> Result<PooledConnection<'_, C>, sqlx::Error> {
        self.get_pinged_after(PING_AFTER).await
    }

    /// A connection that has just answered a ping, for a statement that must not be repeated.
    pub(super) async fn get_pinged(&self) -> Result<PooledConnection<'_, C>, sqlx::Error> {
        self.get_pinged_after(Duration::ZERO).await
    }

    async fn get_pinged_after(&self, idle_time: Duration) -> Result<PooledConnection<'_, C>, sqlx::Error> {
        let permit = tokio::time::timeout(ACQUIRE_TIMEOUT, self.permits.acquire())
            .await
            .map_err(|_| sqlx::Error::PoolTimedOut)?
            .map_err(|_| sqlx::Error::PoolClosed)?;
        let (connection, deadline) = loop {
            // A separate statement, so that the lock is released before the first await.
            let idle = self.lock().pop();
            if let Some(IdleConnection { mut connection, deadline, since, abandoned }) = idle {
                // The server was left since: it may have crashed, and its connections ended with it.
                let is_abandoned = abandoned.is_some_and(|abandoned| abandoned.is_cancelled());
                if is_abandoned || self.losses.happened_after(since) {
                    continue;
                }
                deadline.start(self.time_limit);
                if since.elapsed() < idle_time {
                    break (connection, deadline);
                }
                if matches!(tokio::time::timeout(PING_TIMEOUT, connection.ping()).await, Ok(Ok(()))) {
                    break (connection, deadline);
                }
                self.losses.record();
            } else {
                let (mut connection, deadline) = (C::connect_with(&self.options).await?, Deadline::new());
                connection.set_up(&self.setup, &deadline).await?;
                if let Some(other) = &self.other_server {
                    other.service.check_replayed(connection.replayed().await?)?;
                }
                deadline.start(self.time_limit);
                break (connection, deadline);
            }
        };
        Ok(PooledConnection {
            pool: self,
            connection: Some(connection),
            deadline,
            abandoned: None,
            _permit: permit,
        })
    }

    /// A connection to the other server; `None` when it is not used, or has none.
    async fn get_from_other(&self, service: &Service) -> Option<PooledConnection<'_, C>> {
        let abandoned = service.in_use()?;
        let acquired = abandoned.run_until_cancelled(self.get()).await?;
        match acquired {
            Ok(mut connection) => {
                connection.abandoned = Some(abandoned);
                service.count_read();
                Some(connection)
            }
            Err(error) => {
                // A server that refuses this connection, for example because it has too many, still serves others.
                if is_lost(&error) {
                    self.losses.record();
                    service.read_failed(&error);
                }
                None
            }
        }
    }

    /// Refuses further callers and closes idle connections. Connections in use close when they are returned.
    pub(super) async fn close(&self) {
        self.permits.close();
        let idle = std::mem::take(&mut *self.lock());
        for idle in idle {
            // The connection is dropped even if closing it fails.
            let _ = idle.connection.close().await;
        }
    }
}

impl<C: Connection> ReadPool<C> {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<IdleConnection<C>>> {
        // A panic under the lock can't leave the list half-modified.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C: Connection> PooledConnection<'_, C> {
    /// Returns the connection to the pool. The caller must have read all rows.
    pub(super) fn keep(mut self) {
        if let Some(connection) = self.connection.take()
            && !self.pool.permits.is_closed()
        {
            let (deadline, abandoned) = (Arc::clone(&self.deadline), self.abandoned.take());
            self.pool.lock().push(IdleConnection { connection, deadline, since: Instant::now(), abandoned });
        }
    }
}

impl<C: Connection> Drop for PooledConnection<'_, C> {
    /// Without `keep` a statement may still be running for a caller that is gone. SQLite stops it at the next check of
    /// the deadline, PostgreSQL at the next check of the connection ([`CONNECTION_CHECK_INTERVAL`]).
    fn drop(&mut self) {
        if self.connection.is_some() {
            self.deadline.expire();
        }
    }
}

impl<C: Connection> Deref for PooledConnection<'_, C> {
    type Target = C;

    fn deref(&self) -> &C {
        self.connection.as_ref().expect("a connection is present until `keep` takes it")
    }
}

impl<C: Connection> DerefMut for PooledConnection<'_, C> {
    fn deref_mut(&mut self) -> &mut C {
        self.connection.as_mut().expect("a connection is present until `keep` takes it")
    }
}

impl<C: Connection> std::fmt::Debug for ReadPool<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The options may contain a password.
        f.debug_struct("ReadPool")
            .field("available", &self.permits.available_permits())
            .finish_non_exhaustive()
    }
}

impl<C: Poolable> ConnectionPool for ReadPool<C> {
    type Connection = C;
    type Guard<'a>
        = PooledConnection<'a, C>
    where
        Self: 'a;

    async fn acquire(&self) -> Result<Self::Guard<'_>, sqlx::Error> {
        let Some(other) = &self.other_server else { return self.get().await };
        match self.get_from_other(&other.service).await {
            Some(connection) => Ok(connection),
            None => self.acquire_primary().await,
        }
    }

    async fn acquire_primary(&self) -> Result<Self::Guard<'_>, sqlx::Error> {
        if self.other_server.as_ref().is_some_and(|other| other.service.is_lost()) {
            return Err(NodeLost.into());
        }
        self.primary().get().await
    }

    /// A server that is not used any more is not waited for.
    fn given_up(acquired: &Self::Guard<'_>) -> impl Future<Output = sqlx::Error> + Send + use<C> {
        let abandoned = acquired.abandoned.clone();
        async move {
            let Some(abandoned) = abandoned else { return pending().await };
            abandoned.cancelled().await;
            io::Error::new(io::ErrorKind::TimedOut, "the server is not used any more").into()
        }
    }

    fn release(acquired: Self::Guard<'_>) {
        acquired.keep();
    }

    fn lost(&self) {
        self.losses.record();
    }

    fn failed(&self, acquired: Self::Guard<'_>, error: &sqlx::Error) -> Remedy {
        let is_of_other_server = acquired.abandoned.is_some();
        drop(acquired);
        let Some(OtherServer { service, primary }) = &self.other_server else {
            return failed_on_primary(self, error);
        };
        if !is_of_other_server {
            return failed_on_primary(primary, error);
        }
        if is_lost(error) {
            self.lost();
            service.read_failed(error);
        } else if is_definite(error) {
            return Remedy::None;
        }
        service.count_repeat();
        Remedy::Primary
    }
}

fn failed_on_primary<C: Poolable>(pool: &ReadPool<C>, error: &sqlx::Error) -> Remedy {
    if !is_lost(error) {
        return Remedy::None;
    }
    pool.lost();
    Remedy::NewConnection
}

#[cfg(test)]
mod tests;
