//! A compiled script.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use bytes::Bytes;

use super::sample::OutputSample;
use super::tally::Tally;
use crate::scripts::ScriptFailure;
use crate::scripts::contract::Contract;
use crate::scripts::mentions::Required;
use crate::scripts::profile::{SampledProfile, SampledProfiles};
use belvedere_protocol::trigger::Trigger;

/// A compiled script. Only the engine makes these, so the bytecode always comes from its compiler.
#[derive(Debug)]
pub struct CompiledScript {
    pub(in crate::scripts) trigger: Trigger,
    pub(in crate::scripts) name: Arc<str>,
    pub(in crate::scripts) source: Arc<str>,
    /// The failure, for a stored script that does not compile. Running the script returns it, instead of falling back
    /// to the built-in behaviour.
    pub(in crate::scripts) bytecode: Result<Bytes, ScriptFailure>,
    pub(in crate::scripts) tally: Tally,
    /// The sum of the profiles of its sampled runs.
    pub(in crate::scripts) profiles: SampledProfiles,
    pub(in crate::scripts) methods: Vec<String>,
    pub(in crate::scripts) required: Vec<Required>,
    /// Whether the script takes its parameters as text.
    pub(in crate::scripts) raw_params: bool,
    /// The contract that the source is written for.
    pub(in crate::scripts) contract: Contract,
    /// Whether [`Self::first_kept_row`] was called.
    pub(in crate::scripts) kept_a_row: AtomicBool,
    /// The newest revision that has the source; 0 if it was not stored.
    pub(in crate::scripts) revision: AtomicI64,
    /// Whether it is a candidate for the body of that revision.
    pub(in crate::scripts) is_candidate: bool,
    pub outputs: OutputSample,
}

impl CompiledScript {
    /// The methods that its source names in `xrpc.query("…")` and `xrpc.procedure("…")`, sorted.
    pub fn methods(&self) -> &[String] {
        &self.methods
    }

    /// The libraries that its source names in `require("…")`, in order, each once.
    pub fn required(&self) -> impl Iterator<Item = &str> {
        self.required.iter().map(|required| &*required.name)
    }

    pub fn trigger(&self) -> &Trigger {
        &self.trigger
    }

    /// Whether this is the first time that the script kept the row of a deleted record, which is reported once. A new
    /// source of the trigger is a new script.
    pub fn first_kept_row(&self) -> bool {
        !self.kept_a_row.swap(true, Ordering::Relaxed)
    }

    /// The version, as `revision 3` or `candidate of revision 3`; `None` for a script that is not stored.
    pub fn version(&self) -> Option<String> {
        let revision = self.revision.load(Ordering::Relaxed);
        let of = if self.is_candidate { "candidate of " } else { "" };
        (revision > 0).then(|| format!("{of}revision {revision}"))
    }

    /// The sum of the profiles of its sampled runs on this host; `None` before the first.
    pub fn sampled_profile(&self) -> Option<SampledProfile> {
        self.profiles.read()
    }

    pub fn source(&self) -> &str {
        &self.source
    }
}
