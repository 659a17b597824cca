//! Limits how often repos that the stream marks for a repair become a job. Marks that come in between share the next job.

use std::time::Duration;

use tokio::time::Instant;

/// Jobs of repairs in a row: single accounts that move are repaired at once.
const BURST: u32 = 20;

/// Interval between jobs after a burst. Jobs are never deleted, and the list of jobs shows all.
const INTERVAL: Duration = Duration::from_mins(10);

/// Counts the jobs of repairs.
#[derive(Debug)]
pub(super) struct RepairPace {
    left: u32,
    /// The time at which `left` was last full or counted up.
    refilled: Instant,
}

impl RepairPace {
    pub(super) fn new() -> Self {
        Self { left: BURST, refilled: Instant::now() }
    }

    /// Whether another job may be queued now.
    pub(super) fn is_due(&mut self) -> bool {
        while self.left < BURST && self.refilled.elapsed() >= INTERVAL {
            self.left += 1;
            self.refilled += INTERVAL;
        }
        self.left > 0
    }

    /// Counts a job.
    pub(super) fn spend(&mut self) {
        if self.left == BURST {
            self.refilled = Instant::now();
        }
        self.left = self.left.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_followed_by_one_job_per_interval() {
        let mut pace = RepairPace::new();
        tokio::time::advance(INTERVAL * 100).await;
        for _ in 0..BURST {
            assert!(pace.is_due());
            pace.spend();
        }
        assert!(!pace.is_due());
        tokio::time::advance(INTERVAL * 99 / 100).await;
        assert!(!pace.is_due());
        tokio::time::advance(INTERVAL / 100).await;
        assert!(pace.is_due());
        pace.spend();
        assert!(!pace.is_due());
        tokio::time::advance(INTERVAL * 5 / 2).await;
        for _ in 0..2 {
            assert!(pace.is_due());
            pace.spend();
        }
        assert!(!pace.is_due());
        tokio::time::advance(INTERVAL / 2).await;
        assert!(pace.is_due(), "half an interval was saved");
    }
}
