//! Connections for hot reads, without a pool's ceremony.
//!
//! sqlx's pool pings a connection whenever it comes back, in a task of its own: for a read of a few microseconds
//! that doubles the round trips and wakes another thread. Here a connection is taken and put back under a lock. One
//! that did not end well (an error, a caller that went away) is closed; one that rested for long is pinged first.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sqlx::Connection;
use tokio::sync::{Semaphore, SemaphorePermit};

/// A read waits this long for a connection before it fails as "unavailable".
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection that rested longer is pinged before use: a PostgreSQL server may have restarted.
const PING_AFTER: Duration = Duration::from_secs(5);

pub(super) struct Lane<C: Connection> {
    options: C::Options,
    idle: Mutex<Vec<(C, Instant)>>,
    permits: Semaphore,
}

/// A connection on loan: [`Held::keep`] puts it back, dropping it closes it.
pub(super) struct Held<'a, C: Connection> {
    lane: &'a Lane<C>,
    // Taken out only by `keep`, which consumes the loan.
    connection: Option<C>,
    _permit: SemaphorePermit<'a>,
}

impl<C: Connection> Lane<C> {
    /// Opens no connection yet; at most `size` at a time.
    pub(super) fn new(options: C::Options, size: u32) -> Self {
        Self { options, idle: Mutex::default(), permits: Semaphore::new(size as usize) }
    }

    pub(super) async fn get(&self) -> Result<Held<'_, C>, sqlx::Error> {
        let permit = tokio::time::timeout(ACQUIRE_TIMEOUT, self.permits.acquire())
            .await
            .map_err(|_| sqlx::Error::PoolTimedOut)?
            .map_err(|_| sqlx::Error::PoolClosed)?;
        let connection = loop {
            // The lock is let go before anything is awaited.
            let parked = self.lock().pop();
            match parked {
                Some((mut connection, since)) => {
                    if since.elapsed() < PING_AFTER || connection.ping().await.is_ok() {
                        break connection;
                    }
                }
                None => break C::connect_with(&self.options).await?,
            }
        };
        Ok(Held { lane: self, connection: Some(connection), _permit: permit })
    }

    /// Lets nobody in any more and closes what is idle; what is on loan closes when it comes back.
    pub(super) async fn close(&self) {
        self.permits.close();
        let idle = std::mem::take(&mut *self.lock());
        for (connection, _) in idle {
            // It goes either way.
            let _ = connection.close().await;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(C, Instant)>> {
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
            self.lane.lock().push((connection, Instant::now()));
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
