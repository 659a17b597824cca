//! The engine's configuration, and wasmtime's: how WebAssembly is compiled and how instances are pooled.

use std::path::PathBuf;

use wasmtime::{Collector, Config, Enabled, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig};

use crate::scripts::limits;
use crate::scripts::scheduling::InstancePlaces;
use belvedere_instance::config::scripts::{POOL_SIZE, QUEUE};
use belvedere_wasm::sandbox::ProcessorPool;

/// Core instances in a component instance: the guest and the two adapters that wit-component puts around it.
const CORE_INSTANCES: u32 = 3;
/// Core instances that are made in the store of a run that did not end by itself.
const AUTOPSIES: u32 = 1;
/// Function tables in a component instance: the guest's and the adapters'.
const TABLES: u32 = 2;
/// Linear memories in a component instance: the guest's. The adapters use it too.
const MEMORIES: u32 = 1;
/// Garbage-collected heaps of a run, for exceptions. The pool keeps each in one of its memories.
const GC_HEAPS: u32 = 1;
/// Memory of all runs, unless configured: sixteen of the largest.
const MEMORY: usize = 1 << 30;
/// Slots of finished instances that keep their memory mapped and warm: with [`limits::KEEP_RESIDENT`] up to 48 MiB of the
/// process, whatever ran in them.
const WARM_SLOTS: u32 = 64;

/// The engine's configuration.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Where the precompiled guest is kept, so that only the first start compiles it.
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
    /// The turns of runs, which the engine of plugins shares.
    pub processor: ProcessorPool,
}

impl EngineConfig {
    pub fn new(cache_dir: impl Into<PathBuf>) -> Self {
        Self {
            cache_dir: cache_dir.into(),
            pool_size: POOL_SIZE,
            queue: QUEUE,
            memory: MEMORY,
            client_fuel: 0,
            processor: ProcessorPool::default(),
        }
    }
}

/// Why the engine could not be set up. No script can cause it.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("the script engine could not be set up: {0}")]
    Wasm(#[source] wasmtime::Error),
    #[error("the compiled script guest could not be written to {path}: {source}")]
    Cache { path: PathBuf, source: std::io::Error },
}

/// wasmtime's configuration. All of it is part of the fingerprint of the cached image.
pub(in crate::scripts) fn wasm_config(config: &EngineConfig) -> Config {
    let count = InstancePlaces::instances(config.pool_size);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(count)
        .total_core_instances(count * (CORE_INSTANCES + AUTOPSIES))
        .total_memories(count * (MEMORIES + GC_HEAPS))
        .total_tables(count * TABLES)
        .total_stacks(count)
        .total_gc_heaps(count * GC_HEAPS)
        // A guest that needs more than these counts is refused when it is loaded, not when it is run.
        .max_core_instances_per_component(CORE_INSTANCES)
        .max_memories_per_component(MEMORIES)
        .max_tables_per_component(TABLES)
        .max_memory_size(limits::LINEAR_MEMORY)
        .table_elements(limits::TABLE_ELEMENTS)
        .linear_memory_keep_resident(limits::KEEP_RESIDENT)
        .table_keep_resident(limits::KEEP_RESIDENT)
        .async_stack_keep_resident(limits::STACK_KEEP_RESIDENT)
        .max_unused_warm_slots(WARM_SLOTS)
        // The kernel reports which pages were written, so that only those are reset.
        .pagemap_scan(Enabled::Auto);
    let mut wasm = Config::new();
    wasm.allocation_strategy(InstanceAllocationStrategy::Pooling(pool))
        .cranelift_opt_level(OptLevel::Speed)
        .memory_init_cow(true)
        .consume_fuel(true)
        // Exceptions are kept in the garbage-collected heap. The null collector runs out of memory after some millions
        // of throws.
        .collector(Collector::DeferredReferenceCounting)
        .concurrency_support(false)
        .wasm_backtrace_max_frames(None)
        // Nothing is written: the dump of a trap only refers to the instances of its store.
        .coredump_on_trap(true)
        .max_wasm_stack(limits::WASM_STACK)
        .async_stack_size(limits::FIBER_STACK);
    wasm
}
