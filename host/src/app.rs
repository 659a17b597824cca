//! What is shared, built once, in order.

use crate::access::{AdminKeys, Buckets, Clients};
use crate::clock::Clock;
use crate::config::{Config, Identity};
use crate::random::Random;
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
}
