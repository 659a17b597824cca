//! Sends notifications between hosts over PostgreSQL's NOTIFY. Their texts are opaque to this module.
//!
//! A SQLite file has one server: there notifications are neither sent nor received.

use std::time::Duration;

use super::dedicated_connection::DedicatedConnection;
use super::{Db, StoreError};

const CHANNEL: &str = "belvedere";

/// Delay between two attempts to connect.
const RECONNECT_DELAY: Duration = Duration::from_secs(1);

/// Sends a notification to all hosts that are listening at this moment, this one included.
///
/// # Errors
/// When the database can't be reached; the notification is not sent then.
pub async fn announce(db: &Db, text: &str) -> Result<(), StoreError> {
    if let Db::Postgres(db) = db {
        // A notification may arrive twice without harm, so it is repeated like a read.
        sqlx::query("SELECT pg_notify($1, $2)").bind(CHANNEL).bind(text).execute(db.reader()).await?;
    }
    Ok(())
}

/// The events that a listener receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenerEvent {
    Notification(String),
    /// The listener has just connected: earlier notifications are lost to it.
    Connected,
}

/// A listener for notifications; it reconnects when its connection is lost.
#[derive(Debug)]
pub struct Notifications {
    db: Db,
    connection: Option<DedicatedConnection>,
}

impl Notifications {
    pub fn of(db: &Db) -> Self {
        Self { db: db.clone(), connection: None }
    }

    /// The next notification. Waits while the database is unreachable, and for ever on SQLite. Cancel-safe.
    pub async fn next(&mut self) -> ListenerEvent {
        let Db::Postgres(db) = &self.db else { return std::future::pending().await };
        if let Some(connection) = &mut self.connection {
            if let Some(notification) = connection.next().await {
                return ListenerEvent::Notification(notification.payload().to_owned());
            }
            self.connection = None;
            tracing::warn!("the connection for notifications of other hosts was lost");
        }
        loop {
            let listening = async {
                let mut connection = db.dedicated_connection().await?;
                connection.listen(CHANNEL).await?;
                Ok::<_, StoreError>(connection)
            };
            match listening.await {
                Ok(connection) => {
                    self.connection = Some(connection);
                    return ListenerEvent::Connected;
                }
                Err(error) => tracing::warn!(%error, "can't listen for notifications of other hosts"),
            }
            tokio::time::sleep(RECONNECT_DELAY).await;
        }
    }
}
