//! The time in which the directory of did:plc is not asked, because it answered 429.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The end of the pause that the directory asked for.
#[derive(Debug, Default)]
pub(super) struct DirectoryPause(Mutex<Option<Instant>>);

impl DirectoryPause {
    /// Begins a pause, or makes it longer.
    pub(super) fn begin(&self, wait: Duration) {
        let end = Instant::now() + wait;
        let mut pause = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *pause = Some(pause.map_or(end, |old| old.max(end)));
    }

    /// The rest of the pause.
    pub(super) fn left(&self) -> Option<Duration> {
        let mut pause = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let left = (*pause)?.saturating_duration_since(Instant::now());
        if left.is_zero() {
            *pause = None;
            return None;
        }
        Some(left)
    }
}
