//! The services that the parts of a running server share.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::events::EventLog;
use crate::identity::Resolver;
use crate::lexicons::Registry;
use belvedere_base::clock::Clock;
use belvedere_base::random::Random;
use belvedere_protocol::crypto::SealingKey;
use belvedere_storage::store::Db;
use belvedere_web::net;

/// The services that most parts of the server need. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Core {
    pub db: Db,
    pub clock: Clock,
    pub random: Random,
    /// Seals secrets at rest.
    pub sealing: SealingKey,
    pub events: EventLog,
    /// The guarded client: every request to another server goes through it.
    pub net: net::Client,
    /// Resolves DIDs and handles to accounts and their PDSs.
    pub resolver: Resolver,
    pub registry: Arc<Registry>,
    /// Work that a request began and that outlives its response; shutdown waits for it.
    pub tasks: TaskTracker,
    /// Cancelled when the server begins to shut down.
    pub drain: CancellationToken,
}

#[cfg(any(test, feature = "testing"))]
impl Core {
    /// Calls servers on this machine only, and finds no DID of the PLC directory.
    ///
    /// # Panics
    /// Outside a runtime.
    pub fn testing(db: &Db, clock: &Clock) -> Self {
        let (random, net) = (Random::system(), net::testing::loopback());
        let (events, _writer) = EventLog::start(db.clone(), clock.clone(), random.clone());
        let no_directory = url::Url::parse("http://127.0.0.1:1").expect("a constant");
        Self {
            db: db.clone(),
            clock: clock.clone(),
            random,
            sealing: SealingKey::new([9; 32]),
            events,
            resolver: Resolver::new(net.clone(), no_directory, clock.clone()),
            net,
            registry: Arc::default(),
            tasks: TaskTracker::new(),
            drain: CancellationToken::new(),
        }
    }
}
