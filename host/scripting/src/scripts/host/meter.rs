//! `meter`: ends a run that has used up its instructions.

use super::state::RunState;
use crate::scripts::bindings::belvedere::script::meter::Host;

/// The trap that ends the run. Nothing in the guest can catch it.
#[derive(Debug, thiserror::Error)]
#[error("the instruction limit is used up")]
pub(in crate::scripts) struct InstructionsExhausted {
    /// The script's line that was running.
    pub(in crate::scripts) line: Option<u32>,
}

impl Host for RunState {
    fn exhausted(&mut self, line: u32) -> wasmtime::Result<()> {
        Err(InstructionsExhausted { line: (line > 0).then_some(line) }.into())
    }
}
