//! Who is calling and what they may do.
//!
//! Two surfaces: `/admin` ([`admin`]: a user and a permission) and `/xrpc` ([`xrpc`]: an API client, and perhaps a
//! user). Every rule that says no says it here, so that a handler only runs for a caller that may call it.

pub mod admin;
pub mod client;
mod permission;
pub mod rate_limit;
pub mod secrets;
mod template;
pub mod xrpc;

pub use admin::{Admin, AdminKeys};
pub use client::{ApiClient, Clients};
pub use permission::{Permission, PermissionSet};
pub use rate_limit::Buckets;
pub use secrets::{AdminKey, ClientCredentials};
pub use template::Template;
pub use xrpc::XrpcCaller;
