//! The outputs of a method that are compared with its lexicon.

use std::sync::atomic::{AtomicU64, Ordering};

/// One of so many outputs of a method is compared with its lexicon.
const SAMPLE: u64 = 100;

/// Counts the outputs of a method.
#[derive(Debug, Default)]
pub struct OutputSample(AtomicU64);

impl OutputSample {
    /// Whether the output that was made now is one of those that are compared with the lexicon: the first, and each hundredth.
    pub fn takes(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed).is_multiple_of(SAMPLE)
    }
}
