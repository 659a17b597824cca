//! `types`: the shared types, which have no functions.

use super::bindings::belvedere::plugin::types::Host;
use super::state::CallState;

impl Host for CallState {}
