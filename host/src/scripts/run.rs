//! One piece of work in one fresh instance, within every limit, and what its end means.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use wasmtime::{Engine, PoolConcurrencyLimitError, Store, Trap};

use super::failure::{FailureKind, ScriptFailure};
use super::host::{Exhausted, Guest, Instance, RunState};
use super::invocation::Usage;
use super::limits;
use super::lineage::Lineage;
use super::turns::{Bounds, Turns};
use crate::fair_share::Full;

/// Attempts to get the pool's parts of an instance. There are enough of them for every place in the queue, but the pool
/// looks through its shards one after the other, and a part may move from one to the other meanwhile.
const POOL_ATTEMPTS: u32 = 1_000;

/// First byte of Lua's bytecode. Only our own compiler's is ever run: crafted bytecode can break the VM.
const BYTECODE: u8 = 0x1b;

/// What is no source text is not even shown to the guest.
pub(super) fn check_source(source: &str) -> Result<(), ScriptFailure> {
    if source.as_bytes().first() == Some(&BYTECODE) {
        return Err(ScriptFailure::new(FailureKind::Syntax, "a script is source text, not bytecode"));
    }
    if source.len() > limits::SOURCE_BYTES {
        let message = format!("the source is larger than {} bytes", limits::SOURCE_BYTES);
        return Err(ScriptFailure::new(FailureKind::Syntax, message));
    }
    Ok(())
}

pub(super) fn check_result(body: &[u8]) -> Result<(), ScriptFailure> {
    if body.len() > limits::RESULT_BYTES {
        let message = format!("the result is larger than {} bytes", limits::RESULT_BYTES);
        return Err(ScriptFailure::new(FailureKind::Runtime, message));
    }
    Ok(())
}

pub(super) fn busy(full: Full) -> ScriptFailure {
    ScriptFailure::new(FailureKind::Busy, format!("no instance for the run: {full}"))
}

pub(super) fn overdue(lineage: &Lineage) -> ScriptFailure {
    let whose = if lineage.depth() > 0 { "the scripts that called each other took" } else { "took" };
    ScriptFailure::new(FailureKind::Limit, format!("{whose} longer than a run may take, waiting included"))
}

pub(super) fn throttled(wait: Duration) -> ScriptFailure {
    let message = format!("the caller's share of the processor is used up for another {wait:?}");
    let mut failure = ScriptFailure::new(FailureKind::Throttled, message);
    failure.retry_after = Some(wait);
    failure
}

/// How a run ended, and what it took.
pub(super) struct Ran<T> {
    pub(super) result: Result<T, ScriptFailure>,
    pub(super) usage: Usage,
}

/// Runs `work` in a fresh instance, in a store of its own. Both are gone when this returns, whatever happened; `burnt` is
/// the fuel that it took, also when this is dropped in the middle.
pub(super) async fn within_limits<T>(
    engine: &Engine,
    guest: &Guest,
    turns: &Turns,
    state: RunState,
    burnt: &AtomicU64,
    work: impl AsyncFnOnce(&Instance, &mut Store<RunState>) -> wasmtime::Result<Result<T, ScriptFailure>>,
) -> Ran<T> {
    let times = state.times();
    let fuel = limits::FUEL * u64::from(times);
    let lineage = state.lineage();
    let bounds = Bounds {
        tenant: (lineage.depth() == 0).then(|| state.tenant().clone()),
        all: limits::GUEST_TIME * times,
        slice: limits::GUEST_TIME,
        calls: Arc::clone(state.host_calls()),
    };
    let (instance, store) = match instance(engine, guest, state, fuel).await {
        Ok(ready) => ready,
        Err(error) => return Ran { result: Err(internal(&error)), usage: Usage::default() },
    };
    let mut metered = Metered { store, fuel, burnt };
    let (ended, guest_time) = turns.timed(work(&instance, &mut metered.store), &bounds).await;
    let host_calls = bounds.calls.load(Ordering::Relaxed);
    let usage = Usage { fuel: metered.read(), guest_time, host_calls };
    let result = match ended {
        Some(Ok(result)) => result,
        Some(Err(error)) => Err(ended_by(&error, metered.store.data())),
        None => {
            Err(ScriptFailure::new(FailureKind::Limit, format!("ran for more than {:?}", limits::GUEST_TIME)))
        }
    };
    Ran { result, usage }
}

/// A run's store. Notes what the run burnt when it is dropped.
struct Metered<'a> {
    store: Store<RunState>,
    /// What there was at first.
    fuel: u64,
    burnt: &'a AtomicU64,
}

impl Metered<'_> {
    fn read(&self) -> u64 {
        self.fuel - self.store.get_fuel().unwrap_or(0)
    }
}

impl Drop for Metered<'_> {
    fn drop(&mut self) {
        self.burnt.store(self.read(), Ordering::Relaxed);
    }
}

/// A fresh instance in a store with every limit.
async fn instance(
    engine: &Engine,
    guest: &Guest,
    mut state: RunState,
    fuel: u64,
) -> wasmtime::Result<(Instance, Store<RunState>)> {
    let mut attempts = 1;
    loop {
        let mut store = Store::new(engine, state);
        store.limiter(|state| state);
        store.set_fuel(fuel)?;
        store.fuel_async_yield_interval(Some(limits::FUEL_PER_YIELD))?;
        match guest.instantiate(&mut store).await {
            Ok(instance) => return Ok((instance, store)),
            Err(error) if attempts < POOL_ATTEMPTS && error.is::<PoolConcurrencyLimitError>() => {
                attempts += 1;
                state = store.into_data();
                tokio::task::yield_now().await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// What it means that the guest did not return.
fn ended_by(error: &wasmtime::Error, state: &RunState) -> ScriptFailure {
    if let Some(exhausted) = error.downcast_ref::<Exhausted>() {
        let message = format!("more than {} instructions", limits::INSTRUCTIONS);
        let mut failure = ScriptFailure::new(FailureKind::Limit, message);
        failure.line = exhausted.line;
        return failure;
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => ScriptFailure::new(FailureKind::Limit, "too much work in library functions"),
        // The C stack of the guest lies below its data: running over ends at address zero.
        Some(Trap::StackOverflow | Trap::MemoryOutOfBounds) => {
            ScriptFailure::new(FailureKind::Runtime, "stack overflow")
        }
        Some(Trap::UnreachableCodeReached) if state.memory_refused() => {
            ScriptFailure::new(FailureKind::Memory, "not enough memory")
        }
        _ => internal(error),
    }
}

fn internal(error: &wasmtime::Error) -> ScriptFailure {
    tracing::error!(error = format!("{error:#}"), "the script engine failed");
    ScriptFailure::new(FailureKind::Internal, format!("{error:#}"))
}
