//! `types`: the shared types, which have no functions.

use super::Refusal;
use super::state::RunState;
use crate::scripts::bindings::belvedere::script::types::{Fault, Host};

impl Host for RunState {
    fn convert_fault(&mut self, refusal: Refusal) -> wasmtime::Result<Fault> {
        refusal.into_fault()
    }
}
