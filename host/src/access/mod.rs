//! Who is calling and what they may do.
//!
//! Three surfaces: `/admin` ([`admin`]: a user and a permission), `/xrpc` ([`xrpc`]: an API client, and perhaps a user)
//! and `/oauth` ([`oauth`]: an API client, and what it has of a user). Every rule that says no says it here, so that a handler only runs for a caller that may call it.

pub mod admin;
mod authorization;
pub mod client;
mod client_buckets;
pub mod client_keys;
pub mod delegation;
pub mod dpop;
pub mod forwarding;
pub mod keys;
pub mod management;
mod nonces;
pub mod oauth;
mod origins;
mod permission;
mod public_limit;
pub mod rate_limit;
mod replay;
pub mod scopes;
pub mod secrets;
mod sender;
pub mod service_jwt;
pub mod signing_keys;
mod template;
mod used_proofs;
pub mod users;
mod web;
pub mod xrpc;

pub use admin::{Admin, Via};
pub use authorization::Credential;
pub use client::{ApiClient, Clients};
pub use client_buckets::ClientBuckets;
pub use client_keys::ClientKeys;
pub use dpop::{DpopProofs, DpopSession};
pub use forwarding::ForwardingRules;
pub use keys::AdminKeys;
pub use management::ClientUser;
pub use nonces::Nonces;
pub use oauth::{Holder, Minter};
pub use origins::Origins;
pub use permission::{Permission, PermissionSet};
pub use public_limit::PublicLimit;
pub use rate_limit::Buckets;
pub use secrets::{AdminKey, ClientCredentials};
pub use sender::Sender;
pub use service_jwt::ServiceTokens;
pub use template::Template;
pub use used_proofs::UsedProofs;
pub use users::Users;
pub use web::{WebSessions, WebUser};
pub use xrpc::{Costs, XrpcCaller};
