//! The OAuth client for users' authorization servers (the atproto OAuth profile; RFC 6749, 7636, 9126, 9449, 9728,
//! 8414).
//!
//! [`Discovery`] finds an account's authorization server through the DID document and the PDS's metadata, never from a
//! client's claim. [`DpopClient`] sends requests with DPoP proofs, [`flow`] calls a server's endpoints, and
//! [`Authorizations`] runs the authorization flow of the instance's own users. `pds` stores the resulting sessions.

mod authorization;
mod discovery;
mod dpop_client;
pub mod flow;
pub mod own;
mod own_keys;

pub use authorization::{
    AuthorizationError, Authorizations, Callback, CompletedFlow, FlowGoal, LinkedRepoGoal,
};
pub use discovery::origin_of;
pub use discovery::{Account, AuthorizationServer, Discovery, DiscoveryError};
pub(crate) use dpop_client::error_code;
pub use dpop_client::{DpopClient, DpopRequest};
pub use flow::{ClientCredentials, FlowError, Tokens};
pub use own::OwnClient;
pub use own_keys::OwnKeys;
