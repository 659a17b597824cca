//! `/oauth/*`: endpoints where applications get DPoP keys, and register and end the sessions that they create with
//! them.

pub mod client_assertion;
pub mod clients;
pub mod dpop_keys;
pub mod sessions;
