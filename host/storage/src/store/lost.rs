//! Recognises lost connections, and remembers when the last one was found.
//!
//! When PostgreSQL restarts, or an administrator or a firewall ends connections, the client learns of it at the next
//! use of each of them. So the first loss makes all connections suspect that have been idle since: the pools close
//! them instead of handing them out.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use sqlx::postgres::{PgDatabaseError, PgSeverity};

/// Shared by the pools of one server.
#[derive(Debug)]
pub(super) struct Losses {
    epoch: Instant,
    /// Microseconds after `epoch`; 0 before the first loss.
    last: AtomicU64,
}

impl Default for Losses {
    fn default() -> Self {
        Self { epoch: Instant::now(), last: AtomicU64::new(0) }
    }
}

impl Losses {
    pub(super) fn record(&self) {
        metrics::counter!("belvedere_database_connections_lost_total").increment(1);
        let now = self.epoch.elapsed().as_micros() as u64;
        self.last.fetch_max(now.max(1), Ordering::Relaxed);
    }

    /// Whether a connection was lost after `time`.
    pub(super) fn happened_after(&self, time: Instant) -> bool {
        let last = self.last.load(Ordering::Relaxed);
        last != 0 && u128::from(last) >= time.saturating_duration_since(self.epoch).as_micros()
    }
}

/// Whether an error of a statement means that its connection is lost: the socket failed, or the server reported that
/// it ends the connection (classes 08 and 57P0x) or has ended its transaction's session (25P03).
pub(super) fn is_lost(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Io(_))
        || ended(error)
            .is_some_and(|(code, severity)| severity != PgSeverity::Error && code != CANNOT_CONNECT)
}

/// The node of a shard is known to be lost, so that a statement was not sent anywhere, or was given up.
#[derive(Debug, thiserror::Error)]
#[error("the node of these records is lost")]
pub(super) struct NodeLost;

impl From<NodeLost> for sqlx::Error {
    fn from(lost: NodeLost) -> Self {
        Self::Configuration(Box::new(lost))
    }
}

/// Whether a node of the cluster is lost: this host knows it, or the server has lost its connection to the node. The connection to
/// the server itself is well.
pub(super) fn is_of_node(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Configuration(source) => source.is::<NodeLost>(),
        error => ended(error).is_some_and(|(_, severity)| severity == PgSeverity::Error),
    }
}

const CANNOT_CONNECT: &str = "57P03";
pub(super) const UNDEFINED_TABLE: &str = "42P01";

/// The code and severity of a report that a connection has ended. The severity is fatal if it was the one to us.
fn ended(error: &sqlx::Error) -> Option<(&str, PgSeverity)> {
    let sqlx::Error::Database(database) = error else { return None };
    let reported = database.try_downcast_ref::<PgDatabaseError>()?;
    let code = reported.code();
    let is_ending =
        code.starts_with("08") || ["57P01", "57P02", CANNOT_CONNECT, "57P05", "25P03"].contains(&code);
    is_ending.then(|| (code, reported.severity()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn only_connections_that_were_idle_at_the_loss_are_suspect() {
        let losses = Losses::default();
        let before = Instant::now();
        assert!(!losses.happened_after(before), "nothing was lost yet");
        losses.record();
        assert!(losses.happened_after(before));
        assert!(!losses.happened_after(Instant::now() + Duration::from_millis(1)));
    }
}
