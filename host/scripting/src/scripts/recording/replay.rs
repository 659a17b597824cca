//! The conditions and the result of running a body on a recorded run.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::masks::VariableMasks;
use crate::scripts::{ScriptSet, Variables};

/// Runs bodies on recorded runs. Cheap to clone.
#[derive(Clone)]
pub struct Replayer {
    /// The libraries are among these.
    pub(in crate::scripts) scripts: Arc<ScriptSet>,
    pub(in crate::scripts) masks: Arc<VariableMasks>,
    /// Whether `env` has the values of script variables. A script can show them in any form.
    pub(in crate::scripts) with_values: bool,
}

impl fmt::Debug for Replayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replayer").field("with_values", &self.with_values).finish_non_exhaustive()
    }
}

impl Replayer {
    pub fn new(scripts: Arc<ScriptSet>, variables: &Variables, with_values: bool) -> Self {
        Self { scripts, masks: Arc::new(VariableMasks::new(variables)), with_values }
    }
}

/// The ways in which a replayed run differs from the recorded one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DifferenceKind {
    /// It returns another value.
    Answer,
    /// It fails, or fails in another way, or does not fail any more.
    Error,
    /// It makes a call that the recorded run did not make.
    Asked,
    /// It does not make a call that the recorded run made.
    NotAsked,
}

/// A difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub kind: DifferenceKind,
    /// For a call the function, as `db.get`; for an answer the field, as `notes[].text`; for an error its text without numbers.
    pub place: String,
    /// For a call the readable part of its arguments, else both values.
    pub detail: String,
    /// Whether it is a call that changes something outside of the run.
    pub is_write: bool,
}

/// A replayed run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// Empty when both runs are equal to the byte.
    pub differences: Vec<Difference>,
    /// Instructions of the recorded run.
    pub recorded_instructions: Option<u32>,
    pub instructions: Option<u32>,
}
