//! Runs one piece of work in a fresh instance within every limit, and maps its end to a result or a failure.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use wasmtime::component::Instance as WasmInstance;
use wasmtime::{Store, Trap, WasmCoreDump};

use crate::scripts::dry_run::DryRunUsage;
use crate::scripts::failure::{FailureKind, ScriptFailure};
use crate::scripts::host::{Guest, Instance, InstructionsExhausted, RunState};
use crate::scripts::invocation::Usage;
use crate::scripts::limits;
use crate::scripts::profile::RunProfile;
use crate::scripts::recording::Tape;
use crate::scripts::scheduling::Lineage;
use belvedere_wasm::sandbox::{RunBounds, RunEnd, RunLimits, RunMemory, RunStore, Runner};
use belvedere_web::fair_share::Full;

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

/// The end of a run, and the resources that it used.
pub(in crate::scripts) struct RunReport<T> {
    pub(in crate::scripts) result: Result<T, ScriptFailure>,
    pub(in crate::scripts) usage: Usage,
    /// Read for dry runs, observed runs and runs during a rollout only.
    pub(in crate::scripts) instructions: Option<u32>,
    /// For observers that want profiles.
    pub(in crate::scripts) profile: Option<RunProfile>,
    pub(in crate::scripts) tape: Option<Box<Tape>>,
}

/// Sets the fuel of a run, and how much of it a run may burn before it yields.
pub(in crate::scripts) fn limit(store: &mut Store<RunState>) {
    let set = store.set_fuel(fuel_of(store.data()));
    set.and_then(|()| store.fuel_async_yield_interval(Some(limits::FUEL_PER_YIELD)))
        .expect("the engine counts fuel");
}

fn fuel_of(state: &RunState) -> u64 {
    let for_profile = if state.is_profiled() { limits::PROFILE_FUEL_FACTOR } else { 1 };
    limits::FUEL * u64::from(state.factor()) * for_profile
}

/// Runs `work` in a fresh instance, in a store of its own; both are dropped when this returns. Stores the fuel used in
/// `fuel_used`, also when this future is dropped before it ends.
pub(in crate::scripts) async fn within_limits<T>(
    runner: &Runner<RunState>,
    guest: &Guest,
    memory: RunMemory,
    state: RunState,
    fuel_used: &AtomicU64,
    work: impl AsyncFnOnce(&Instance, &mut Store<RunState>) -> wasmtime::Result<Result<T, ScriptFailure>>,
) -> RunReport<T> {
    let factor = state.factor();
    let lineage = state.lineage().clone();
    let bounds = RunBounds {
        tenant: (lineage.depth() == 0).then(|| state.tenant().clone()),
        total: limits::GUEST_TIME * factor,
        slice: limits::GUEST_TIME,
        calls: Arc::clone(state.host_calls()),
    };
    let run = RunLimits { expected_memory: 0, bounds, deadline: lineage.deadline() };
    let fuel = fuel_of(&state);
    let mut metered = MeteredStore { store: runner.store(state, memory), fuel, fuel_used };
    let work = async |instance: &WasmInstance, store: &mut Store<RunState>| {
        work(&guest.of(instance, store)?, store).await
    };
    let (end, guest_time) = runner.run(&mut metered.store, &run, guest.program(), work).await;
    let host_calls = run.bounds.calls.load(Ordering::Relaxed);
    let usage = Usage { fuel: metered.read(), guest_time, host_calls };
    let ended = match end {
        RunEnd::Returned(result) => Ok(result),
        RunEnd::NoMemory(full) => Err(no_memory(full)),
        RunEnd::GuestTime => Err(time_exceeded(guest_time, &run.bounds)),
        RunEnd::Deadline => Err(deadline_exceeded(&lineage)),
        RunEnd::Failed(error) => Err(trap_failure(&error, metered.store.get().data())),
    };
    let store = metered.store.get_mut();
    let dry_run = store.data().dry_run().filter(|_| lineage.depth() == 0).cloned();
    let counts = factor == 1 && (dry_run.is_some() || store.data().is_counted());
    let instructions = if counts { guest.instructions(store).await } else { None };
    let mut profile = if store.data().is_profiled() { guest.profile(store).await } else { None };
    if let Some(dry_run) = dry_run {
        dry_run.set_usage(DryRunUsage { instructions, fuel: usage.fuel, guest_time, host_calls });
        dry_run.set_profile(profile.take());
    }
    let tape = store.data_mut().tape.take();
    let result = match ended {
        Ok(returned) => returned,
        Err(failure) if failure.line.is_some() || failure.kind == FailureKind::Internal => Err(failure),
        Err(failure) => Err(ScriptFailure { line: guest.script_line(store).await, ..failure }),
    };
    RunReport { result, usage, instructions, profile, tape }
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
    store: RunStore<RunState>,
    /// The fuel at the start.
    fuel: u64,
    fuel_used: &'a AtomicU64,
}

impl MeteredStore<'_> {
    /// The fuel that the run used, with what plugins computed for it.
    fn read(&self) -> u64 {
        let store = self.store.get();
        let own = self.fuel - store.get_fuel().unwrap_or(0);
        own.saturating_add(store.data().plugin_fuel())
    }
}

impl Drop for MeteredStore<'_> {
    fn drop(&mut self) {
        self.fuel_used.store(self.read(), Ordering::Relaxed);
    }
}

/// The failure of a run whose guest did not return.
fn trap_failure(error: &wasmtime::Error, state: &RunState) -> ScriptFailure {
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
            tracing::debug!(error = %error.root_cause(), "a script's stack overflowed");
            ScriptFailure::new(FailureKind::Runtime, "stack overflow")
        }
        Some(Trap::UnreachableCodeReached) if state.memory_was_refused() => {
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
