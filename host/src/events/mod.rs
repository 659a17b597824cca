//! The event log: what an operator may want to look up later. [`Event`] lists everything that is logged,
//! [`EventLog`] takes an event from anywhere without blocking, one writer puts them into the store in batches.

mod describe;
mod event;
mod log;
pub mod redact;

pub use event::{Event, ScriptError};
pub use log::EventLog;
