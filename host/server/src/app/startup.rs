//! Opens the parts on which the others are built: configuration, secrets, database, [`Core`].

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use super::open::{StartError, net_client, open_store, outbound_policy, resolver, script_access};
use super::stand_ins::Outside;
use belvedere_base::clock::Clock;
use belvedere_base::lifecycle::Lifecycle;
use belvedere_base::random::Random;
use belvedere_instance::config::{Config, Identity, LoadedSecrets};
use belvedere_instance::core::Core;
use belvedere_instance::events::EventLog;
use belvedere_instance::people::People;
use belvedere_protocol::crypto::SealingKey;
use belvedere_storage::store::StoreError;
use belvedere_storage::store::server_lock::ServerLock;
use belvedere_wasm::sandbox::ProcessorPool;
use belvedere_web::net::{self, OutboundPolicy};

pub(super) struct Startup {
    pub(super) core: Core,
    pub(super) config: Config,
    pub(super) identity: Identity,
    pub(super) secrets: LoadedSecrets,
    pub(super) lock: ServerLock,
    /// Knows the handles of accounts.
    pub(super) people: People,
    /// The time slices of scripts and plugins: together they use no more than the cores.
    pub(super) processor: ProcessorPool,
    pub(super) lifecycle: Lifecycle,
    pub(super) outside: Outside,
}

impl Startup {
    pub(super) async fn open(
        config: Config,
        port: u16,
        lifecycle: Lifecycle,
        outside: Outside,
    ) -> Result<Self, StartError> {
        let (clock, random) = match outside.embedded() {
            Some(stand_ins) => (stand_ins.clock.clone(), stand_ins.random.clone()),
            None => (Clock::system(), Random::system()),
        };
        let secrets = config.secrets.load(&random)?;
        let lock = ServerLock::take(&config.database.url)?;
        let db = open_store(&config.database, &script_access(&config.database, &secrets.encryption)).await?;
        let (events, _writer) = EventLog::start(db.clone(), clock.clone(), random.clone());
        let identity = config.server.identity(port);
        let net = match &outside {
            Outside::Server => net_client(&config, &identity, port)?,
            Outside::Development(parts) => net::Client::standing_in(
                outbound_policy(&config, &identity, port),
                Arc::clone(&parts.network),
            ),
            Outside::Embedded(stand_ins) => {
                net::Client::standing_in(OutboundPolicy::default(), Arc::clone(&stand_ins.network))
            }
        };
        let core = Core {
            sealing: SealingKey::new(*secrets.encryption.reveal()),
            resolver: resolver(&config, net.clone(), clock.clone()),
            registry: Arc::default(),
            tasks: TaskTracker::new(),
            drain: lifecycle.drain.clone(),
            db,
            clock,
            random,
            events,
            net,
        };
        let failed = |error| StartError::Store { url: config.database.redacted_url(), error };
        core.registry.reload(&core.db).await.map_err(failed)?;
        let people =
            People::new(core.db.clone(), core.resolver.clone(), core.clock.clone(), core.random.clone());
        let processor = ProcessorPool::default();
        Ok(Self { core, config, identity, secrets, lock, people, processor, lifecycle, outside })
    }

    /// An error of the database, with its address.
    pub(super) fn store_error(&self, error: StoreError) -> StartError {
        StartError::Store { url: self.config.database.redacted_url(), error }
    }
}
