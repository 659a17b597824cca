//! Runs work in fresh instances, within the limits that both engines share.

use std::fmt;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use wasmtime::component::{Instance, InstancePre};
use wasmtime::{Engine, GcHeapOutOfMemory, PoolConcurrencyLimitError, Result, Store};

use super::memory::{InstanceMemory, NoMemory, RunMemory};
use super::processor::{ProcessorPool, RunBounds};
use belvedere_web::fair_share::Full;

/// Attempts to allocate an instance. wasmtime's pool has enough slots for all runs that hold a permit, but it searches
/// its shards one after the other, and a slot may become free in one that was already searched.
const POOL_ATTEMPTS: u32 = 1_000;

/// The data of a run's store.
pub trait RunData: Send + 'static {
    fn memory(&mut self) -> &mut InstanceMemory;
}

/// Makes the instances of an engine.
pub struct Runner<S: 'static> {
    engine: Engine,
    processor: ProcessorPool,
    /// Sets what else bounds a store.
    limit: fn(&mut Store<S>),
}

/// The limits of one run.
#[derive(Clone, Debug)]
pub struct RunLimits {
    /// Bytes that the instance most likely needs. They are taken before it is made, so that it seldom ends for want of them
    /// after it has changed something.
    pub expected_memory: usize,
    pub bounds: RunBounds,
    /// The time at which the run ends, done or not.
    pub deadline: Instant,
}

/// The end of a run.
#[derive(Debug)]
pub enum RunEnd<T> {
    Returned(T),
    /// No memory became free in time.
    NoMemory(Full),
    /// It computed for longer than [`RunBounds`] permit.
    GuestTime,
    /// The deadline passed.
    Deadline,
    /// It trapped, a function of the host ended it, or it got no instance.
    Failed(wasmtime::Error),
}

/// The store of a run. It stays when the run has ended, so that its owner can read how far the run came.
pub struct RunStore<S: 'static> {
    /// Only [`Runner::instantiate`] takes it, and puts another there.
    store: Option<Store<S>>,
    /// Released after the store, which frees the memory.
    memory: RunMemory,
}

impl<S> RunStore<S> {
    pub fn get(&self) -> &Store<S> {
        self.store.as_ref().expect(HAS_STORE)
    }

    pub fn get_mut(&mut self) -> &mut Store<S> {
        self.store.as_mut().expect(HAS_STORE)
    }
}

const HAS_STORE: &str = "a store is replaced within one poll";

impl<S: RunData> Runner<S> {
    pub fn new(engine: Engine, processor: ProcessorPool, limit: fn(&mut Store<S>)) -> Self {
        Self { engine, processor, limit }
    }

    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The store of a run that takes `memory`.
    pub fn store(&self, data: S, memory: RunMemory) -> RunStore<S> {
        RunStore { store: Some(self.limited(data)), memory }
    }

    fn limited(&self, data: S) -> Store<S> {
        let mut store = Store::new(&self.engine, data);
        store.limiter_async(|data| data.memory());
        (self.limit)(&mut store);
        store
    }

    /// Runs `work` in an instance of `program`. Returns the guest time too, which is zero when the deadline passed.
    pub async fn run<T>(
        &self,
        store: &mut RunStore<S>,
        limits: &RunLimits,
        program: &InstancePre<S>,
        work: impl AsyncFnOnce(&Instance, &mut Store<S>) -> Result<T>,
    ) -> (RunEnd<T>, Duration) {
        let memory = store.memory.clone();
        let begun = store.get_mut().data_mut().memory().begin(&memory, limits.expected_memory).await;
        if let Err(full) = begun {
            return (RunEnd::NoMemory(full), Duration::ZERO);
        }
        // Instantiating may run code of the program, so it is within the bounds too.
        let run = async {
            let instance = self.instantiate(store, program).await?;
            work(&instance, store.get_mut()).await
        };
        match timeout_at(limits.deadline, self.processor.run(run, &limits.bounds)).await {
            Ok((Some(Ok(value)), guest_time)) => (RunEnd::Returned(value), guest_time),
            Ok((Some(Err(error)), guest_time)) => {
                let of_host = error.downcast_ref::<NoMemory>().map(|NoMemory(full)| *full);
                // wasmtime does not pass on why the heap of references did not grow.
                let of_heap = || store.get_mut().data_mut().memory().full();
                let is_heap = error.is::<GcHeapOutOfMemory<()>>();
                match of_host.or_else(|| is_heap.then(of_heap).flatten()) {
                    Some(full) => (RunEnd::NoMemory(full), guest_time),
                    None => (RunEnd::Failed(error), guest_time),
                }
            }
            Ok((None, guest_time)) => (RunEnd::GuestTime, guest_time),
            Err(_) => (RunEnd::Deadline, Duration::ZERO),
        }
    }

    /// Makes an instance. Each attempt has another store: a store keeps what a failed attempt has made.
    async fn instantiate(&self, store: &mut RunStore<S>, program: &InstancePre<S>) -> Result<Instance> {
        let mut attempts = 1;
        loop {
            match program.instantiate_async(store.get_mut()).await {
                Err(error) if attempts < POOL_ATTEMPTS && error.is::<PoolConcurrencyLimitError>() => {
                    attempts += 1;
                    let mut data = store.store.take().expect(HAS_STORE).into_data();
                    data.memory().restart();
                    store.store = Some(self.limited(data));
                    tokio::task::yield_now().await;
                }
                ended => return ended,
            }
        }
    }
}

impl<S> fmt::Debug for RunStore<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunStore").field("memory", &self.memory).finish_non_exhaustive()
    }
}

impl<S> fmt::Debug for Runner<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runner").field("processor", &self.processor).finish_non_exhaustive()
    }
}
