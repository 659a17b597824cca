//! Compiles components, reads what they import and export, and runs calls in instances of them.

mod compile;
mod config;
mod inspect;
mod instance_call;
mod ticker;

use std::fmt;
use std::sync::Arc;

pub use config::EngineConfig;
pub(in crate::plugins) use instance_call::{CallBounds, CallFailure};

use super::host::Program;
use super::manifest::{Grants, Permission};
use crate::sandbox::ProcessorPool;

/// Compiles components and runs calls of them. Cheap to clone.
#[derive(Clone)]
pub struct PluginEngine(Arc<Inner>);

struct Inner {
    wasm: wasmtime::Engine,
    config: EngineConfig,
    /// Held while a module is compiled: one at a time.
    compiling: Arc<tokio::sync::Mutex<()>>,
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
    program: Program,
}

/// Which interfaces a component exports besides `describe`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exports {
    pub linking: bool,
    pub sync: bool,
    pub callable: bool,
}

/// Why a module can't be used. The text is for the operator.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct LoadError(pub String);

/// Why the engine could not be set up. No plugin can cause it.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("the plugin engine could not be set up: {0}")]
    Wasm(#[source] wasmtime::Error),
    #[error("the thread that interrupts plugins could not be started: {0}")]
    Ticker(#[source] std::io::Error),
}

impl PluginEngine {
    /// Sets the engine up, with the memory of its instances reserved.
    ///
    /// # Errors
    /// When the machine can't run WebAssembly.
    pub fn open(config: EngineConfig) -> Result<Self, EngineError> {
        let wasm =
            wasmtime::Engine::new(&config::wasm_config(config.pool_size)).map_err(EngineError::Wasm)?;
        let ticker = ticker::Ticker::start(&wasm).map_err(EngineError::Ticker)?;
        Ok(Self(Arc::new(Inner { wasm, config, compiling: Arc::default(), ticker })))
    }

    /// Compiles a module, or loads it from the cache, and checks it against the contract. Modules are compiled one at a
    /// time, outside the threads that answer requests; those in the cache do not wait for that.
    ///
    /// # Errors
    /// The first reason why the module can't be a plugin.
    pub async fn load(&self, module: &[u8]) -> Result<Component, LoadError> {
        let surface = inspect::read(module)?;
        let failed = |_| LoadError("the compiler failed on the module".to_owned());
        let module: Arc<[u8]> = module.into();
        let blocking = || (self.0.wasm.clone(), self.0.config.cache_dir.clone(), Arc::clone(&module));
        let (wasm, folder, bytes) = blocking();
        let cached = tokio::task::spawn_blocking(move || compile::cached(&wasm, &folder, &bytes));
        let (sha256, component) = if let Some(cached) = cached.await.map_err(failed)? {
            cached
        } else {
            // Held by the task, which goes on when the caller goes away.
            let compiling = Arc::clone(&self.0.compiling).lock_owned().await;
            let (wasm, folder, bytes) = blocking();
            let compiled = tokio::task::spawn_blocking(move || {
                let _compiling = compiling;
                compile::load(&wasm, &folder, &bytes)
            });
            compiled.await.map_err(failed)??
        };
        let program = Program::link(&self.0.wasm, &component, &surface.imports, surface.exports)
            .map_err(|error| LoadError(format!("the component does not fit the contract: {error:#}")))?;
        Ok(Component { sha256, exports: surface.exports, imports: surface.imports, program })
    }

    /// Reads what a module exports and imports, without compiling it.
    ///
    /// # Errors
    /// The first reason why the module can't be a plugin, as far as that shows without compiling.
    pub fn inspect(module: &[u8]) -> Result<(Exports, Vec<&'static str>), LoadError> {
        inspect::read(module).map(|surface| (surface.exports, surface.imports))
    }

    /// Instances that may exist at once.
    pub(in crate::plugins) fn pool_size(&self) -> u32 {
        self.0.config.pool_size
    }

    fn processor(&self) -> &ProcessorPool {
        &self.0.config.processor
    }
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
