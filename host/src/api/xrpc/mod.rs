//! `/xrpc/{nsid}`: methods are looked up in the lexicon registry, not in the route table.

mod blob_hosts;
mod builtin;
pub mod describe_server;
pub mod forward;
pub mod nested;
mod params;
pub mod procedure;
pub mod query;
mod scripted;
