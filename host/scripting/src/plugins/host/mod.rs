//! Implements the host's side of the contract: one file per capability, each with the interface of the WIT file of the
//! same name for [`CallState`]. A new capability adds its file here, the line that declares it, and the line that links it
//! ([`program`]).
//!
//! A function refuses with a [`Refusal`]: a fault that the plugin may handle, or an error that ends the call.

mod attest;
pub(super) mod bindings;
mod clock;
mod fault;
mod hidden;
mod http;
mod kv;
mod log;
mod lookup;
mod places;
mod plugin_log;
mod program;
mod secrets;
mod state;
mod timers;
mod types;
mod wasi;
mod wasi_context;

/// The error of a function that gives no value.
type Refusal = belvedere_wasm::sandbox::Refusal<bindings::belvedere::plugin::types::Fault>;

pub(super) use hidden::Hidden;
pub(super) use places::HostPlaces;
pub(super) use plugin_log::PluginLog;
pub(super) use program::{Guest, Program};
pub(super) use state::{Account, CallState};
