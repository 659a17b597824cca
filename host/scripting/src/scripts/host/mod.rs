//! Implements the host's side of the contract: one file per capability, each with the interface of the WIT file of the
//! same name for [`RunState`]. A new capability adds its file here and the line that declares it; the generated
//! linker ([`guest::linker`]) does not build without it.
//!
//! A refusal that the script may handle is a [`bindings::belvedere::script::types::Fault`]; an error that ends
//! the run is a trap.

mod allowances;
mod atproto;
mod autopsy;
mod bindings;
mod blobs;
mod clock;
mod db;
mod fault;
pub(super) mod guest;
mod handles;
mod http;
mod jobs;
mod json;
mod linked_repos;
mod log;
mod meter;
mod plugins;
mod pretend;
mod repo;
mod rows;
mod state;
pub(super) mod tid;
mod types;
mod xrpc;

pub(super) use guest::{Guest, Instance};
pub(super) use meter::InstructionsExhausted;
pub(super) use state::{RunInfo, RunState};
