//! The event log, which operators read through the admin API: [`Event`] lists every kind of event, [`EventLog`] records
//! events without blocking, and one background task writes them to the store in batches.

mod event;
mod feed;
mod log;
mod query;
pub mod redact;
pub mod requester;
mod table;
#[cfg(test)]
mod tests;

pub use feed::{EventFeed, Message};
pub use log::EventLog;
pub use query::{EventQuery, InvalidEventQuery};
pub use table::Event;
