//! Runs one call in a fresh instance within every limit, and maps its end to a result or a failure.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use wasmtime::{PoolConcurrencyLimitError, Store, Trap};
use wasmtime_wasi::I32Exit;

use super::program::Guest;
use super::{Component, Inner, PluginEngine};
use crate::plugins::failure::{Failure, FailureCause};
use crate::plugins::host::CallState;
use crate::plugins::limits;
use belvedere_wasm::sandbox::{RunBounds, RunEnd, RunLimits};
use belvedere_web::fair_share::Tenant;

/// Part of the text of wasmtime's error when a call hands over more than [`limits::HANDED_OVER_BYTES`].
const OUTPUT_EXHAUSTED: &str = "fuel allocated for hostcalls has been exhausted";

/// Bytes of a failure's text. Some of it comes from the plugin.
const FAILURE_BYTES: usize = 500;

/// The reason why a call gave no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::plugins) enum CallFailure {
    /// The plugin's own failure: a trap, too much memory or guest time, or a result that can't be read.
    Plugin(Failure),
    /// It computed for as long as the run of the script that made it could.
    Run,
    /// It waited for too long, which other servers may have caused.
    Deadline,
    /// There was no memory for it.
    Busy,
    /// The engine failed.
    Engine(String),
}

impl PluginEngine {
    /// Calls `work` with a fresh instance, in a store of its own; both are dropped when this returns. `tenant` is that whose
    /// turns of the processor the call takes; `None` for a call by a script, which uses the script's.
    pub(in crate::plugins) async fn call<T>(
        &self,
        component: &Component,
        state: CallState,
        tenant: Option<Tenant>,
        guest_time: Duration,
        work: impl AsyncFnOnce(&Guest<'_>, &mut Store<CallState>) -> wasmtime::Result<T>,
    ) -> Result<T, CallFailure> {
        let Inner { runner, ticker, .. } = &*self.0;
        let _ticking = ticker.tick();
        let run = RunLimits {
            expected_memory: component.expected_memory.load(Ordering::Relaxed),
            bounds: RunBounds { tenant, total: guest_time, slice: guest_time, calls: Arc::default() },
            deadline: state.deadline(),
        };
        let memory = state.run_memory(self.memory());
        let mut store = runner.store(state, memory);
        let program = &component.program;
        let work =
            async |instance: &_, store: &mut Store<CallState>| work(&program.of(instance), store).await;
        let (end, _) = runner.run(&mut store, &run, program.pre(), work).await;
        let state = store.get_mut().data_mut();
        state.log_output();
        match end {
            RunEnd::Returned(value) => {
                let grown = state.memory.grown().min(limits::EXPECTED_MEMORY);
                component.expected_memory.store(grown, Ordering::Relaxed);
                Ok(value)
            }
            RunEnd::NoMemory(_) => Err(CallFailure::Busy),
            RunEnd::Failed(error) => Err(failure(&error, state)),
            RunEnd::GuestTime => {
                let text = format!("computed for more than {guest_time:?}");
                Err(plugin_failure(FailureCause::GuestTime, text))
            }
            RunEnd::Deadline if state.waits_for_host() => Err(CallFailure::Deadline),
            RunEnd::Deadline => {
                let text = format!("took longer than {:?}", limits::CALL_TIME);
                Err(plugin_failure(FailureCause::CallTime, text))
            }
        }
    }
}

/// Makes a call yield with each tick of the engine, and bounds what the host keeps for it.
pub(super) fn limit(store: &mut Store<CallState>) {
    store.set_epoch_deadline(1);
    store.epoch_deadline_async_yield_and_update(1);
    store.set_hostcall_fuel(limits::HANDED_OVER_BYTES);
    store.set_max_component_handles(limits::RESOURCES);
}

fn plugin_failure(cause: FailureCause, text: String) -> CallFailure {
    CallFailure::Plugin(Failure { cause, text })
}

/// The failure of a call whose guest did not return.
fn failure(error: &wasmtime::Error, state: &CallState) -> CallFailure {
    if error.is::<PoolConcurrencyLimitError>() {
        return CallFailure::Engine("no instance is free".to_owned());
    }
    if let Some(exit) = error.downcast_ref::<I32Exit>() {
        return plugin_failure(FailureCause::Exit, format!("exited with status {}", exit.0));
    }
    let trap = error.downcast_ref::<Trap>();
    if state.memory.was_refused() && trap.is_some() {
        let max = state.memory.most() >> 20;
        return plugin_failure(FailureCause::Memory, format!("needs more than {max} MiB of memory"));
    }
    let (cause, text) = match trap {
        Some(Trap::StackOverflow) => (FailureCause::StackOverflow, "stack overflow".to_owned()),
        Some(trap @ Trap::UnreachableCodeReached) => (FailureCause::Unreachable, trap.to_string()),
        Some(trap) => (FailureCause::Trap, trap.to_string()),
        None => {
            let text = format!("{error:#}");
            // wasmtime has no type for it.
            let cause =
                if text.contains(OUTPUT_EXHAUSTED) { FailureCause::Output } else { FailureCause::Host };
            (cause, text)
        }
    };
    let mut text = state.redact(&text).into_owned();
    text.truncate(text.floor_char_boundary(FAILURE_BYTES));
    plugin_failure(cause, text)
}
