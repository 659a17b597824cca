//! `wasi:clocks/monotonic-clock`: timers for at most some seconds of a call. A program that sleeps keeps its instance from
//! others.

use std::time::Duration;

use wasmtime::bail;
use wasmtime::component::Resource;
use wasmtime_wasi::clocks::WasiClocksView as _;
use wasmtime_wasi::p2::DynPollable;
use wasmtime_wasi::p2::bindings::clocks::monotonic_clock::Host;

use super::state::CallState;
use crate::plugins::limits;

impl Host for CallState {
    fn now(&mut self) -> wasmtime::Result<u64> {
        Host::now(&mut self.clocks())
    }

    fn resolution(&mut self) -> wasmtime::Result<u64> {
        Host::resolution(&mut self.clocks())
    }

    fn subscribe_instant(&mut self, when: u64) -> wasmtime::Result<Resource<DynPollable>> {
        let now = Host::now(&mut self.clocks())?;
        count(self, when.saturating_sub(now))?;
        Host::subscribe_instant(&mut self.clocks(), when)
    }

    fn subscribe_duration(&mut self, duration: u64) -> wasmtime::Result<Resource<DynPollable>> {
        count(self, duration)?;
        Host::subscribe_duration(&mut self.clocks(), duration)
    }
}

/// Counts the time of a timer, whether or not the program waits for it.
fn count(state: &mut CallState, nanoseconds: u64) -> wasmtime::Result<()> {
    state.timers = state.timers.saturating_add(Duration::from_nanos(nanoseconds));
    if state.timers > limits::TIMERS {
        bail!("set timers for more than {:?} in all", limits::TIMERS);
    }
    Ok(())
}
