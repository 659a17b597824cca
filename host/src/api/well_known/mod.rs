//! Documents that others fetch by a fixed address.

pub mod client_metadata;
