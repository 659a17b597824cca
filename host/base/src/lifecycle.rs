//! Shuts the process down: signals, drain and hard stop.
//!
//! The first SIGTERM or SIGINT begins the drain: no new connection is accepted, requests in flight are finished, and
//! the stream commits what it has. The process ends when that is done, or after [`DRAIN_TIME`]. A second signal ends it
//! at once; the stream then resumes from its last committed cursor.

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Time that requests have to finish after a signal to stop. Shorter than the 30 s after which container runtimes kill
/// the process, and the 90 s of systemd.
pub const DRAIN_TIME: Duration = Duration::from_secs(20);

/// The shutdown tokens that all parts of the server share.
#[derive(Clone, Debug, Default)]
pub struct Lifecycle {
    /// Cancelled when the drain begins: finish what was begun, begin nothing new.
    pub drain: CancellationToken,
    /// Cancelled on a hard stop: drop everything.
    pub stop: CancellationToken,
}

impl Lifecycle {
    /// Spawns a task that cancels the tokens on SIGTERM and SIGINT. It runs as long as the process.
    ///
    /// # Errors
    /// When the signal handlers can't be installed.
    pub fn handle_signals(&self) -> std::io::Result<()> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let lifecycle = self.clone();
        tokio::spawn(async move {
            let mut next = async || {
                tokio::select! {
                    _ = terminate.recv() => "SIGTERM",
                    _ = interrupt.recv() => "SIGINT",
                }
            };
            let first = next().await;
            tracing::info!(
                signal = first,
                "shutting down: finishing the requests in flight; a second signal stops at once"
            );
            lifecycle.drain.cancel();
            let second = next().await;
            tracing::warn!(signal = second, "stopping at once");
            lifecycle.stop.cancel();
        });
        Ok(())
    }

    /// Waits for `work`, for at most `time` and until a hard stop. Returns whether `work` finished.
    pub async fn finish(&self, time: Duration, work: impl Future<Output = ()>) -> bool {
        tokio::select! {
            () = work => true,
            () = self.stop.cancelled() => false,
            () = tokio::time::sleep(time) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn finish_ends_with_the_work_the_timeout_or_a_hard_stop() {
        let lifecycle = Lifecycle::default();
        assert!(lifecycle.finish(DRAIN_TIME, async {}).await);
        assert!(!lifecycle.finish(DRAIN_TIME, std::future::pending()).await);
        lifecycle.stop.cancel();
        assert!(!lifecycle.finish(Duration::MAX, std::future::pending()).await);
    }
}
