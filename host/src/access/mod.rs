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

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use crate::clock::Clock;
use crate::config::{RateLimit, TrustedProxies};
use crate::events::EventLog;
use crate::identity::Resolver;
use crate::lexicons::Registry;
use crate::pds::Vault;
use crate::random::Random;
use crate::store::Db;

pub use admin::{Admin, Via};
pub use authorization::Credential;
pub use client::{ApiClient, Clients};
pub use client_buckets::ClientBuckets;
pub use client_keys::ClientKeys;
pub use dpop::{DpopProofs, DpopSession};
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
pub use xrpc::{Admission, Costs, Rejected};

/// What it takes to say who is calling and what they may do.
#[derive(Debug)]
pub struct Access {
    pub db: Db,
    pub clock: Clock,
    pub random: Random,
    pub events: EventLog,
    pub registry: Arc<Registry>,
    pub resolver: Resolver,
    /// The sessions with users' PDSs.
    pub vault: Vault,
    /// Work that a request began and that outlives its answer.
    pub tasks: TaskTracker,
    /// Our own origin: `https://HOST`.
    pub origin: String,
    pub proxies: TrustedProxies,
    /// What a client may spend whose own settings do not say.
    pub rate_limit: RateLimit,
    pub clients: Clients,
    pub admin_keys: AdminKeys,
    pub users: Users,
    /// Origins that are our own.
    pub origins: Origins,
    /// Browsers that are logged in.
    pub web_sessions: WebSessions,
    /// Checks DPoP proofs and remembers the used ones.
    pub proofs: DpopProofs,
    /// Checks service tokens and remembers the used ones.
    pub tokens: ServiceTokens,
    /// What API clients may spend.
    pub buckets: Buckets,
    /// What callers without a client may spend: addresses, targets, DIDs. Apart from the clients', because anybody can
    /// have so many of these that they share buckets.
    pub sender_buckets: Buckets,
    /// What calls cost whose lexicon does not say.
    pub costs: Costs,
    /// Keys of API clients, for authorization servers.
    pub client_keys: ClientKeys,
}
