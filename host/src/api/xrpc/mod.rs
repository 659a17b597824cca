//! `/xrpc/{nsid}`: methods are looked up in the lexicon registry, not in the route table.

mod blob_hosts;
mod builtin;
mod delegate;
pub mod describe_server;
pub mod forward;
pub mod get_profile;
pub mod nested;
mod params;
mod pds_error;
pub mod procedure;
pub mod query;
mod scripted;
pub mod service;
pub mod upload_blob;
mod write;
