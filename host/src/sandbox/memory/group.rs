//! Runs that call each other, which have one reserve together and wait for memory on the same terms.

use std::sync::Arc;

use super::reserve::Reserve;

/// A run, and the runs and plugins that it calls. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct MemoryGroup {
    pub(super) terms: Terms,
    pub(super) reserve: Arc<Reserve>,
}

/// How the runs of a group get memory that is not free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Terms {
    /// They wait for it, and for a reserve.
    #[default]
    Reserve,
    /// They wait for it, and for a part of what jobs may have together. They get no reserve: a job may sleep for hours, and
    /// nobody else would have the reserve meanwhile.
    Job,
    /// They do not wait: a run that holds memory waits for them.
    AtOnce,
}

impl MemoryGroup {
    pub fn new(terms: Terms) -> Self {
        Self { terms, reserve: Arc::default() }
    }
}

#[cfg(test)]
impl MemoryGroup {
    pub fn terms(&self) -> Terms {
        self.terms
    }

    /// Whether the two have one reserve together.
    pub fn shares_reserve_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.reserve, &other.reserve)
    }
}
