//! The state that a run shares with the runs it calls through `xrpc.*`: the deadline, the number of calls and the
//! reserve of memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::scripts::limits;
use belvedere_protocol::trigger::TriggerKind;
use belvedere_wasm::sandbox::{MemoryGroup, WhenFull};

/// A run's depth in a tree of nested runs, and the state that these runs share. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Lineage {
    /// The number of runs that this one is nested in; 0 for a run that no script called.
    depth: u32,
    deadline: Instant,
    /// Calls of `xrpc.*` by all runs of the lineage.
    calls: Arc<AtomicU32>,
    memory: MemoryGroup,
    max_calls: u32,
    /// Whether the first run answers a query, whose reads may be slightly old.
    may_lag: bool,
}

impl Lineage {
    /// For a run that no script called.
    pub(in crate::scripts) fn root(kind: TriggerKind) -> Self {
        let (time, factor) = match kind {
            TriggerKind::JobRun | TriggerKind::Schedule => (limits::JOB_TIME, limits::JOB_FACTOR),
            TriggerKind::Setup => (limits::RUN_TIME, limits::JOB_FACTOR),
            TriggerKind::Query | TriggerKind::View | TriggerKind::Procedure => (limits::RUN_TIME, 1),
            TriggerKind::RecordCreate
            | TriggerKind::RecordUpdate
            | TriggerKind::RecordDelete
            | TriggerKind::RecordIndex
            | TriggerKind::LabelApply
            | TriggerKind::Subscription
            | TriggerKind::Library => (limits::EVENT_TIME, 1),
        };
        let when_full = if kind.is_job() { WhenFull::WaitAsJob } else { WhenFull::Wait };
        Self {
            depth: 0,
            deadline: Instant::now() + time,
            calls: Arc::default(),
            memory: MemoryGroup::new(when_full),
            max_calls: limits::XRPC_CALLS * factor,
            may_lag: kind == TriggerKind::Query,
        }
    }

    /// For a run that another run may wait for because it has made a write.
    pub fn of_write(kind: TriggerKind) -> Self {
        Self { memory: MemoryGroup::new(WhenFull::Refuse), ..Self::root(kind).nested() }
    }

    /// For a dry run, which may take as long as a run of this kind.
    pub fn of_dry_run(kind: TriggerKind) -> Self {
        Self { may_lag: false, ..Self::root(kind) }
    }

    /// For a run that a run of this lineage calls.
    pub(in crate::scripts) fn nested(&self) -> Self {
        let deadline = self.deadline.min(Instant::now() + limits::RUN_TIME);
        Self { depth: self.depth + 1, deadline, ..self.clone() }
    }

    /// Whether reads of records may be slightly old. Events, jobs, procedures and dry runs, and what they call, act on the
    /// newest state.
    pub fn may_lag(&self) -> bool {
        self.may_lag
    }

    pub(in crate::scripts) fn depth(&self) -> u32 {
        self.depth
    }

    /// When the run ends, whether or not it is done.
    pub(in crate::scripts) fn deadline(&self) -> Instant {
        self.deadline
    }

    pub(in crate::scripts) fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    pub(in crate::scripts) fn memory(&self) -> &MemoryGroup {
        &self.memory
    }

    /// Counts a call of a method. The error is the maximum.
    pub(in crate::scripts) fn count_call(&self) -> Result<(), u32> {
        if self.calls.fetch_add(1, Ordering::Relaxed) < self.max_calls { Ok(()) } else { Err(self.max_calls) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn nested_runs_share_calls_and_deadline() {
        let first = Lineage::root(TriggerKind::Query);
        tokio::time::advance(limits::RUN_TIME / 2).await;
        let (one, other) = (first.nested(), first.nested().nested());
        assert_eq!((one.deadline(), other.deadline()), (first.deadline(), first.deadline()));
        assert_eq!((one.depth(), other.depth()), (1, 2));
        assert!(one.may_lag() && !Lineage::root(TriggerKind::Procedure).nested().may_lag());
        assert!(!Lineage::of_dry_run(TriggerKind::Query).may_lag());
        for _ in 0..limits::XRPC_CALLS / 2 {
            assert!(one.count_call().is_ok() && other.count_call().is_ok());
        }
        assert_eq!(first.count_call(), Err(limits::XRPC_CALLS));
    }

    #[tokio::test(start_paused = true)]
    async fn runs_called_by_a_job_have_the_time_of_a_call() {
        let job = Lineage::root(TriggerKind::JobRun);
        assert_eq!((job.time_left(), job.nested().time_left()), (limits::JOB_TIME, limits::RUN_TIME));
        tokio::time::advance(limits::JOB_TIME.saturating_sub(Duration::from_secs(1))).await;
        assert_eq!(job.nested().time_left(), Duration::from_secs(1));
    }

    #[tokio::test]
    async fn only_jobs_and_runs_for_which_a_write_waits_get_no_reserve() {
        for kind in TriggerKind::ALL {
            let expected = if kind.is_job() { WhenFull::WaitAsJob } else { WhenFull::Wait };
            assert_eq!(Lineage::root(kind).memory().when_full(), expected, "{kind:?}");
            assert_eq!(Lineage::of_dry_run(kind).memory().when_full(), expected, "{kind:?}");
            let of_write = Lineage::of_write(kind);
            assert_eq!((of_write.memory().when_full(), of_write.depth()), (WhenFull::Refuse, 1), "{kind:?}");
        }
    }

    #[tokio::test]
    async fn nested_runs_have_the_reserve_of_the_first() {
        for first in [Lineage::root(TriggerKind::Query), Lineage::of_write(TriggerKind::RecordCreate)] {
            let nested = first.nested().nested();
            assert_eq!(nested.memory().when_full(), first.memory().when_full());
            assert!(nested.memory().shares_reserve_with(first.memory()));
        }
        let other = Lineage::root(TriggerKind::Query);
        assert!(!other.memory().shares_reserve_with(Lineage::root(TriggerKind::Query).memory()));
    }
}
