//! The engine's configuration, and wasmtime's: how WebAssembly is compiled and how instances are pooled.

use std::path::PathBuf;

use wasmtime::{Collector, Config};

use crate::scripts::limits;
use crate::scripts::scheduling::InstancePermits;
use belvedere_instance::config::scripts::{POOL_SIZE, QUEUE};
use belvedere_wasm::sandbox::{InstanceLimits, ProcessorPool, pooled_config};

/// Core instances in a component instance: the guest and the two adapters that wit-component puts around it.
const CORE_INSTANCES: u32 = 3;
/// Core instances that are made in the store of a run that did not end by itself.
const STOPPED_GUEST_READERS: u32 = 1;
/// Function tables in a component instance: the guest's and the adapters'.
const TABLES: u32 = 2;
/// Linear memories in a component instance: the guest's. The adapters use it too.
const MEMORIES: u32 = 1;
/// Garbage-collected heaps of a run, for exceptions. The pool keeps each in one of its memories.
const GC_HEAPS: u32 = 1;
/// Memory of all runs, unless configured: sixteen of the largest.
const MEMORY: usize = 1 << 30;
/// Slots of finished instances that keep their memory mapped and warm: with [`limits::KEEP_RESIDENT`] up to 44 MiB of the
/// process, whatever ran in them.
const WARM_SLOTS: u32 = 64;

/// The engine's configuration.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// The folder of the precompiled guest, so that only the first start compiles it.
    pub cache_dir: PathBuf,
    /// Runs that no script called and that may have an instance at once; nested runs have instances of their own.
    pub pool_size: u32,
    /// Runs that may wait for an instance.
    pub queue: u32,
    /// Bytes of memory that all runs may use together.
    pub memory: usize,
    /// Fuel a second that one tenant's runs may use on average; 0 for no bound. A core executes some 10 billion a
    /// second.
    pub client_fuel: u64,
    /// One of so many runs is profiled; 0 for none.
    pub profile_sample: u32,
    /// The turns of runs, which the engine of plugins shares.
    pub processor: ProcessorPool,
}

impl EngineConfig {
    pub fn new(cache_dir: impl Into<PathBuf>) -> Self {
        Self {
            cache_dir: cache_dir.into(),
            pool_size: POOL_SIZE.default,
            queue: QUEUE.default,
            memory: MEMORY,
            client_fuel: 0,
            profile_sample: 0,
            processor: ProcessorPool::default(),
        }
    }
}

/// The reason why the engine could not be set up. No script can cause it.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("the script engine could not be set up: {0}")]
    Wasm(#[source] wasmtime::Error),
    #[error("the compiled script guest could not be written to {path}: {source}")]
    Cache { path: PathBuf, source: std::io::Error },
}

/// wasmtime's configuration. All of it is part of the fingerprint of the cached image.
pub(in crate::scripts) fn wasm_config(config: &EngineConfig) -> Config {
    let instances = InstancePermits::instances(config.pool_size);
    let of_each = InstanceLimits {
        instances,
        core_instances: CORE_INSTANCES,
        memories: MEMORIES,
        tables: TABLES,
        memory_bytes: limits::LINEAR_MEMORY,
        table_elements: limits::TABLE_ELEMENTS,
        keep_resident: limits::KEEP_RESIDENT,
        stack_keep_resident: limits::STACK_KEEP_RESIDENT,
        warm_slots: WARM_SLOTS,
        wasm_stack: limits::WASM_STACK,
        fiber_stack: limits::FIBER_STACK,
    };
    let mut wasm = pooled_config(&of_each, |pool| {
        pool.total_core_instances(instances * (CORE_INSTANCES + STOPPED_GUEST_READERS))
            .total_memories(instances * (MEMORIES + GC_HEAPS))
            .total_gc_heaps(instances * GC_HEAPS);
    });
    wasm.consume_fuel(true)
        // Exceptions are kept in the garbage-collected heap. The null collector runs out of memory after some millions
        // of throws.
        .collector(Collector::DeferredReferenceCounting)
        // Nothing is written: the dump of a trap only refers to the instances of its store.
        .coredump_on_trap(true);
    wasm
}
