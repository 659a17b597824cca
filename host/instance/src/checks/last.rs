//! The last run of the checks of a running server.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use super::Check;
use belvedere_base::clock::{Clock, Timestamp};

/// Time for which the result of a run is used again: each run sends requests to other servers.
const MAX_AGE: Duration = Duration::from_secs(10);

/// Runs the checks once for callers that come close together. One run at a time: those that come meanwhile wait for it.
#[derive(Debug, Default)]
pub struct LastChecks(Mutex<Option<Run>>);

#[derive(Clone, Debug)]
struct Run {
    ended: Instant,
    at: Timestamp,
    checks: Vec<Check>,
}

impl LastChecks {
    /// The results, and when they were found.
    pub async fn get_or_run(
        &self,
        clock: &Clock,
        run: impl AsyncFnOnce() -> Vec<Check>,
    ) -> (Timestamp, Vec<Check>) {
        let mut last = self.0.lock().await;
        if let Some(Run { ended, at, checks }) = &*last
            && ended.elapsed() < MAX_AGE
        {
            return (*at, checks.clone());
        }
        let (checks, at) = (run().await, clock.now());
        *last = Some(Run { ended: Instant::now(), at, checks: checks.clone() });
        (at, checks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_result_is_used_again_for_some_seconds() {
        let (last, clock) = (LastChecks::default(), Clock::fixed(Timestamp(7)));
        let run = async |n: usize| {
            let checks =
                last.get_or_run(&clock, async || vec![Check::new("a", "a", Ok(n.to_string()))]).await.1;
            checks[0].result.clone()
        };
        assert_eq!(run(1).await, Ok("1".to_owned()));
        tokio::time::advance(MAX_AGE.saturating_sub(Duration::from_millis(1))).await;
        assert_eq!(run(2).await, Ok("1".to_owned()));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(run(3).await, Ok("3".to_owned()));
    }
}
