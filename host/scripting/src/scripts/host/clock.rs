//! `clock`: the current time, and TIDs for record keys.

use super::state::RunState;
use crate::scripts::bindings::belvedere::script::clock::Host;

impl Host for RunState {
    fn now(&mut self) -> wasmtime::Result<i64> {
        Ok(self.clock.now().0)
    }

    fn tid(&mut self) -> wasmtime::Result<String> {
        Ok(self.tids.next(self.clock.now()))
    }
}
