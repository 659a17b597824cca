//! Runs that call each other, which have one reserve together, and do the same when the memory is full.

use std::sync::Arc;

use super::reserve::Reserve;

/// A run, and the runs and plugins that it calls. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct MemoryGroup {
    pub(super) when_full: WhenFull,
    pub(super) reserve: Arc<Reserve>,
}

/// The reaction of a group's runs when no memory is free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// They wait for it, and for a reserve.
    #[default]
    Wait,
    /// They wait for it, within the part that jobs may have together. They get no reserve: a job may sleep for hours, and no
    /// other run would have the reserve meanwhile.
    WaitAsJob,
    /// They are refused at once: a run that holds memory waits for them.
    Refuse,
}

impl MemoryGroup {
    pub fn new(when_full: WhenFull) -> Self {
        Self { when_full, reserve: Arc::default() }
    }
}

#[cfg(any(test, feature = "testing"))]
impl MemoryGroup {
    pub fn when_full(&self) -> WhenFull {
        self.when_full
    }

    /// Whether the two have one reserve together.
    pub fn shares_reserve_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.reserve, &other.reserve)
    }
}
