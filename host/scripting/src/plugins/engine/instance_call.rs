//! Runs one call in a fresh instance within every limit, and maps its end to a result or a failure.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::time::{Instant, timeout_at};
use wasmtime::{PoolConcurrencyLimitError, Store, Trap};
use wasmtime_wasi::I32Exit;

use super::{Component, PluginEngine};
use crate::plugins::calls::{Failure, FailureCause};
use crate::plugins::host::{CallState, Instance};
use crate::plugins::limits;
use belvedere_wasm::sandbox::{NoMemory, RunBounds};
use belvedere_web::fair_share::Tenant;

/// Attempts to allocate an instance. wasmtime's pool has enough slots for all calls that hold a place, but it searches
/// its shards one after the other, and a slot may become free in one that was already searched.
const POOL_ATTEMPTS: u32 = 1_000;

/// Part of the text of wasmtime's error when a call hands over more than [`limits::HANDED_OVER_BYTES`].
const OUTPUT_EXHAUSTED: &str = "fuel allocated for hostcalls has been exhausted";

/// Bytes of a failure's text. Some of it comes from the plugin.
const FAILURE_BYTES: usize = 500;

/// The limits of one call.
#[derive(Clone, Debug)]
pub(in crate::plugins) struct CallBounds {
    /// The tenant whose turns of the processor the call takes; `None` for a call by a script, which uses the script's.
    pub(in crate::plugins) tenant: Option<Tenant>,
    /// Guest time.
    pub(in crate::plugins) guest_time: std::time::Duration,
    /// When the call ends, done or not.
    pub(in crate::plugins) deadline: Instant,
}

/// Why a call gave no result.
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
    /// Calls `work` with a fresh instance, in a store of its own; both are dropped when this returns.
    pub(in crate::plugins) async fn call<T>(
        &self,
        component: &Component,
        mut state: CallState,
        bounds: CallBounds,
        work: impl AsyncFnOnce(&Instance<'_>, &mut Store<CallState>) -> wasmtime::Result<T>,
    ) -> Result<T, CallFailure> {
        let _ticking = self.0.ticker.tick();
        let expected = component.expected_memory.load(Ordering::Relaxed);
        // Released after the store has freed the instance.
        let _memory = state.take_memory(self.memory(), expected).await.map_err(|_| CallFailure::Busy)?;
        let mut store = self.store(state);
        let run_bounds = RunBounds {
            tenant: bounds.tenant,
            total: bounds.guest_time,
            slice: bounds.guest_time,
            calls: Arc::default(),
        };
        // Instantiating runs the module's start functions, so it is within the bounds too.
        let run = async {
            let mut attempts = 1;
            let instance = loop {
                match component.program.instantiate(&mut store).await {
                    Ok(instance) => break instance,
                    Err(error) if attempts < POOL_ATTEMPTS && error.is::<PoolConcurrencyLimitError>() => {
                        attempts += 1;
                        tokio::task::yield_now().await;
                    }
                    Err(error) => return Err(error),
                }
            };
            work(&instance, &mut store).await
        };
        let ended = timeout_at(bounds.deadline, self.processor().run(run, &run_bounds)).await;
        store.data_mut().log_output();
        match ended {
            Ok((Some(Ok(value)), _)) => {
                let expected = store.data().grown().min(limits::EXPECTED_MEMORY);
                component.expected_memory.store(expected, Ordering::Relaxed);
                Ok(value)
            }
            Ok((Some(Err(error)), _)) => Err(failure(&error, &store)),
            Ok((None, _)) => Err(plugin_failure(
                FailureCause::GuestTime,
                format!("computed for more than {:?}", bounds.guest_time),
            )),
            Err(_) if store.data().waits_for_host() => Err(CallFailure::Deadline),
            Err(_) => Err(plugin_failure(
                FailureCause::CallTime,
                format!("took longer than {:?}", limits::CALL_TIME),
            )),
        }
    }

    fn store(&self, state: CallState) -> Store<CallState> {
        let mut store = Store::new(&self.0.wasm, state);
        store.limiter_async(|state| state);
        store.set_epoch_deadline(1);
        store.epoch_deadline_async_yield_and_update(1);
        store.set_hostcall_fuel(limits::HANDED_OVER_BYTES);
        store.set_max_component_handles(limits::RESOURCES);
        store
    }
}

fn plugin_failure(cause: FailureCause, text: String) -> CallFailure {
    CallFailure::Plugin(Failure { cause, text })
}

/// The failure of a call whose guest did not return.
fn failure(error: &wasmtime::Error, store: &Store<CallState>) -> CallFailure {
    let state = store.data();
    if error.is::<PoolConcurrencyLimitError>() {
        return CallFailure::Engine("no instance is free".to_owned());
    }
    if error.is::<NoMemory>() {
        return CallFailure::Busy;
    }
    if let Some(exit) = error.downcast_ref::<I32Exit>() {
        return plugin_failure(FailureCause::Exit, format!("exited with status {}", exit.0));
    }
    let trap = error.downcast_ref::<Trap>();
    if state.memory_refused() && trap.is_some() {
        let max = state.most_memory() >> 20;
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
