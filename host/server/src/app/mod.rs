//! [`App`]: everything that requests share. Its parts build themselves, each on those before it.

mod attached_account;
mod background;
mod cache_invalidation;
mod callers;
mod changed_identities;
mod external_accounts;
mod history;
mod moderation;
mod observer;
mod open;
mod plugins;
mod record_exports;
mod recordings;
mod rollouts;
mod scripting;
mod service_identity;
mod sessions;
mod stand_ins;
mod startup;
mod upkeep;

use std::ops::Deref;
use std::sync::Arc;

use tokio::sync::watch;

use crate::access::{Access, Buckets, Costs};
use crate::labelers::Labelers;
use belvedere_base::clock::Timestamp;
use belvedere_base::lifecycle::Lifecycle;
use belvedere_instance::alerts::Alerts;
use belvedere_instance::backfill::{self, Backfills, Feeds};
use belvedere_instance::checks::LastChecks;
use belvedere_instance::config::{Config, Identity};
use belvedere_instance::core::Core;
use belvedere_instance::events::EventFeed;
use belvedere_instance::history::History;
use belvedere_instance::indexing::{self, Observer, RecordChecker, StreamHandle};
use belvedere_instance::jobs::retention::Retention;
use belvedere_instance::labels::{LabelFeed, LabelIssuer};
use belvedere_instance::lexicons::{Authorities, forwarding};
use belvedere_instance::moderation::Moderator;
use belvedere_instance::network_lexicons::NetworkLexicons;
use belvedere_instance::pds::Sessions;
use belvedere_instance::repos::Repos;
use belvedere_instance::repos::linked::LinkedRepos;
use belvedere_instance::service_identity::{ServiceIdentity, Setup};
use belvedere_instance::settings::Settings;
use belvedere_instance::spaces::Spaces;
use belvedere_instance::subscriptions::{Subscriptions, Watches};
use belvedere_scripting::plugins::accounts::{Accounts, InstalledPlugins};
use belvedere_scripting::scripts::Xrpc;
use belvedere_storage::store::readiness::Readiness;
use belvedere_storage::store::server_lock::ServerLock;
use belvedere_web::fair_share::FairPool;
use belvedere_web::http::event_stream;

use background::Followers;
pub use cache_invalidation::Topic;
use history::Counted;
use observer::StreamObserver;
use open::stream_config;
pub use open::{StartError, engine_config, existing_script_access, net_client, resolver, resources};
pub use plugins::PluginParts;
pub use scripting::Scripting;
pub use sessions::PdsSessions;
use stand_ins::Outside;
pub use stand_ins::{Development, StandIns};
use startup::Startup;

/// Shared by every request as `Arc<App>`.
#[derive(Debug)]
pub struct App {
    /// An `App` dereferences to it.
    pub core: Core,
    pub config: Config,
    /// The instance's origin, and the DID of its configuration.
    pub identity: Identity,
    /// The DID by which other servers know the instance, and its services.
    pub service_identity: ServiceIdentity,
    /// Changes that identity.
    pub identity_setup: Setup,
    pub readiness: Readiness,
    /// The findings of the last check of the server.
    pub checks: LastChecks,
    /// The events, for those who follow them.
    pub event_feed: EventFeed,
    /// The history of the server's load.
    pub history: History,
    /// The part of it that the stream and the scripts have counted.
    counted: Counted,
    pub started_at: Timestamp,
    pub settings: Arc<Settings>,
    /// The retention periods, derived from the settings.
    retention: watch::Sender<Retention>,
    /// The lexicons of the registry that follow their publishers.
    pub network_lexicons: NetworkLexicons,
    /// Resolves NSIDs without a lexicon here to the server of their authority.
    pub authorities: Authorities,
    /// Permits for forwarded calls.
    pub forwarding: FairPool,
    /// Permits for exports of records.
    pub record_exports: FairPool,
    pub sessions: PdsSessions,
    /// Authenticates callers and checks their permissions.
    pub access: Access,
    /// Users' repos, for which a session is stored.
    pub repos: Repos,
    /// Repos whose owners permit the instance to write to them.
    pub linked_repos: LinkedRepos,
    /// Permissioned spaces.
    pub spaces: Spaces,
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
    /// The labelers that are followed, and the number of connected ones.
    pub labelers: Labelers,
    /// Issues the labels of this instance.
    pub label_issuer: LabelIssuer,
    /// Checks the conditions that operators have defined.
    pub alerts: Alerts,
    /// Hides and takes down records and accounts.
    pub moderator: Moderator,
    /// Wakes those who subscribe to the labels of this instance.
    pub label_feed: LabelFeed,
    /// Passes changes of records on to subscriptions.
    pub subscriptions: Subscriptions,
    /// The live queries of this host.
    pub watches: Watches,
    /// Checks the records that backfills read.
    record_checker: Arc<RecordChecker>,
    pub lifecycle: Lifecycle,
    /// Every caller gets the message and the stack of a script that failed: under `belvedere dev` only.
    pub shows_failures: bool,
    /// Keeps other servers from the database until this one has ended.
    _lock: ServerLock,
}

impl Deref for App {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.core
    }
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
        let (app, followers) = Box::pin(Self::open(config, port, lifecycle, xrpc, Outside::Server)).await?;
        app.start_sweeps();
        app.start_followers(followers);
        Ok(app)
    }

    /// Opens everything that requests share, without background work.
    async fn open(
        config: Config,
        port: u16,
        lifecycle: Lifecycle,
        xrpc: Arc<dyn Xrpc>,
        outside: Outside,
    ) -> Result<(Arc<Self>, Followers), StartError> {
        let stream_config = stream_config(&config.indexing)?;
        let startup = Startup::open(config, port, lifecycle, outside).await?;
        // After the database: preparing the guest keeps this thread busy, and a database that is being connected to
        // would seem not to answer in time.
        let loaded = scripting::LoadedScripts::open(&startup).await?;
        let core = startup.core.clone();
        let (settings, costs) = (Arc::new(Settings::new(&startup.config)), Costs::default());
        settings
            .reload(&core.db, |settings| costs.reload(settings))
            .await
            .map_err(|error| startup.store_error(error))?;
        core.events.set_verbose(settings.logs_verbosely());
        let (retention, _) = watch::channel(Retention { event_days: settings.event_retention_days() });

        let authorities = Authorities::new(core.net.clone(), core.resolver.clone());
        let (service_identity, identity_setup) = service_identity::open(&startup).await?;
        let sessions = PdsSessions::open(&startup).await?;
        let stored = || Sessions::Stored(sessions.vault.clone());
        let stand_in = startup.outside.embedded().map(|stand_ins| stand_ins.sessions.clone());
        let repos = Repos::new(&core, stand_in.unwrap_or_else(stored));
        let linked_repos =
            LinkedRepos::new(core.db.clone(), sessions.vault.clone(), repos.clone(), core.clock.clone());
        let spaces =
            Spaces::new(core.clone(), Arc::clone(&settings), service_identity.clone(), repos.clone());
        let attestation = Arc::new(scripting::attestation(&startup).await?);
        let plugins = PluginParts::open(&startup, &attestation, loaded.memory()).await?;
        let for_scripts = (&repos, &linked_repos, &spaces, &plugins);
        let label_issuer = LabelIssuer::new(core.db.clone(), core.clock.clone(), service_identity.clone());
        let signers = (&service_identity, &label_issuer, &attestation);
        let sender_buckets = Arc::<Buckets>::default();
        let scripting =
            Scripting::open(&startup, loaded, xrpc, for_scripts, signers, (&settings, &sender_buckets))
                .await?;
        let installed = InstalledPlugins { plugins: plugins.loaded.clone(), calls: plugins.calls.clone() };
        let accounts = external_accounts::open(&startup, installed, &repos, &attestation);
        // Last of the parts that can fail: it writes to the database and starts a task.
        let access = callers::open(&startup, &sessions, (&service_identity, &spaces), costs, sender_buckets);
        let access = access.await?;
        access.vault.effective_scopes().reload(&settings);
        let network_lexicons = NetworkLexicons::new(core.clone(), authorities.clone());
        let followers = Followers::new(startup.people.clone());
        let history = History::new(core.clock.clone());
        let observer: Arc<dyn Observer> = Arc::new(StreamObserver {
            core: core.clone(),
            history: history.clone(),
            identities: followers.identities.clone(),
            may_have_moved: followers.may_have_moved.clone(),
            renamed: followers.renamed.clone(),
            network_lexicons: network_lexicons.clone(),
        });
        let record_checker =
            RecordChecker::new(Arc::clone(&observer), Arc::clone(&core.registry), core.clock.clone());
        let record_checker = Arc::new(record_checker);
        let record_scripts = Arc::new(scripting.events.clone());
        let tracked = core.registry.subscribe();
        let stream =
            indexing::start(&core, tracked, Arc::clone(&record_scripts) as _, observer, stream_config);
        repos.attach(stream.writer(), record_scripts);

        let shows_failures = startup.outside.is_development();
        let Startup { config, identity, lock, lifecycle, .. } = startup;
        let Core { db, clock, random, events, tasks, .. } = core.clone();
        let readiness = Readiness::default();
        let backfills = Backfills::new(db.clone(), events.clone(), clock.clone(), random.clone());
        let started_at = clock.now();
        let streams = event_stream::permits();
        let backfill_feeds = Feeds::new(
            db.clone(),
            backfills.clone(),
            streams.clone(),
            tasks.clone(),
            lifecycle.drain.child_token(),
        );
        let ending = (tasks.clone(), lifecycle.drain.child_token());
        let event_feed = EventFeed::new(db.clone(), &events, clock.clone(), streams, ending);
        let labelers = Labelers::new(core.clone(), scripting.events.clone());
        let ending = (tasks.clone(), lifecycle.drain.child_token());
        let label_feed = LabelFeed::new(db.clone(), &label_issuer, ending);
        let ending = (tasks.clone(), lifecycle.drain.child_token());
        let message_scripts = Arc::new(scripting.events.clone());
        let subscriptions = Subscriptions::new(&core, config.subscriptions, message_scripts, ending);
        let moderator = Moderator::new(core.db.clone(), core.clock.clone(), core.events.clone());
        let alerts = Alerts::new(core.clone(), identity.origin.clone());
        let app = Arc::new(Self {
            core,
            config,
            identity,
            service_identity,
            identity_setup,
            readiness,
            checks: LastChecks::default(),
            event_feed,
            history,
            counted: Counted::default(),
            started_at,
            settings,
            retention,
            network_lexicons,
            authorities,
            forwarding: forwarding::pool(),
            record_exports: record_exports::pool(),
            sessions,
            access,
            repos,
            linked_repos,
            spaces,
            plugins,
            scripting,
            accounts,
            stream,
            backfills,
            backfill_feeds,
            labelers,
            label_issuer,
            alerts,
            moderator,
            label_feed,
            subscriptions,
            watches: Watches::default(),
            record_checker,
            lifecycle,
            shows_failures,
            _lock: lock,
        });
        app.accounts
            .prepare()
            .await
            .map_err(|error| StartError::Store { url: app.config.database.redacted_url(), error })?;
        app.reload(&Topic::Domains)
            .await
            .map_err(|error| StartError::Store { url: app.config.database.redacted_url(), error })?;
        Ok((app, followers))
    }

    /// Starts the workers of background jobs and backfills, the supervisor of labelers, and what runs for plugins and
    /// spaces, until the server drains.
    pub fn start_workers(&self) {
        self.start_plugins();
        let workers = self.scripting.workers(self);
        workers.start(self.config.scripts.job_workers, &self.tasks, &self.lifecycle.drain);
        self.tasks.spawn(self.scripting.scheduler(self).run(self.lifecycle.drain.clone()));
        let deps = backfill::Deps {
            core: self.core.clone(),
            writer: self.stream.writer(),
            scripts: Arc::new(self.scripting.events.clone()),
            checker: Arc::clone(&self.record_checker),
            settings: Arc::clone(&self.settings),
            relay_url: self.config.indexing.relay_url.clone(),
        };
        backfill::start(self.backfills.clone(), deps);
        self.labelers.start();
        self.accounts.start_workers();
        self.spaces.start_workers();
    }
}
