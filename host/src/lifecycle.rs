//! Signals, drain, hard stop.
//!
//! The first SIGTERM or SIGINT begins the drain: no new connections, requests in flight are finished, the stream
//! commits what it has. When that is done, or after [`DRAIN_TIME`], the process ends. A second signal ends it at
//! once; the stream then resumes from its last committed cursor.

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// How long requests may take to finish. Below the 30 s that container runtimes and the 90 s that systemd wait
/// before they kill.
pub const DRAIN_TIME: Duration = Duration::from_secs(20);

/// How the parts of the server learn that it ends.
#[derive(Clone, Debug, Default)]
pub struct Lifecycle {
    /// Finish what was begun, begin nothing new.
    pub drain: CancellationToken,
    /// Drop everything.
    pub stop: CancellationToken,
}

impl Lifecycle {
    /// Listens for signals. The task lives as long as the process.
    ///
    /// # Errors
    /// When the system does not let us handle signals.
    pub fn watch_signals(&self) -> std::io::Result<()> {
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
            tracing::info!(signal = first, "finishing the requests in flight; once more to stop at once");
            lifecycle.drain.cancel();
            let second = next().await;
            tracing::warn!(signal = second, "stopping at once");
            lifecycle.stop.cancel();
        });
        Ok(())
    }

    /// Waits for `work`, but not beyond `time` and not beyond a hard stop. Whether it was finished.
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
    async fn waiting_ends_with_the_work_the_time_or_a_hard_stop() {
        let lifecycle = Lifecycle::default();
        assert!(lifecycle.finish(DRAIN_TIME, async {}).await);
        assert!(!lifecycle.finish(DRAIN_TIME, std::future::pending()).await);
        lifecycle.stop.cancel();
        assert!(!lifecycle.finish(Duration::MAX, std::future::pending()).await);
    }
}
