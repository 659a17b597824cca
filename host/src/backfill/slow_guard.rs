//! Notices PDSs that give a repo too slowly.

use std::time::Duration;

use tokio::time::Instant;

use super::failure::{ErrorKind, Failure};

/// A repo that gives fewer answers than one a second for this long is given up: other jobs wait for this one.
const SLOW_AFTER: Duration = Duration::from_mins(10);

/// Counts what a repo gives, to notice a PDS that answers too slowly.
pub(super) struct SlowGuard {
    began: Instant,
}

impl SlowGuard {
    pub(super) fn new() -> Self {
        Self { began: Instant::now() }
    }

    /// # Errors
    /// When `given` records or answers since the beginning are too few.
    pub(super) fn check(&self, given: i64) -> Result<(), Failure> {
        if self.began.elapsed() > SLOW_AFTER && given < self.began.elapsed().as_secs() as i64 {
            return Err(Failure::new(ErrorKind::Timeout, "the PDS gives fewer than one record a second"));
        }
        Ok(())
    }
}
