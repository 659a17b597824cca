//! `/oauth/*`, DPoP on `/xrpc`, and sessions with a PDS.

mod assertions;
pub mod device;
mod endings;
mod moves;
mod proofs;
mod provisioning;
mod registration;
mod renewal;
mod secrets;
mod sessions;
mod writes;
