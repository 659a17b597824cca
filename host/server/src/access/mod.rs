//! Authenticates requests, checks permissions and charges rate limits.
//!
//! Four surfaces: `/admin` ([`admin`]: a user with a permission), `/xrpc` ([`xrpc`]: an API client, perhaps a user),
//! `/oauth` ([`oauth`]: an API client, perhaps a session of one of its users) and `/external-auth` ([`AccountCaller`]: a user
//! with a session). Every check happens here, so that a handler only runs for a caller that may call it.

mod account_caller;
pub mod admin;
mod authorization;
mod browser;
pub mod client;
mod client_buckets;
pub mod client_keys;
pub mod client_usage;
pub mod delegation;
pub mod dpop;
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
mod space;
mod template;
pub mod tickets;
mod used_proofs;
pub mod users;
mod web;
pub mod xrpc;

use std::net::IpAddr;
use std::sync::Arc;

use belvedere_instance::config::{RateLimit, TrustedProxies};
use belvedere_instance::core::Core;
use belvedere_instance::pds::Vault;
use belvedere_instance::spaces::Spaces;
use belvedere_web::http::Request;

pub use account_caller::AccountCaller;
pub use admin::Admin;
pub use authorization::Credential;
pub use browser::Browser;
pub use client::{ApiClient, Clients};
pub use client_buckets::ClientBuckets;
pub use client_keys::ClientKeys;
pub use client_usage::ClientUsage;
pub use dpop::{DpopProofs, DpopSession};
pub use keys::AdminKeys;
pub use management::ClientUser;
pub use nonces::Nonces;
pub use oauth::{AssertionCaller, SessionAccess};
pub use origins::Origins;
pub use permission::{Permission, PermissionSet};
pub use public_limit::PublicLimit;
pub use rate_limit::Buckets;
pub use secrets::{AdminKey, ClientCredentials};
pub use sender::{ScriptLookUps, Sender};
pub use service_jwt::ServiceTokens;
pub use space::{ClientKeySets, SpaceAdmission, VerifiedCredentials};
pub use template::Template;
pub use used_proofs::UsedProofs;
pub use users::Users;
pub use web::{WebSessions, WebUser};
pub use xrpc::{Admission, CalledMethod, Costs, Rejected};

/// The services that authentication and authorization of requests need.
#[derive(Debug)]
pub struct Access {
    pub core: Core,
    /// The sessions with users' PDSs.
    pub vault: Vault,
    /// Our own origin: `https://HOST`.
    pub origin: String,
    pub proxies: TrustedProxies,
    /// Rate limit of API clients without one of their own.
    pub rate_limit: RateLimit,
    pub clients: Clients,
    pub admin_keys: AdminKeys,
    pub users: Users,
    /// The instance's own origins.
    pub origins: Origins,
    /// Sessions of browsers that are logged in.
    pub web_sessions: WebSessions,
    /// Checks DPoP proofs and remembers the used ones.
    pub proofs: DpopProofs,
    /// The used proofs and delegation tokens.
    pub used: UsedProofs,
    /// Checks service tokens and remembers the used ones.
    pub tokens: ServiceTokens,
    /// Knows the keys of the tokens that this instance issues for spaces.
    pub spaces: Spaces,
    /// Token buckets of API clients.
    pub buckets: Buckets,
    /// The calls of API clients lately.
    pub client_usage: ClientUsage,
    /// Token buckets of addresses, targets and DIDs. Separate from the clients' buckets, because an attacker can use so
    /// many of these keys that they share buckets.
    pub sender_buckets: Arc<Buckets>,
    /// Costs of calls whose lexicon sets none.
    pub costs: Costs,
    /// Keys with which API clients authenticate to authorization servers.
    pub client_keys: ClientKeys,
    /// Keys with which apps prove their client ids to spaces.
    pub client_key_sets: ClientKeySets,
    /// Credentials for spaces that were verified lately.
    pub verified_credentials: VerifiedCredentials,
}

impl Access {
    /// The address of a request's client: that which limits charge, and which events and sessions show.
    pub fn client_address(&self, request: &Request) -> IpAddr {
        self.proxies.client(request.peer, request.headers())
    }
}
