//! `types`: the shared types, which have no functions.

use super::bindings::belvedere::script::types::Host;
use super::state::RunState;

impl Host for RunState {}
