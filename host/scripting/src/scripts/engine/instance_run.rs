//! Runs one piece of work in a fresh instance within every limit, and maps its end to a result or a failure.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::timeout_at;
use wasmtime::{Engine, PoolConcurrencyLimitError, Store, Trap, WasmCoreDump};

use crate::scripts::dry_run::DryRunUsage;
use crate::scripts::failure::{FailureKind, ScriptFailure};
use crate::scripts::host::{Guest, Instance, InstructionsExhausted, RunState};
use crate::scripts::invocation::Usage;
use crate::scripts::limits;
use crate::scripts::scheduling::Lineage;
use belvedere_wasm::sandbox::{ProcessorPool, RunBounds, RunMemory};
use belvedere_web::fair_share::Full;

/// Attempts to allocate an instance. wasmtime's pool has enough slots for all runs that hold a place, but it searches
/// its shards one after the other, and a slot may become free in one that was already searched.
const POOL_ATTEMPTS: u32 = 1_000;

/// First byte of Lua bytecode. Only bytecode from the engine's own compiler is run: crafted bytecode can break the VM.
const BYTECODE: u8 = 0x1b;

/// Refuses bytecode and oversized sources before the guest sees them.
pub(in crate::scripts) fn check_source(source: &str) -> Result<(), ScriptFailure> {
    if source.as_bytes().first() == Some(&BYTECODE) {
        return Err(ScriptFailure::new(FailureKind::Syntax, "a script is source text, not bytecode"));
    }
    if source.len() > limits::SOURCE_BYTES {
        let message = format!("the source is larger than {} bytes", limits::SOURCE_BYTES);
        return Err(ScriptFailure::new(FailureKind::Syntax, message));
    }
    Ok(())
}

pub(in crate::scripts) fn check_result(body: &[u8]) -> Result<(), ScriptFailure> {
    if body.len() > limits::RESULT_BYTES {
        let message = format!("the result is larger than {} bytes", limits::RESULT_BYTES);
        return Err(ScriptFailure::new(FailureKind::Runtime, message));
    }
    Ok(())
}

pub(in crate::scripts) fn no_instance(full: Full) -> ScriptFailure {
    ScriptFailure::new(FailureKind::Busy, format!("no instance for the run: {full}"))
}

pub(in crate::scripts) fn no_memory(full: Full) -> ScriptFailure {
    ScriptFailure::new(FailureKind::Busy, format!("no memory for the run: {full}"))
}

pub(in crate::scripts) fn deadline_exceeded(lineage: &Lineage) -> ScriptFailure {
    let whose = if lineage.depth() > 0 { "the scripts that called each other took" } else { "took" };
    ScriptFailure::new(FailureKind::Limit, format!("{whose} longer than a run may take, waiting included"))
}

pub(in crate::scripts) fn throttled(wait: Duration) -> ScriptFailure {
    let message = format!("the caller's share of the processor is used up for another {wait:?}");
    let mut failure = ScriptFailure::new(FailureKind::Throttled, message);
    failure.retry_after = Some(wait);
    failure
}

/// How a run ended, and what it used.
pub(in crate::scripts) struct RunReport<T> {
    pub(in crate::scripts) result: Result<T, ScriptFailure>,
    pub(in crate::scripts) usage: Usage,
}

/// Runs `work` in a fresh instance, in a store of its own; both are dropped when this returns. Stores the fuel used in
/// `fuel_used`, also when this future is dropped before it ends.
pub(in crate::scripts) async fn within_limits<T>(
    engine: &Engine,
    guest: &Guest,
    processor: &ProcessorPool,
    state: RunState,
    fuel_used: &AtomicU64,
    work: impl AsyncFnOnce(&Instance, &mut Store<RunState>) -> wasmtime::Result<Result<T, ScriptFailure>>,
) -> RunReport<T> {
    let factor = state.factor();
    let fuel = limits::FUEL * u64::from(factor);
    let lineage = state.lineage().clone();
    let memory = state.memory.run().cloned();
    let bounds = RunBounds {
        tenant: (lineage.depth() == 0).then(|| state.tenant().clone()),
        total: limits::GUEST_TIME * factor,
        slice: limits::GUEST_TIME,
        calls: Arc::clone(state.host_calls()),
    };
    let (instance, store) = match timeout_at(lineage.deadline(), instance(engine, guest, state, fuel)).await {
        Ok(Ok(ready)) => ready,
        Ok(Err(failure)) => return RunReport { result: Err(failure), usage: Usage::default() },
        Err(_) => return RunReport { result: Err(deadline_exceeded(&lineage)), usage: Usage::default() },
    };
    let mut metered = MeteredStore { store, fuel, fuel_used, _memory: memory };
    let run = processor.run(work(&instance, &mut metered.store), &bounds);
    let (ended, guest_time) = match timeout_at(lineage.deadline(), run).await {
        Ok((Some(ended), guest_time)) => (ended.map_err(|error| trap_failure(&error, &metered)), guest_time),
        Ok((None, guest_time)) => (Err(time_exceeded(guest_time, &bounds)), guest_time),
        Err(_) => (Err(deadline_exceeded(&lineage)), Duration::ZERO),
    };
    let host_calls = bounds.calls.load(Ordering::Relaxed);
    let usage = Usage { fuel: metered.read(), guest_time, host_calls };
    if let Some(dry_run) = metered.store.data().dry_run().filter(|_| lineage.depth() == 0).cloned() {
        let instructions = if factor > 1 { None } else { guest.instructions(&mut metered.store).await };
        dry_run.set_usage(DryRunUsage { instructions, fuel: usage.fuel, guest_time, host_calls });
    }
    let result = match ended {
        Ok(returned) => returned,
        Err(failure) if failure.line.is_some() || failure.kind == FailureKind::Internal => Err(failure),
        Err(failure) => {
            let line = guest.script_line(&mut metered.store).await;
            Err(ScriptFailure { line, ..failure })
        }
    };
    RunReport { result, usage }
}

/// The failure of a run that was stopped because it computed for longer than one of its bounds.
fn time_exceeded(guest_time: Duration, bounds: &RunBounds) -> ScriptFailure {
    let message = if guest_time > bounds.total {
        format!("computed for more than {:?}", bounds.total)
    } else {
        format!("computed for more than {:?} between two calls into the server", bounds.slice)
    };
    ScriptFailure::new(FailureKind::Limit, message)
}

/// A run's store. Writes `fuel_used` when it is dropped.
struct MeteredStore<'a> {
    store: Store<RunState>,
    /// The fuel at the start.
    fuel: u64,
    fuel_used: &'a AtomicU64,
    /// Released after the store has freed the memory.
    _memory: Option<RunMemory>,
}

impl MeteredStore<'_> {
    /// The fuel that the run used, with what plugins computed for it.
    fn read(&self) -> u64 {
        let own = self.fuel - self.store.get_fuel().unwrap_or(0);
        own.saturating_add(self.store.data().plugin_fuel())
    }
}

impl Drop for MeteredStore<'_> {
    fn drop(&mut self) {
        self.fuel_used.store(self.read(), Ordering::Relaxed);
    }
}

/// A fresh instance in a store with every limit.
async fn instance(
    engine: &Engine,
    guest: &Guest,
    mut state: RunState,
    fuel: u64,
) -> Result<(Instance, Store<RunState>), ScriptFailure> {
    let mut attempts = 1;
    loop {
        let mut store = Store::new(engine, state);
        store.limiter_async(|state| state);
        store
            .set_fuel(fuel)
            .and_then(|()| store.fuel_async_yield_interval(Some(limits::FUEL_PER_YIELD)))
            .map_err(|error| internal(&error))?;
        match guest.instantiate(&mut store).await {
            Ok(instance) => return Ok((instance, store)),
            Err(error) if attempts < POOL_ATTEMPTS && error.is::<PoolConcurrencyLimitError>() => {
                attempts += 1;
                state = store.into_data();
                if let Some(memory) = state.memory.run() {
                    memory.release();
                }
                tokio::task::yield_now().await;
            }
            Err(error) => return Err(store.data().memory.full.map_or_else(|| internal(&error), no_memory)),
        }
    }
}

/// The failure of a run whose guest did not return.
fn trap_failure(error: &wasmtime::Error, metered: &MeteredStore<'_>) -> ScriptFailure {
    let state = metered.store.data();
    if let Some(full) = state.memory.full {
        return no_memory(full);
    }
    if let Some(exhausted) = error.downcast_ref::<InstructionsExhausted>() {
        let within = if state.factor() > 1 { " between two calls into the server" } else { "" };
        let message = format!("more than {} instructions{within}", limits::INSTRUCTIONS);
        let mut failure = ScriptFailure::new(FailureKind::Limit, message);
        failure.line = exhausted.line;
        return failure;
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) if state.plugins_used_up_fuel() => {
            ScriptFailure::new(FailureKind::Limit, "plugins computed for longer than the run may")
        }
        Some(Trap::OutOfFuel) => ScriptFailure::new(FailureKind::Limit, "too much work in library functions"),
        // The C stack of the guest lies below its data: an overflow ends at address zero.
        Some(Trap::StackOverflow | Trap::MemoryOutOfBounds) => {
            ScriptFailure::new(FailureKind::Runtime, "stack overflow")
        }
        Some(Trap::UnreachableCodeReached) if state.memory.refused => {
            ScriptFailure::new(FailureKind::Memory, "not enough memory")
        }
        _ => internal(error),
    }
}

fn internal(error: &wasmtime::Error) -> ScriptFailure {
    // A core dump in the chain of causes lists the guest's memories and globals.
    let text = if error.is::<WasmCoreDump>() { error.root_cause().to_string() } else { format!("{error:#}") };
    tracing::error!(error = text, "the script engine failed");
    ScriptFailure::new(FailureKind::Internal, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use belvedere_web::fair_share::Tenant;

    #[test]
    fn a_run_is_told_the_bound_that_it_exceeded() {
        let second = Duration::from_secs(1);
        let bounds = |total: Duration, slice: Duration| RunBounds {
            tenant: Some(Tenant::Instance),
            total,
            slice,
            calls: Arc::default(),
        };
        let job = bounds(1_000 * second, 10 * second);
        let message = |spent: Duration, bounds: &RunBounds| {
            let failure = time_exceeded(spent, bounds);
            assert_eq!(failure.kind, FailureKind::Limit);
            failure.message
        };
        assert_eq!(message(1_001 * second, &job), "computed for more than 1000s");
        assert_eq!(
            message(600 * second, &job),
            "computed for more than 10s between two calls into the server"
        );
        assert_eq!(message(11 * second, &bounds(10 * second, 10 * second)), "computed for more than 10s");
    }
}
