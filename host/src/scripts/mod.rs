//! The script engine: runs each Lua script in a fresh WebAssembly instance, isolated from the server and other runs.
//!
//! A script is compiled to bytecode once ([`Engine::check`] when it is saved, [`Engine::compile`] when it is
//! loaded at start), kept in the [`Library`] under its trigger, and run by [`Engine::run`]. Every bound on a run
//! is a constant in [`limits`]. Each capability of scripts is one file under `host/`, paired with one WIT file
//! (`wit/`) and one prelude file (`guest-lua/prelude/`). `docs/scripting.md` describes the API for script authors.

mod config;
pub mod engine;
pub mod failure;
mod host;
mod image;
pub mod invocation;
pub mod library;
pub mod limits;
pub mod lineage;
mod log_shares;
mod methods;
mod places;
pub mod reach;
mod run;
pub mod services;
mod share;
pub mod tally;
#[cfg(test)]
mod tests;
mod tid;
mod turns;
pub mod variables;
mod web;

pub use config::{EngineConfig, EngineError};
pub use engine::Engine;
pub use failure::{FailureKind, FaultCode, ScriptFailure, UpstreamAnswer};
pub use image::prepare;
pub use invocation::{Happening, Invocation, Outcome, Shape, Usage};
pub use library::{CompiledScript, Library};
pub use lineage::Lineage;
pub use reach::{ServerIndex, ServerLabels, ServerLog};
pub use services::{
    ActiveLabel, Index, IndexError, Labels, LogLevel, LogLine, LogSink, Page, Query, Row, Search, Services,
    Xrpc, XrpcError,
};
pub use tally::Tallied;
pub use variables::Variables;
pub use web::Web;
