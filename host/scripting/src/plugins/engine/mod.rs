//! Compiles components, reads what they import and export, and runs calls in instances of them.

mod compiled_modules;
mod compiler;
mod compiler_process;
mod config;
mod function;
mod inspect;
mod instance_call;
mod program;
mod ticker;
mod wasm_config;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

pub use compiler::Compiler;
pub use compiler_process::{COMPILE_COMMAND, CompileLimits, compile_module};
pub use config::EngineConfig;
pub use inspect::Surface;
pub(in crate::plugins) use instance_call::CallFailure;
pub(in crate::plugins) use program::Guest;
use program::Program;

use super::host::CallState;
use super::manifest::{Grants, Permission};
use belvedere_wasm::sandbox::{MemoryPool, Runner};

/// Compiles components and runs calls of them. Cheap to clone.
#[derive(Clone)]
pub struct PluginEngine(Arc<Inner>);

struct Inner {
    runner: Runner<CallState>,
    config: EngineConfig,
    /// Held while a module is compiled: one at a time, each within [`super::limits::COMPILE_MAX_WAIT`].
    compiling: tokio::sync::Mutex<()>,
    ticker: ticker::Ticker,
}

/// A compiled component. Cheap to clone.
#[derive(Clone)]
pub struct Component {
    /// SHA-256 of the module, in lower-case hex.
    pub sha256: String,
    pub exports: Exports,
    /// Capabilities that it imports, such as `http`.
    pub imports: Vec<&'static str>,
    program: Arc<Program>,
    /// Bytes that the instance of the last call had, at most [`super::limits::EXPECTED_MEMORY`].
    expected_memory: Arc<AtomicUsize>,
}

/// The interfaces that a component exports besides `describe`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exports {
    pub linking: bool,
    pub sync: bool,
    pub callable: bool,
}

/// The reason why a module can't be used. The texts are for the operator.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LoadError {
    #[error("{0}")]
    Invalid(String),
    /// The module is not the cause: another attempt may succeed.
    #[error("{0}")]
    Unavailable(String),
}

/// The reason why the engine could not be set up. No plugin can cause it.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("the plugin engine could not be set up: {0}")]
    Wasm(#[source] wasmtime::Error),
    #[error("the thread that interrupts plugins could not be started: {0}")]
    Ticker(#[source] std::io::Error),
}

impl LoadError {
    fn damaged(error: wasmparser::BinaryReaderError) -> Self {
        Self::Invalid(format!("the module is damaged: {}", error.message()))
    }
}

impl PluginEngine {
    /// Sets the engine up, with the memory of its instances reserved.
    ///
    /// # Errors
    /// When the machine can't run WebAssembly.
    pub fn open(config: EngineConfig) -> Result<Self, EngineError> {
        let wasm =
            wasmtime::Engine::new(&wasm_config::wasm_config(config.pool_size)).map_err(EngineError::Wasm)?;
        let ticker = ticker::Ticker::start(&wasm).map_err(EngineError::Ticker)?;
        let runner = Runner::new(wasm, config.processor.clone(), instance_call::limit);
        Ok(Self(Arc::new(Inner { runner, config, compiling: tokio::sync::Mutex::default(), ticker })))
    }

    /// Compiles a module, or loads it from the cache, and checks it against the contract. Modules are compiled one at a
    /// time, each within the limits of the compiler; those in the cache do not wait for that.
    ///
    /// # Errors
    /// The first reason why the module can't be a plugin, or why it could not be compiled now.
    pub async fn load(&self, module: &[u8]) -> Result<Component, LoadError> {
        let module: Arc<[u8]> = module.into();
        let surface = Self::inspect(Arc::clone(&module)).await?;
        let (sha256, component) = if let Some(cached) = self.cached(Arc::clone(&module)).await? {
            cached
        } else {
            // Goes on when the caller goes away, who may come back for it.
            let engine = self.clone();
            tokio::spawn(async move { engine.compile(module).await }).await.map_err(ended)??
        };
        let program =
            Program::link(self.wasm(), &component, &surface.imports, surface.exports).map_err(|error| {
                LoadError::Invalid(format!("the component does not fit the contract: {error:#}"))
            })?;
        let (program, expected_memory) = (Arc::new(program), Arc::default());
        Ok(Component { sha256, exports: surface.exports, imports: surface.imports, program, expected_memory })
    }

    async fn cached(
        &self,
        module: Arc<[u8]>,
    ) -> Result<Option<(String, wasmtime::component::Component)>, LoadError> {
        let (wasm, folder) = (self.wasm().clone(), self.0.config.cache_dir.clone());
        let cached = tokio::task::spawn_blocking(move || compiled_modules::cached(&wasm, &folder, &module));
        cached.await.map_err(ended)
    }

    async fn compile(
        &self,
        module: Arc<[u8]>,
    ) -> Result<(String, wasmtime::component::Component), LoadError> {
        let _compiling = self.0.compiling.lock().await;
        // Another caller may have compiled it meanwhile.
        if let Some(cached) = self.cached(Arc::clone(&module)).await? {
            return Ok(cached);
        }
        let machine_code = self.0.config.compiler.compile(Arc::clone(&module)).await?;
        let (wasm, folder) = (self.wasm().clone(), self.0.config.cache_dir.clone());
        let kept = tokio::task::spawn_blocking(move || {
            compiled_modules::keep(&wasm, &folder, &module, &machine_code)
        });
        kept.await.map_err(ended)?
    }

    /// Reads what a module exports and imports, without compiling it.
    ///
    /// # Errors
    /// The first reason why the module can't be a plugin that shows without compiling.
    pub async fn inspect(module: impl AsRef<[u8]> + Send + 'static) -> Result<Surface, LoadError> {
        // Functions of 32 MiB are read to the end.
        let read = tokio::task::spawn_blocking(move || inspect::read(module.as_ref()));
        read.await.map_err(ended)?
    }

    /// Whether the module with this SHA-256 was compiled before, so that loading it compiles nothing.
    pub async fn has_compiled(&self, sha256: &str) -> bool {
        let (wasm, folder, sha256) =
            (self.wasm().clone(), self.0.config.cache_dir.clone(), sha256.to_owned());
        let cached =
            tokio::task::spawn_blocking(move || compiled_modules::is_cached(&wasm, &folder, &sha256));
        cached.await.unwrap_or(false)
    }

    /// Instances that may exist at once.
    pub(in crate::plugins) fn pool_size(&self) -> u32 {
        self.0.config.pool_size
    }

    /// The memory of instances.
    pub(in crate::plugins) fn memory(&self) -> &MemoryPool {
        &self.0.config.memory
    }

    fn wasm(&self) -> &wasmtime::Engine {
        self.0.runner.engine()
    }
}

/// The error of a task that loads or compiles and panicked.
fn ended(_: tokio::task::JoinError) -> LoadError {
    LoadError::Invalid("the compiler failed on the module".to_owned())
}

impl Component {
    /// The capabilities that the component imports and that `grants` do not cover. It can't be called while there are
    /// any.
    pub fn missing(&self, grants: &Grants) -> Vec<&'static str> {
        let granted = |import: &&'static str| match *import {
            "http" => grants.has_network(),
            "secrets" => grants.contains(&Permission::ReadSecrets),
            "kv" => grants.contains(&Permission::KeepValues),
            "lookup" => grants.iter().any(|held| matches!(held, Permission::FindRecords(_))),
            "attest" => grants.contains(&Permission::SignRecords),
            _ => true,
        };
        self.imports.iter().copied().filter(|import| !granted(import)).collect()
    }
}

impl fmt::Debug for PluginEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PluginEngine").field("config", &self.0.config).finish_non_exhaustive()
    }
}

impl fmt::Debug for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Component")
            .field("sha256", &self.sha256)
            .field("exports", &self.exports)
            .field("imports", &self.imports)
            .finish_non_exhaustive()
    }
}
