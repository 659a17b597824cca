//! wasmtime's configuration: how WebAssembly is compiled and how instances are pooled
//! (`docs/adr/0062-plugins-have-their-own-engine.md`).

use wasmtime::{Config, Enabled, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig};

use crate::plugins::limits;

/// Core instances in a component instance: the program, an adapter for WASI, and those that the tools put around them.
const CORE_INSTANCES: u32 = 8;
/// Tables in a component instance.
const TABLES: u32 = 4;
/// Memories in a component instance.
const MEMORIES: u32 = 1;
/// Slots of finished instances that keep their memory mapped and warm.
const WARM_SLOTS: u32 = 16;

/// wasmtime's configuration. All of it is part of the fingerprint of compiled modules.
pub(super) fn wasm_config(pool_size: u32) -> Config {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(pool_size)
        .total_core_instances(pool_size * CORE_INSTANCES)
        .total_memories(pool_size * MEMORIES)
        .total_tables(pool_size * TABLES)
        .total_stacks(pool_size)
        .total_gc_heaps(0)
        // A component that needs more than these counts is refused when it is loaded, not when it is called.
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
        // Compiling a module takes one core, and leaves the others to requests.
        .parallel_compilation(false)
        .memory_init_cow(true)
        .epoch_interruption(true)
        .concurrency_support(false)
        .wasm_backtrace_max_frames(None)
        // What no language needs yet is left out: each is code that a hostile module could reach.
        .wasm_exceptions(false)
        .wasm_gc(false)
        .wasm_function_references(false)
        .gc_support(false)
        .wasm_memory64(false)
        .wasm_multi_memory(false)
        .wasm_relaxed_simd(false)
        .max_wasm_stack(limits::WASM_STACK)
        .async_stack_size(limits::FIBER_STACK);
    wasm
}
