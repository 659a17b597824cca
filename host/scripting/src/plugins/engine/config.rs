//! The engine's configuration.

use std::path::PathBuf;

use super::compiler::Compiler;
use crate::plugins::limits;
use belvedere_instance::config::plugins::POOL_SIZE;
use belvedere_wasm::sandbox::{MemoryPool, ProcessorPool};

/// The engine's configuration.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// The folder of compiled modules, so that only the first start compiles them.
    pub cache_dir: PathBuf,
    /// Instances that may exist at once.
    pub pool_size: u32,
    /// The turns of calls, which the engine of scripts shares.
    pub processor: ProcessorPool,
    /// The memory of instances, which the runs of scripts share.
    pub memory: MemoryPool,
    /// The way in which modules are compiled.
    pub compiler: Compiler,
}

impl EngineConfig {
    pub fn new(cache_dir: impl Into<PathBuf>, compiler: Compiler) -> Self {
        Self {
            cache_dir: cache_dir.into(),
            pool_size: POOL_SIZE.default,
            processor: ProcessorPool::default(),
            memory: MemoryPool::new(2 * POOL_SIZE.default as usize * limits::LINEAR_MEMORY),
            compiler,
        }
    }

    /// For tests, whose program has no command that compiles.
    #[cfg(any(test, feature = "testing"))]
    pub fn in_this_process(cache_dir: impl Into<PathBuf>) -> Self {
        Self::new(cache_dir, Compiler::InThisProcess)
    }
}
