//! Plugins: WebAssembly components that link users' accounts at other services, write records from them, and offer
//! functions to scripts. The contract is in `wit/plugin`.

pub mod accounts;
mod bindings;
pub mod calls;
pub mod catalogue;
pub mod changes;
pub mod check;
pub mod configured;
mod consent;
mod engine;
mod failure;
pub mod folder;
mod host;
pub mod install;
mod limits;
pub mod loading;
pub mod manifest;
mod new_version;
mod package;
mod registry;
pub mod removal;
pub mod secrets;
mod services;
mod sources;
#[cfg(test)]
mod tests;
mod values;

pub use engine::{
    COMPILE_COMMAND, CompileLimits, Compiler, EngineConfig, EngineError, PluginEngine, compile_module,
};
pub use package::{MAX_MODULE, Package, manifest_id, shortened};
pub use registry::{LoadedPlugin, PausedHere, PluginStatus, Plugins};
pub use services::PluginServices;
pub use sources::shown as shown_url;

#[cfg(test)]
mod first_party_tests;
