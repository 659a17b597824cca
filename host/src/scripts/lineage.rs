//! What a run shares with the runs that it calls through `xrpc.*`: until when they may run, and how many calls are left.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::limits;
use crate::trigger::TriggerKind;

/// The place of a run among those that called each other. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Lineage {
    /// How many runs this one is nested in: 0 for what came from outside.
    depth: u32,
    deadline: Instant,
    /// Calls of `xrpc.*` by all runs of the lineage, and how many there may be.
    calls: Arc<AtomicU32>,
    max_calls: u32,
}

impl Lineage {
    /// Of a run that no script called.
    pub(super) fn first(kind: TriggerKind) -> Self {
        let (time, times) = match kind {
            TriggerKind::JobRun => (limits::JOB_TIME, limits::JOB_TIMES),
            _ => (limits::RUN_TIME, 1),
        };
        Self {
            depth: 0,
            deadline: Instant::now() + time,
            calls: Arc::default(),
            max_calls: limits::XRPC_CALLS * times,
        }
    }

    /// Of a run that a run of this lineage calls.
    pub(super) fn nested(&self) -> Self {
        let deadline = self.deadline.min(Instant::now() + limits::RUN_TIME);
        Self { depth: self.depth + 1, deadline, ..self.clone() }
    }

    pub(super) fn depth(&self) -> u32 {
        self.depth
    }

    /// When the run ends, whether or not it is done.
    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    pub(super) fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Counts a call of a method. The error is how many there may be.
    pub(super) fn count_call(&self) -> Result<(), u32> {
        if self.calls.fetch_add(1, Ordering::Relaxed) < self.max_calls { Ok(()) } else { Err(self.max_calls) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn nested_runs_share_calls_and_deadline() {
        let first = Lineage::first(TriggerKind::Query);
        tokio::time::advance(limits::RUN_TIME / 2).await;
        let (one, other) = (first.nested(), first.nested().nested());
        assert_eq!((one.deadline(), other.deadline()), (first.deadline(), first.deadline()));
        assert_eq!((one.depth(), other.depth()), (1, 2));
        for _ in 0..limits::XRPC_CALLS / 2 {
            assert!(one.count_call().is_ok() && other.count_call().is_ok());
        }
        assert_eq!(first.count_call(), Err(limits::XRPC_CALLS));
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_job_calls_has_the_time_of_a_call() {
        let job = Lineage::first(TriggerKind::JobRun);
        assert_eq!((job.time_left(), job.nested().time_left()), (limits::JOB_TIME, limits::RUN_TIME));
        tokio::time::advance(limits::JOB_TIME.saturating_sub(Duration::from_secs(1))).await;
        assert_eq!(job.nested().time_left(), Duration::from_secs(1));
    }
}
