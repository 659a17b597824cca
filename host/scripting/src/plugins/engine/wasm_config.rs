//! wasmtime's configuration: how WebAssembly is compiled and how instances are pooled
//! (`docs/adr/0062-plugins-have-their-own-engine.md`).

use wasmtime::Config;

use crate::plugins::limits;
use belvedere_wasm::sandbox::{InstanceLimits, pooled_config};

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
    let of_each = InstanceLimits {
        instances: pool_size,
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
    let mut wasm = pooled_config(&of_each, |_| {});
    // Compiling a module takes one core, and leaves the others to requests.
    wasm.parallel_compilation(false)
        .epoch_interruption(true)
        // Features that no language needs yet are left out: each is code that a hostile module could reach.
        .wasm_exceptions(false)
        .wasm_gc(false)
        .wasm_function_references(false)
        .gc_support(false)
        .wasm_memory64(false)
        .wasm_multi_memory(false)
        .wasm_relaxed_simd(false);
    wasm
}
