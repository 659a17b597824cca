//! The services that the labelers need from the rest of the server.

use std::fmt;
use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::event_scripts::EventScripts;
use belvedere_base::clock::Clock;
use belvedere_base::random::Random;
use belvedere_instance::events::EventLog;
use belvedere_instance::identity::Resolver;
use belvedere_storage::store::Db;
use belvedere_web::net::Client;

/// Chunks whose signatures are verified at the same time. A labeler with millions of labels occupies one core, and the
/// others remain for requests and the stream.
const VERIFYING: usize = 1;

#[derive(Clone)]
pub struct Deps {
    pub db: Db,
    pub net: Client,
    pub resolver: Resolver,
    /// Decides about labels before they are stored.
    pub scripts: EventScripts,
    pub events: EventLog,
    pub clock: Clock,
    pub random: Random,
    /// Places of [`Deps::places`].
    pub verifying: Arc<Semaphore>,
}

impl Deps {
    /// The places for verifying chunks.
    pub fn places() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(VERIFYING))
    }
}

impl fmt::Debug for Deps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deps").field("resolver", &self.resolver).finish_non_exhaustive()
    }
}
