//! Recognises lost connections, and remembers when the last one was found.
//!
//! When PostgreSQL restarts, or an administrator or a firewall ends connections, the client learns of it at the next
//! use of each of them. So the first loss makes all connections suspect that have been idle since: the pools close
//! them instead of handing them out.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

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
    match error {
        sqlx::Error::Io(_) => true,
        sqlx::Error::Database(database) => database.code().is_some_and(|code| {
            code.starts_with("08") || ["57P01", "57P02", "57P05", "25P03"].contains(&&*code)
        }),
        _ => false,
    }
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
