//! Keys that the instance made for itself, and what it signs with them.

pub mod attestation;
pub mod instance;
