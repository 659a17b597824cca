//! `/xrpc/{nsid}`: methods are looked up in the lexicon registry, not in the route table.

pub(super) mod input;
pub mod labels;
mod live;
pub mod method;
pub mod service;
mod socket;
pub mod spaces;
mod subscription;
pub mod upload_blob;
