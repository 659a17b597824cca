//! The configuration of wasmtime that both engines share: each run has an instance from a pool, on a fiber of its own.

use wasmtime::{Config, Enabled, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig};

/// The instances of an engine's pool, and the limits of each.
#[derive(Clone, Copy, Debug)]
pub struct InstanceLimits {
    /// Component instances that may exist at once.
    pub instances: u32,
    /// Core instances, linear memories and tables in a component instance. A component that needs more is refused when it is
    /// loaded, not when it is run.
    pub core_instances: u32,
    pub memories: u32,
    pub tables: u32,
    /// Bytes of a linear memory.
    pub memory_bytes: usize,
    /// Entries of a table.
    pub table_elements: usize,
    /// Bytes of a memory and of a table that stay mapped between runs.
    pub keep_resident: usize,
    /// The same of a fiber's stack.
    pub stack_keep_resident: usize,
    /// Slots of finished instances that keep their memory mapped and warm.
    pub warm_slots: u32,
    /// Stack for WebAssembly frames.
    pub wasm_stack: usize,
    /// Stack of a run's fiber: that for WebAssembly, and the host's functions above it.
    pub fiber_stack: usize,
}

/// A configuration with a pool of instances. `adjust` adds what only one engine needs to the pool.
pub fn pooled_config(limits: &InstanceLimits, adjust: impl FnOnce(&mut PoolingAllocationConfig)) -> Config {
    let count = limits.instances;
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(count)
        .total_core_instances(count * limits.core_instances)
        .total_memories(count * limits.memories)
        .total_tables(count * limits.tables)
        .total_stacks(count)
        .total_gc_heaps(0)
        .max_core_instances_per_component(limits.core_instances)
        .max_memories_per_component(limits.memories)
        .max_tables_per_component(limits.tables)
        .max_memory_size(limits.memory_bytes)
        .table_elements(limits.table_elements)
        .linear_memory_keep_resident(limits.keep_resident)
        .table_keep_resident(limits.keep_resident)
        .async_stack_keep_resident(limits.stack_keep_resident)
        .max_unused_warm_slots(limits.warm_slots)
        // The kernel reports which pages were written, so that only those are reset.
        .pagemap_scan(Enabled::Auto);
    adjust(&mut pool);
    let mut wasm = Config::new();
    wasm.allocation_strategy(InstanceAllocationStrategy::Pooling(pool))
        .cranelift_opt_level(OptLevel::Speed)
        .memory_init_cow(true)
        .concurrency_support(false)
        .wasm_backtrace_max_frames(None)
        .max_wasm_stack(limits.wasm_stack)
        .async_stack_size(limits.fiber_stack);
    wasm
}
