//! Implements the host's side of the contract: one file per capability, each with the interface of the WIT file of the
//! same name for [`RunState`]. A new capability adds its file here and the line that declares it; the generated
//! linker ([`guest::linker`]) does not build without it.
//!
//! A function refuses with a [`Refusal`]: a fault that the script may handle, or an error that ends the run.

mod allowances;
mod arguments;
mod atproto;
mod blobs;
mod changes;
mod clock;
mod contract_calls;
mod db;
mod fault;
mod grouping;
pub(super) mod guest;
mod handles;
mod host_costs;
mod http;
mod issued_labels;
mod jobs;
mod json;
mod libraries;
mod linked_repos;
mod links;
mod log;
mod meter;
mod moderation;
mod parallel;
mod plugin_fuel;
mod plugins;
mod profile;
mod profiles;
mod reading;
mod repo;
mod report;
mod rows;
mod space_records;
mod spaces;
mod sql;
mod state;
mod stopped_guest;
pub(super) mod tid;
mod types;
mod waiting_calls;
mod xrpc;

use super::bindings::Refusal;
pub(super) use guest::{Guest, Instance, ReturnValue, RunInputs};
pub(super) use meter::InstructionsExhausted;
pub(super) use state::{RunInfo, RunState};
