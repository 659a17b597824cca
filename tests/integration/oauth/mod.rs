//! `/oauth/*`, DPoP on `/xrpc`, and what sessions with a PDS do.

mod assertions;
pub mod device;
mod endings;
mod proofs;
mod provisioning;
mod registration;
mod renewal;
mod secrets;
mod sessions;
mod writes;
