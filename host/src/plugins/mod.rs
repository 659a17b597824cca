//! Plugins: WebAssembly components that link users' accounts at other services, write records from them, and offer
//! functions to scripts. The contract is in `wit/plugin`.

pub mod calls;
mod engine;
mod host;
mod limits;
pub mod manifest;
mod registry;
mod services;

pub use engine::{Component, EngineConfig, EngineError, Exports, LoadError, POOL_SIZE, PluginEngine};
pub use registry::{LoadedPlugin, PluginStatus, Plugins};
pub use services::{PauseListener, PluginServices, SecretSource};
