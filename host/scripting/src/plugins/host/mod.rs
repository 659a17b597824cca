//! Implements the host's side of the contract: one file per capability, each with the interface of the WIT file of the
//! same name for [`CallState`]. A new capability adds its file here, the line that declares it, and the line that links it
//! ([`linker()`]).
//!
//! A function refuses with a [`Refusal`]: a fault that the plugin may handle, or an error that ends the call.

mod attest;
mod clock;
mod fault;
mod hidden;
mod http;
mod kv;
mod linker;
mod log;
mod lookup;
mod permits;
mod plugin_log;
mod secrets;
mod state;
mod timers;
mod types;
mod wasi;
mod wasi_context;

use super::bindings::Refusal;
pub(super) use hidden::Hidden;
pub(super) use linker::linker;
pub(super) use permits::HostPermits;
pub(super) use plugin_log::PluginLog;
pub(super) use state::{Account, CallState};
