//! `/oauth/*`: applications get DPoP keys and register the sessions that they made with them.

pub mod client_assertion;
pub mod clients;
pub mod dpop_keys;
pub mod sessions;
