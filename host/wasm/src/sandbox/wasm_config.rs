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
    /// Bytes of a memory and of a table, from their beginning, that are overwritten after a run and stay mapped. Later pages
    /// are given back, and a run that touches them takes a page fault for each.
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
        // The scan takes a page that is swapped out, or that the kernel is moving, for one that was never written, and the next
        // run of the slot would read it (ADR 160).
        .pagemap_scan(Enabled::No);
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::{fs, thread};

    use wasmtime::{Engine, Instance, Module, Store};

    use super::*;

    const COMPACTION: &str = "/proc/sys/vm/compact_memory";
    const PAGE: usize = 4096;
    const LIMITS: InstanceLimits = InstanceLimits {
        instances: 32,
        core_instances: 1,
        memories: 1,
        tables: 1,
        memory_bytes: 4 << 20,
        table_elements: 10,
        keep_resident: 4 << 20,
        stack_keep_resident: 0,
        warm_slots: 32,
        wasm_stack: 1 << 20,
        fiber_stack: 2 << 20,
    };

    /// The pages of a fresh memory that are not zero. Fills all of them.
    fn stale_pages(store: &mut Store<()>, module: &Module) -> usize {
        let instance = Instance::new(&mut *store, module, &[]).unwrap();
        let memory = instance.get_memory(&mut *store, "memory").unwrap();
        let pages = memory.data_mut(store).chunks_mut(PAGE);
        let stale = |page: &mut [u8]| {
            let stale = page.iter().any(|byte| *byte != 0);
            page.fill(0xab);
            stale
        };
        pages.map(stale).filter(|stale| *stale).count()
    }

    #[test]
    #[expect(clippy::print_stderr, reason = "a test that could not run says so")]
    fn no_run_reads_the_memory_of_another_while_the_kernel_moves_pages() {
        if fs::write(COMPACTION, "1").is_err() {
            eprintln!("skipped: {COMPACTION} can't be written, so the kernel can't be made to move pages");
            return;
        }
        let engine = Engine::new(&pooled_config(&LIMITS, |_| {})).unwrap();
        let module = wat::parse_str(r#"(module (memory (export "memory") 32))"#).unwrap();
        let module = Module::new(&engine, module).unwrap();
        let ended = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    fs::write(COMPACTION, "1").unwrap();
                }
            });
            let mut alive = Vec::new();
            for run in 0..5_000 {
                let mut store = Store::new(&engine, ());
                let stale = stale_pages(&mut store, &module);
                ended.store(stale > 0, Ordering::Relaxed);
                assert_eq!(stale, 0, "run {run}");
                alive.push(store);
                if alive.len() > 16 {
                    alive.swap_remove(run % 16);
                }
            }
            ended.store(true, Ordering::Relaxed);
        });
    }
}
