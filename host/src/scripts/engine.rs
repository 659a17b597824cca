//! The engine: one per process, made once, shared by every run.

use std::path::PathBuf;
use std::sync::Arc;

use super::{CompiledScript, Invocation, Outcome, ScriptFailure, Services, Trigger, limits};

/// How to open the engine.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Where the precompiled guest is kept, so that only the first start compiles it.
    pub cache_dir: PathBuf,
    /// Instances that may exist at once.
    pub pool_size: u32,
    /// Runs that may wait for one.
    pub queue: u32,
}

impl EngineConfig {
    pub fn new(cache_dir: impl Into<PathBuf>) -> Self {
        Self { cache_dir: cache_dir.into(), pool_size: limits::POOL_SIZE, queue: limits::QUEUE }
    }
}

/// Why the engine could not be made. Nothing a script does leads here.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("the script engine could not be set up: {0}")]
    Wasm(#[source] wasmtime::Error),
    #[error("the compiled script guest could not be kept in {path}: {source}")]
    Cache { path: PathBuf, source: std::io::Error },
}

/// Cheap to clone.
#[derive(Clone, Debug)]
pub struct Engine {
    _inner: Arc<EngineConfig>,
}

impl Engine {
    /// Loads the precompiled guest, or compiles it when there is none that fits (a second or two).
    ///
    /// # Errors
    /// When the machine can't run the guest or the cache directory can't be written.
    pub async fn open(_config: EngineConfig) -> Result<Self, EngineError> {
        todo!()
    }

    /// What saving a script does: runs its top level in a bare sandbox and wants a function `handle`.
    ///
    /// # Errors
    /// The failure, with message and line, when it does not load.
    pub async fn check(&self, _trigger: Trigger, _source: &str) -> Result<CompiledScript, ScriptFailure> {
        todo!()
    }

    /// Compiles a stored script without running it.
    pub async fn compile(&self, _trigger: Trigger, _source: &str) -> CompiledScript {
        todo!()
    }

    /// Runs a script in a fresh instance.
    ///
    /// # Errors
    /// The failure; [`ScriptFailure::public_text`] is what the caller may see of it.
    pub async fn run(
        &self,
        _script: &CompiledScript,
        _invocation: Invocation<'_>,
        _services: &Services,
    ) -> Result<Outcome, ScriptFailure> {
        todo!()
    }
}
