//! `types`: the shared types, which have no functions.

use super::Refusal;
use super::state::CallState;
use crate::plugins::bindings::belvedere::plugin::types::{Fault, Host};

impl Host for CallState {
    fn convert_fault(&mut self, refusal: Refusal) -> wasmtime::Result<Fault> {
        refusal.into_fault()
    }
}
