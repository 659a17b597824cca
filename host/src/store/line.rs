//! A PostgreSQL connection of one's own that notices its end while it rests.
//!
//! A connection of a pool is looked at only when somebody needs it. Who holds a lock by being connected, or waits for
//! notices, has to know at once that the connection is gone. sqlx's listener reads all the time, so it does.

use std::time::Duration;

use sqlx::PgPool;
use sqlx::postgres::{PgListener, PgNotification, PgPoolOptions};

use super::{Postgres, StoreError};

/// Connecting may take this long: a database on the other side of the world needs a tenth.
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// A line that was quiet for so long is pinged: a cable that was cut says nothing.
const PING_AFTER: Duration = Duration::from_secs(5);
/// Without an answer after this time the line is taken for dead.
const PING_TIME: Duration = Duration::from_secs(5);
/// A graceful end may take this long; after that the server finds out by itself.
const CLOSE_TIME: Duration = Duration::from_secs(2);

/// The server gives up a client that it can't reach after some 15 seconds, later than the client notices it. By itself
/// it would take up to two hours, and keep the locks of a host that lost its power.
const KEEPALIVE: [(&str, &str); 4] = [
    ("tcp_keepalives_idle", "5"),
    ("tcp_keepalives_interval", "5"),
    ("tcp_keepalives_count", "2"),
    ("tcp_user_timeout", "15000"),
];

#[derive(Debug)]
pub(super) struct Line {
    /// Of this one connection: those of the server's pool are for requests.
    pool: PgPool,
    listener: PgListener,
}

impl Line {
    pub(super) async fn open(db: &Postgres) -> Result<Self, StoreError> {
        let options = PgPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(CONNECT_TIME)
            .idle_timeout(None)
            .max_lifetime(None);
        let connect = (*db.pool.connect_options()).clone().options(KEEPALIVE);
        let pool = options.connect_lazy_with(connect);
        let mut listener = PgListener::connect_with(&pool).await?;
        // A new connection would not hold what this one held: whoever uses the line has to know.
        listener.eager_reconnect(false);
        Ok(Self { pool, listener })
    }

    pub(super) async fn listen(&mut self, channel: &str) -> Result<(), StoreError> {
        Ok(self.listener.listen(channel).await?)
    }

    /// For statements. After an error the line is to be dropped: it may be another connection afterwards.
    pub(super) fn connection(&mut self) -> &mut PgListener {
        &mut self.listener
    }

    /// The next notice; `None` when the connection is gone. May be dropped and called again without losing any.
    pub(super) async fn next(&mut self) -> Option<PgNotification> {
        loop {
            match tokio::time::timeout(PING_AFTER, self.listener.try_recv()).await {
                Ok(Ok(heard)) => return heard,
                Ok(Err(error)) => {
                    tracing::debug!(%error, "a line to the database ended");
                    return None;
                }
                Err(_) => {
                    let ping = sqlx::query("SELECT 1").execute(&mut self.listener);
                    if !matches!(tokio::time::timeout(PING_TIME, ping).await, Ok(Ok(_))) {
                        return None;
                    }
                }
            }
        }
    }

    /// Ends the connection so that the server knows at once.
    pub(super) async fn close(self) {
        let Self { pool, listener } = self;
        drop(listener);
        if tokio::time::timeout(CLOSE_TIME, pool.close()).await.is_err() {
            tracing::debug!("a line to the database did not close in time");
        }
    }
}
