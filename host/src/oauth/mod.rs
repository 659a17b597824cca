//! OAuth with users' authorization servers (the atproto OAuth profile; RFC 6749, 7636, 9126, 9449, 9728, 8414).
//!
//! [`Discovery`] finds the server that speaks for an account, never by what somebody claims: DID document, PDS, the PDS's
//! own word. [`Courier`] sends requests with DPoP proofs, [`flow`] holds the exchanges with a server's endpoints, and
//! [`Authorizations`] takes the instance's own users to their servers and back.
//! What comes of it, a session, lives in `pds`.

mod authorization;
mod courier;
mod discovery;
pub mod flow;
pub mod own;

pub use authorization::{
    AuthorizationError, Authorizations, Callback, Completed, Goal, GrantGoal, STATE_SECONDS,
};
pub(crate) use courier::error_code;
pub use courier::{Courier, Parcel};
pub(crate) use discovery::origin_of;
pub use discovery::{Account, AuthorizationServer, Discovery, DiscoveryError};
pub use flow::{ClientIdentity, FlowError, Tokens};
pub use own::{OwnClient, OwnKey};
