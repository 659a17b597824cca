//! [`App`]: everything that requests share. Its parts build themselves, each on those before it.

mod attached_account;
mod cache_invalidation;
mod callers;
mod changed_identities;
mod external_accounts;
mod ground;
mod history;
mod observer;
mod open;
mod outbound;
mod plugins;
mod scripting;
mod service_identity;
mod sessions;
mod upkeep;

use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use crate::access::{Access, Costs, rate_limit};
use crate::labelers::{self, Labelers};
use belvedere_base::clock::{Clock, Timestamp};
use belvedere_base::lifecycle::Lifecycle;
use belvedere_base::random::Random;
use belvedere_instance::backfill::{self, Backfills, Feeds};
use belvedere_instance::checks::LastChecks;
use belvedere_instance::config::{Config, Identity};
use belvedere_instance::events::{EventFeed, EventLog};
use belvedere_instance::history::History;
use belvedere_instance::indexing::{self, Observer, RecordChecker, StreamHandle};
use belvedere_instance::jobs::retention::{self, Retention};
use belvedere_instance::lexicons::Registry;
use belvedere_instance::network_lexicons::{self, NetworkLexicons};
use belvedere_instance::pds::{Sessions, revocation, sweep};
use belvedere_instance::repos::Repos;
use belvedere_instance::repos::linked::{self, LinkedRepos};
use belvedere_instance::service_identity::{ServiceIdentity, Setup};
use belvedere_instance::settings::Settings;
use belvedere_protocol::crypto::SealingKey;
use belvedere_scripting::plugins::accounts::{Accounts, InstalledPlugins};
use belvedere_scripting::scripts::Xrpc;
use belvedere_storage::store::Db;
use belvedere_storage::store::fields::advice;
use belvedere_storage::store::readiness::Readiness;
use belvedere_storage::store::server_lock::ServerLock;
use belvedere_web::http::event_stream;

pub use cache_invalidation::Topic;
use changed_identities::ChangedIdentities;
use ground::Ground;
use history::Counted;
use observer::StreamObserver;
use open::stream_config;
pub use open::{StartError, engine_config, existing_script_access, net_client, resolver, resources};
pub use outbound::Outbound;
pub use plugins::PluginParts;
pub use scripting::Scripting;
pub use sessions::PdsSessions;

/// Shared by every request as `Arc<App>`.
#[derive(Debug)]
pub struct App {
    pub config: Config,
    /// The instance's origin, and the DID of its configuration.
    pub identity: Identity,
    /// The DID by which other servers know the instance, and its services.
    pub service_identity: ServiceIdentity,
    /// Changes that identity.
    pub identity_setup: Setup,
    /// Seals secrets at rest.
    pub sealing: SealingKey,
    pub clock: Clock,
    pub random: Random,
    pub db: Db,
    pub readiness: Readiness,
    /// What was found when the server was last checked.
    pub checks: LastChecks,
    pub events: EventLog,
    /// The events, for those who follow them.
    pub event_feed: EventFeed,
    /// How much the server did.
    pub history: History,
    /// What of it the stream and the scripts have counted.
    counted: Counted,
    pub started_at: Timestamp,
    pub settings: Arc<Settings>,
    /// The retention periods, derived from the settings.
    retention: watch::Sender<Retention>,
    pub registry: Arc<Registry>,
    /// The lexicons of the registry that follow their publishers.
    pub network_lexicons: NetworkLexicons,
    pub outbound: Outbound,
    pub sessions: PdsSessions,
    /// Authenticates callers and checks their permissions.
    pub access: Access,
    /// Users' repos, for which a session is stored.
    pub repos: Repos,
    /// Repos whose owners permit the instance to write to them.
    pub linked_repos: LinkedRepos,
    pub plugins: PluginParts,
    pub scripting: Scripting,
    /// Accounts at other services that users link through plugins.
    pub accounts: Accounts,
    /// The consumer of the Jetstream and the writer behind it.
    pub stream: StreamHandle,
    /// Jobs that read the history of collections.
    pub backfills: Backfills,
    /// Their progress, for those who follow it.
    pub backfill_feeds: Feeds,
    /// Which labelers are followed, and how many are connected.
    pub labelers: Labelers,
    /// Checks the records that backfills read.
    record_checker: Arc<RecordChecker>,
    /// Work that a request began and that outlives its answer; shutdown waits for it.
    pub tasks: TaskTracker,
    pub lifecycle: Lifecycle,
    /// Keeps other servers from the database until this one has ended.
    _lock: ServerLock,
}

impl App {
    /// Starts everything but the HTTP server and the workers. `port` is the one that the server listens on; scripts
    /// call this server's methods through `xrpc`.
    ///
    /// # Errors
    /// The error names what is missing.
    pub async fn start(
        config: Config,
        port: u16,
        lifecycle: Lifecycle,
        xrpc: Arc<dyn Xrpc>,
    ) -> Result<Arc<Self>, StartError> {
        let stream_config = stream_config(&config.indexing)?;
        let ground = Ground::open(config, port, lifecycle).await?;
        // After the database: preparing the guest keeps this thread busy, and a database that is being connected to
        // would seem not to answer in time.
        let loaded = scripting::LoadedScripts::open(&ground).await?;
        let registry = Arc::new(Registry::default());
        registry.reload(&ground.db).await.map_err(|error| ground.store_error(error))?;
        let (settings, costs) = (Settings::new(&ground.config), Costs::default());
        settings
            .reload(&ground.db, |settings| costs.reload(settings))
            .await
            .map_err(|error| ground.store_error(error))?;
        ground.events.set_verbose(settings.logs_verbosely());
        let (retention, _) = watch::channel(Retention { event_days: settings.event_retention_days() });

        let outbound = Outbound::open(&ground)?;
        let (service_identity, identity_setup) = service_identity::open(&ground, &outbound).await?;
        let sessions = PdsSessions::open(&ground, &outbound).await?;
        let repos = Repos::new(
            ground.db.clone(),
            Arc::clone(&registry),
            Sessions::Stored(sessions.vault.clone()),
            outbound.net.clone(),
        );
        let linked_repos =
            LinkedRepos::new(ground.db.clone(), sessions.vault.clone(), repos.clone(), ground.clock.clone());
        let attestation = Arc::new(scripting::attestation(&ground).await?);
        let plugins = PluginParts::open(&ground, &outbound, &attestation, loaded.memory()).await?;
        let for_scripts = (&repos, &linked_repos, &plugins);
        let scripting =
            Scripting::open(&ground, &outbound, loaded, xrpc, for_scripts, (&service_identity, &attestation))
                .await?;
        let installed = InstalledPlugins { plugins: plugins.loaded.clone(), calls: plugins.calls.clone() };
        let accounts = external_accounts::open(&ground, installed, &registry, &repos, &attestation);
        // Last of the parts that can fail: it writes to the database and starts a task.
        let access =
            callers::open(&ground, &outbound, &sessions, &registry, &service_identity, costs).await?;
        let network_lexicons = NetworkLexicons::new(network_lexicons::Deps {
            db: ground.db.clone(),
            net: outbound.net.clone(),
            resolver: outbound.resolver.clone(),
            authorities: outbound.authorities.clone(),
            registry: Arc::clone(&registry),
            events: ground.events.clone(),
            clock: ground.clock.clone(),
            random: ground.random.clone(),
        });
        let (identities, may_have_moved) = (ChangedIdentities::default(), ChangedIdentities::default());
        let observer: Arc<dyn Observer> = Arc::new(StreamObserver {
            events: ground.events.clone(),
            resolver: outbound.resolver.clone(),
            identities: identities.clone(),
            may_have_moved: may_have_moved.clone(),
            network_lexicons: network_lexicons.clone(),
        });
        let record_checker =
            RecordChecker::new(Arc::clone(&observer), Arc::clone(&registry), ground.clock.clone());
        let record_checker = Arc::new(record_checker);
        let stream = indexing::start(indexing::Deps {
            db: ground.db.clone(),
            tracked: registry.subscribe(),
            scripts: Arc::new(scripting.events.clone()),
            observer,
            registry: Arc::clone(&registry),
            clock: ground.clock.clone(),
            random: ground.random.clone(),
            config: stream_config,
            shutdown: ground.lifecycle.drain.child_token(),
        });
        repos.attach(stream.writer(), Arc::new(scripting.events.clone()));

        let Ground { config, identity, sealing, clock, random, lock, db, events, tasks, lifecycle, .. } =
            ground;
        let readiness = Readiness::default();
        let backfills = Backfills::new(db.clone(), events.clone(), clock.clone(), random.clone());
        let (history, started_at) = (History::new(clock.clone()), clock.now());
        let streams = event_stream::places();
        let backfill_feeds = Feeds::new(
            db.clone(),
            backfills.clone(),
            streams.clone(),
            tasks.clone(),
            lifecycle.drain.child_token(),
        );
        let ending = (tasks.clone(), lifecycle.drain.child_token());
        let event_feed = EventFeed::new(db.clone(), &events, clock.clone(), streams, ending);
        let app = Arc::new(Self {
            config,
            identity,
            service_identity,
            identity_setup,
            sealing,
            clock,
            random,
            db,
            readiness,
            checks: LastChecks::default(),
            events,
            event_feed,
            history,
            counted: Counted::default(),
            started_at,
            settings: Arc::new(settings),
            retention,
            registry,
            network_lexicons,
            outbound,
            sessions,
            access,
            repos,
            linked_repos,
            plugins,
            scripting,
            accounts,
            stream,
            backfills,
            backfill_feeds,
            labelers: Labelers::default(),
            record_checker,
            tasks,
            lifecycle,
            _lock: lock,
        });
        app.accounts
            .prepare()
            .await
            .map_err(|error| StartError::Store { url: app.config.database.redacted_url(), error })?;
        app.reload(&Topic::Domains)
            .await
            .map_err(|error| StartError::Store { url: app.config.database.redacted_url(), error })?;
        app.start_sweeps();
        app.tasks.spawn(identities.announce(app.db.clone(), app.lifecycle.drain.clone()));
        let vault = app.sessions.vault.clone();
        app.tasks.spawn(may_have_moved.check_sessions(vault, app.lifecycle.drain.clone()));
        Ok(app)
    }

    /// Starts the workers of background jobs and backfills, the supervisor of labelers, and what runs for plugins, until the
    /// server drains.
    pub fn start_workers(&self) {
        self.start_plugins();
        let workers = self.scripting.workers(self);
        workers.start(self.config.scripts.job_workers, &self.tasks, &self.lifecycle.drain);
        let deps = backfill::Deps {
            db: self.db.clone(),
            net: self.outbound.net.clone(),
            resolver: self.outbound.resolver.clone(),
            registry: Arc::clone(&self.registry),
            writer: self.stream.writer(),
            scripts: Arc::new(self.scripting.events.clone()),
            checker: Arc::clone(&self.record_checker),
            settings: Arc::clone(&self.settings),
            events: self.events.clone(),
            clock: self.clock.clone(),
            relay_url: self.config.indexing.relay_url.clone(),
        };
        backfill::start(self.backfills.clone(), deps, &self.tasks, &self.lifecycle.drain);
        let deps = labelers::Deps {
            db: self.db.clone(),
            net: self.outbound.net.clone(),
            resolver: self.outbound.resolver.clone(),
            scripts: self.scripting.events.clone(),
            events: self.events.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            verifying: labelers::Deps::places(),
        };
        labelers::start(self.labelers.clone(), deps, &self.tasks, &self.lifecycle.drain);
        self.accounts.start_workers();
    }

    /// Starts periodic work, which runs until the server drains.
    fn start_sweeps(self: &Arc<Self>) {
        let (db, clock, drain) = (&self.db, &self.clock, &self.lifecycle.drain);
        let periods = self.retention.subscribe();
        self.tasks.spawn(retention::run(db.clone(), clock.clone(), periods, drain.clone()));
        let vault = self.sessions.vault.clone();
        self.tasks.spawn(sweep::run(db.clone(), vault.clone(), clock.clone(), drain.clone()));
        self.tasks.spawn(revocation::run(vault, drain.clone()));
        self.tasks.spawn(linked::keep_alive(self.linked_repos.clone(), drain.clone()));
        let limit = self.config.database.field_index_limit;
        self.tasks.spawn(advice::run(db.clone(), clock.clone(), limit, drain.clone()));
        self.tasks.spawn(Arc::clone(self).keep_history());
        self.tasks.spawn(Arc::clone(self).follow_changes());
        let (replicated, ending) = (db.clone(), drain.clone());
        self.tasks.spawn(async move { replicated.watch_replicas(ending).await });
        let (app, ending) = (Arc::clone(self), drain.clone());
        self.tasks.spawn(async move {
            ending.run_until_cancelled(app.network_lexicons.follow_stream(&app)).await;
        });
        self.tasks.spawn(Arc::clone(self).upkeep());
        let app = Arc::clone(self);
        let days = move || app.settings.backfill().retention_days;
        self.tasks.spawn(backfill::retention::run(db.clone(), clock.clone(), days, drain.clone()));
        let (app, drain) = (Arc::clone(self), drain.clone());
        self.tasks.spawn(async move {
            let pause = || tokio::time::sleep(rate_limit::SWEEP_EVERY);
            while drain.run_until_cancelled(pause()).await.is_some() {
                app.access.buckets.sweep(app.clock.now());
                app.access.sender_buckets.sweep(app.clock.now());
                app.scripting.runtime.services.log.report_dropped(app.clock.now());
                app.plugins.calls.report_dropped_lines(app.clock.now());
            }
        });
    }
}
