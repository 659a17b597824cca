//! A PostgreSQL connection outside the pool that detects its loss while it is idle.
//!
//! A pooled connection is checked only when it is used. The holder of an advisory lock and a listener for notifications must
//! learn at once that their connection is lost. sqlx's listener reads continuously, so it detects that.

use std::sync::Arc;
use std::time::Duration;

use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgListener, PgNotification, PgPoolOptions};

use super::StoreError;
use super::lost::Losses;

/// Time limit for connecting, ten times what a database on the other side of the world needs.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection is pinged after this time without data: a cut cable produces no error. The pings of the stream's lease
/// also show the other hosts that its holder is alive ([`super::lease`]).
const PING_AFTER: Duration = Duration::from_secs(2);
/// Without an answer to a ping after this time the connection counts as lost.
const PING_TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit for closing the connection gracefully; after that the server has to detect the end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Makes the server drop an unreachable client after some 15 seconds, later than the client detects the loss. With its
/// defaults the server takes up to two hours, and a host that lost power keeps its locks for that time.
const KEEPALIVE: [(&str, &str); 4] = [
    ("tcp_keepalives_idle", "5"),
    ("tcp_keepalives_interval", "5"),
    ("tcp_keepalives_count", "2"),
    ("tcp_user_timeout", "15000"),
];

#[derive(Debug)]
pub(super) struct DedicatedConnection {
    /// A pool of this one connection; the main pool is for requests.
    pool: PgPool,
    listener: PgListener,
    losses: Arc<Losses>,
}

impl DedicatedConnection {
    /// Connects with these options. `losses` are those of the other connections to the server.
    pub(super) async fn open(connect: PgConnectOptions, losses: Arc<Losses>) -> Result<Self, StoreError> {
        let options = PgPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(CONNECT_TIMEOUT)
            .acquire_slow_threshold(CONNECT_TIMEOUT)
            .idle_timeout(None)
            .max_lifetime(None);
        let pool = options.connect_lazy_with(connect.options(KEEPALIVE));
        let mut listener = PgListener::connect_with(&pool).await?;
        // A new connection would not have the locks of the lost one: the caller must learn of the loss.
        listener.eager_reconnect(false);
        Ok(Self { pool, listener, losses })
    }

    pub(super) async fn listen(&mut self, channel: &str) -> Result<(), StoreError> {
        Ok(self.listener.listen(channel).await?)
    }

    /// For statements. After an error drop `self`: the listener may have connected again.
    pub(super) fn listener(&mut self) -> &mut PgListener {
        &mut self.listener
    }

    /// The next notification; `None` when the connection is lost. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<PgNotification> {
        let notification = self.next_or_loss().await;
        if notification.is_none() {
            // It learns of the loss at once. The cause has probably ended the pools' connections too.
            self.losses.record();
        }
        notification
    }

    async fn next_or_loss(&mut self) -> Option<PgNotification> {
        loop {
            match tokio::time::timeout(PING_AFTER, self.listener.try_recv()).await {
                Ok(Ok(notification)) => return notification,
                Ok(Err(error)) => {
                    tracing::debug!(%error, "a dedicated database connection was lost");
                    return None;
                }
                Err(_) => {
                    let ping = sqlx::query("SELECT 1").execute(&mut self.listener);
                    if !matches!(tokio::time::timeout(PING_TIMEOUT, ping).await, Ok(Ok(_))) {
                        return None;
                    }
                }
            }
        }
    }

    /// Closes the connection gracefully, so that the server releases its locks at once.
    pub(super) async fn close(self) {
        let Self { pool, listener, losses: _ } = self;
        drop(listener);
        if tokio::time::timeout(CLOSE_TIMEOUT, pool.close()).await.is_err() {
            tracing::debug!("a dedicated database connection did not close in time");
        }
    }
}
