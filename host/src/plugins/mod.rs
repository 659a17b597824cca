//! Plugins: WebAssembly components that link users' accounts at other services, write records from them, and offer
//! functions to scripts. The contract is in `wit/plugin`.

pub mod accounts;
pub mod calls;
mod engine;
pub mod manifest;
mod registry;

pub use engine::{Component, PluginEngine};
pub use registry::{LoadedPlugin, PluginStatus, Plugins};
