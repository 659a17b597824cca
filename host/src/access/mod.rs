//! Who is calling and what they may do.
//!
//! Two surfaces: `/admin` ([`admin`]: a user and a permission) and `/xrpc` ([`xrpc`]: an API client, and perhaps a
//! user). Every rule that says no says it here, so that a handler only runs for a caller that may call it.

pub mod admin;
mod authorization;
pub mod client;
pub mod forwarding;
pub mod keys;
mod permission;
pub mod rate_limit;
mod replay;
pub mod secrets;
pub mod service_jwt;
mod template;
pub mod users;
pub mod xrpc;

pub use admin::{Admin, Via};
pub use authorization::Credential;
pub use client::{ApiClient, Clients};
pub use forwarding::ForwardingRules;
pub use keys::AdminKeys;
pub use permission::{Permission, PermissionSet};
pub use rate_limit::Buckets;
pub use secrets::{AdminKey, ClientCredentials};
pub use service_jwt::ServiceTokens;
pub use template::Template;
pub use users::Users;
pub use xrpc::{Costs, XrpcCaller};
