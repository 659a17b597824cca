//! The base that all parts of the server use: configuration, secrets, clock, database, event log.

use tokio_util::task::TaskTracker;

use super::open::{StartError, open_store, script_access};
use belvedere_base::clock::Clock;
use belvedere_base::lifecycle::Lifecycle;
use belvedere_base::random::Random;
use belvedere_instance::config::{Config, Identity, LoadedSecrets};
use belvedere_instance::events::EventLog;
use belvedere_protocol::crypto::SealingKey;
use belvedere_storage::store::server_lock::ServerLock;
use belvedere_storage::store::{Db, StoreError};
use belvedere_wasm::sandbox::ProcessorPool;

pub(super) struct Ground {
    pub(super) config: Config,
    pub(super) identity: Identity,
    /// The port that the server listens on.
    pub(super) port: u16,
    pub(super) secrets: LoadedSecrets,
    pub(super) sealing: SealingKey,
    pub(super) clock: Clock,
    pub(super) random: Random,
    pub(super) lock: ServerLock,
    pub(super) db: Db,
    pub(super) events: EventLog,
    /// The turns of scripts and plugins: together they use no more than the cores.
    pub(super) processor: ProcessorPool,
    pub(super) tasks: TaskTracker,
    pub(super) lifecycle: Lifecycle,
}

impl Ground {
    pub(super) async fn open(config: Config, port: u16, lifecycle: Lifecycle) -> Result<Self, StartError> {
        let (clock, random) = (Clock::system(), Random::system());
        let secrets = config.secrets.load(&random)?;
        let lock = ServerLock::take(&config.database.url)?;
        let db = open_store(&config.database, &script_access(&config.database, &secrets.encryption)).await?;
        let (events, _writer) = EventLog::start(db.clone(), clock.clone(), random.clone());
        Ok(Self {
            identity: config.server.identity(port),
            sealing: SealingKey::new(*secrets.encryption.reveal()),
            tasks: TaskTracker::new(),
            config,
            port,
            secrets,
            clock,
            random,
            lock,
            db,
            events,
            processor: ProcessorPool::default(),
            lifecycle,
        })
    }

    /// An error of the database, with its address.
    pub(super) fn store_error(&self, error: StoreError) -> StartError {
        StartError::Store { url: self.config.database.redacted_url(), error }
    }
}
