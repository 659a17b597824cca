//! Receives how each run ended, for tests and profiles of scripts.

use std::sync::Arc;

use crate::scripts::{RunProfile, ScriptFailure};

/// A run that has ended.
#[derive(Clone, Debug)]
pub struct EndedRun {
    pub trigger: Arc<str>,
    /// The instructions that it executed; `None` for a run that counts them between calls of the host only, such as a job.
    pub instructions: Option<u32>,
    pub failure: Option<ScriptFailure>,
    /// For an observer that wants profiles.
    pub profile: Option<Arc<RunProfile>>,
}

/// Receives runs, and those that they call, in the order in which they end. Must not block.
pub trait RunObserver: Send + Sync {
    /// Whether runs are to be profiled, which makes them slower.
    fn wants_profiles(&self) -> bool {
        false
    }

    fn ended(&self, run: EndedRun);
}
