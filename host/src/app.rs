//! What is shared, built once, in order.

use std::sync::Arc;

use crate::access::{AdminKeys, Buckets, Clients};
use crate::clock::Clock;
use crate::config::{Config, Identity};
use crate::events::EventLog;
use crate::identity::Resolver;
use crate::lexicons::Registry;
use crate::random::Random;
use crate::scripts::{Engine, Library, Services};
use crate::store::Db;

/// Shared by every request as `Arc<App>`.
#[derive(Debug)]
pub struct App {
    pub config: Config,
    /// The instance's origin and DID.
    pub identity: Identity,
    pub clock: Clock,
    pub random: Random,
    pub db: Db,
    pub clients: Clients,
    pub admin_keys: AdminKeys,
    pub buckets: Buckets,
    pub registry: Arc<Registry>,
    pub resolver: Resolver,
    pub events: EventLog,
    pub engine: Engine,
    pub library: Library,
    /// What scripts may reach.
    pub script_services: Services,
}
