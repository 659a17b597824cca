//! What is shared, built once, in order: store, then what is kept in memory of it, then what runs by itself.

mod cache_invalidation;
mod changed_identities;
mod observer;
mod open;

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use crate::access::{
    Access, AdminKeys, Buckets, ClientKeys, Clients, Costs, DpopProofs, Nonces, Origins, ServiceTokens,
    UsedProofs, Users, WebSessions, rate_limit,
};
use crate::clock::Clock;
use crate::config::{Config, Identity, LoadedSecrets};
use crate::crypto::{Algorithm, SealingKey};
use crate::event_scripts::Triggers;
use crate::events::EventLog;
use crate::fair_share::FairPool;
use crate::identity::Resolver;
use crate::indexing::{self, StreamHandle};
use crate::jobs::JobQueue;
use crate::jobs::field_indexes;
use crate::jobs::retention::{self, Retention};
use crate::keys::attestation::Attestation;
use crate::keys::instance;
use crate::lexicons::{Authorities, Registry, forwarding};
use crate::lifecycle::Lifecycle;
use crate::net;
use crate::oauth::{Authorizations, Courier, Discovery, OwnKey};
use crate::pds::{Sessions, Vault, sweep};
use crate::random::Random;
use crate::repos::Repos;
use crate::repos::linked::{self, LinkedRepos};
use crate::scripts::{Engine, Library, ServerIndex, ServerLabels, ServerLog, Services, Variables, Web, Xrpc};
use crate::settings::{self, Settings};
use crate::store::readiness::Readiness;
use crate::store::{self, Db};
use crate::worker::{self, Workers};

pub use cache_invalidation::Topic;
use changed_identities::ChangedIdentities;
use observer::StreamObserver;
use open::stream_config;
pub use open::{StartError, engine_config, net_client, open_store, script_access};

/// Shared by every request as `Arc<App>`.
#[derive(Debug)]
pub struct App {
    pub config: Config,
    /// The instance's origin and DID.
    pub identity: Identity,
    pub secrets: LoadedSecrets,
    /// Seals what is secret at rest.
    pub sealing: SealingKey,
    pub clock: Clock,
    pub random: Random,
    pub db: Db,
    pub readiness: Readiness,
    /// Who is calling, and what they may do.
    pub access: Access,
    /// The instance's own users on their way to their servers and back.
    pub authorizations: Authorizations,
    pub settings: Settings,
    pub registry: Arc<Registry>,
    /// The guarded way to everybody else.
    pub net: net::Client,
    pub resolver: Resolver,
    /// Which authorization server speaks for an account.
    pub discovery: Discovery,
    /// Requests with DPoP proofs of ours.
    pub courier: Courier,
    /// The sessions with users' PDSs.
    pub vault: Vault,
    /// Who answers for methods that have no lexicon here.
    pub authorities: Authorities,
    /// Places for calls that are forwarded.
    pub forwards: FairPool,
    pub events: EventLog,
    pub engine: Engine,
    pub library: Arc<Library>,
    /// Scripts that decide about events.
    pub triggers: Triggers,
    /// The queue of background jobs.
    pub jobs: JobQueue,
    /// Users' repos, as far as sessions reach.
    pub repos: Repos,
    /// Repos whose owners let the instance write to them.
    pub linked_repos: LinkedRepos,
    /// What scripts may reach.
    pub script_services: Services,
    /// Their way to other servers.
    pub web: Web,
    pub stream: StreamHandle,
    /// Work that a request began and that outlives its answer; shutdown waits for it.
    pub tasks: TaskTracker,
    pub lifecycle: Lifecycle,
}

impl App {
    /// Starts everything but the HTTP server and the workers. `port` is the one that is listened on; `xrpc` is the way of
    /// scripts to this server's methods.
    ///
    /// # Errors
    /// Says what is missing; nothing keeps running then.
    pub async fn start(
        config: Config,
        port: u16,
        lifecycle: Lifecycle,
        xrpc: Arc<dyn Xrpc>,
    ) -> Result<Arc<Self>, StartError> {
        let (clock, random) = (Clock::system(), Random::system());
        let identity = config.server.identity(port);
        let secrets = config.secrets.load(&random)?;
        let stream_config = stream_config(&config.indexing)?;
        // One after the other: preparing the guest keeps this thread busy, and a database that is being connected to would
        // seem not to answer in time.
        let db = open_store(&config.database, &script_access(&config)?).await?;
        let engine = Engine::open(engine_config(&config)).await?;
        let named = |error| StartError::Store { url: config.database.shown(), error };

        let registry = Arc::new(Registry::default());
        registry.reload(&db).await.map_err(named)?;
        let library = Arc::new(Library::new());
        library.reload(&engine, &db).await.map_err(named)?;
        let clients = Clients::default();
        clients.reload(&db).await.map_err(named)?;
        let (settings, costs) = (Settings::new(&config), Costs::default());
        settings.reload(&db, |settings| costs.reload(settings)).await.map_err(named)?;

        let sealing = SealingKey::new(*secrets.encryption.reveal());
        let attestation = Attestation::load(
            &config.attestation,
            (
                format!("{}#attestation", identity.did),
                format!("{}.attestation", config.auth.service_namespace),
            ),
            &db,
            &sealing,
            &random,
            &clock,
        )
        .await?;

        let plc = url::Url::parse(&config.indexing.plc_url).expect("the configuration was checked");
        let net = net_client(&config, &identity, port)?;
        let resolver = Resolver::new(net.clone(), plc, clock.clone());
        let (events, _writer) = EventLog::start(db.clone(), clock.clone(), random.clone());
        events.set_verbose(settings.flag(settings::VERBOSE_EVENT_LOGGING));
        let variables = Variables::default();
        variables.reload(&sealing, &db).await.map_err(named)?;
        let web = Web::new(net.clone(), config.scripts.pool_size);
        let jobs = JobQueue::new(db.clone(), Arc::clone(&library) as _, clock.clone(), random.clone());
        let tasks = TaskTracker::new();
        let courier = Courier::new(net.clone(), clock.clone(), random.clone());
        let discovery = Discovery::new(net.clone(), resolver.clone());
        let own_key =
            instance::load(&db, &sealing, &random, &clock, "oauth-client", Algorithm::Es256).await?;
        let own_key = Arc::new(OwnKey::new(own_key));
        let vault = Vault::new(
            db.clone(),
            sealing.clone(),
            courier.clone(),
            discovery.clone(),
            Arc::clone(&own_key),
            tasks.clone(),
        );
        let authorizations =
            Authorizations::new(db.clone(), sealing.clone(), courier.clone(), discovery.clone(), own_key);
        store::oauth_sessions::release_all(&db).await.map_err(named)?;
        let origins = Origins::new(&identity.origin);
        let secure = identity.origin.starts_with("https://");
        let web_sessions = WebSessions::new(db.clone(), secrets.session.reveal(), origins.clone(), secure);
        // PUBLIC_URL says which domain is the primary, whatever was chosen before it was changed.
        store::domains::set_origin(&db, &random.uuid(), &identity.origin, clock.now())
            .await
            .map_err(named)?;
        let used = UsedProofs::start(db.clone(), clock.clone(), &tasks, lifecycle.drain.clone());
        let nonces = config.auth.dpop_nonces.then(|| Nonces::new(secrets.session.reveal()));
        let proofs = DpopProofs::new(db.clone(), clock.clone(), origins.clone(), used, nonces);
        let repos = Repos::new(
            db.clone(),
            Arc::clone(&registry),
            Arc::clone(&library) as _,
            Sessions::Stored(vault.clone()),
            net.clone(),
        );
        let linked_repos = LinkedRepos::new(db.clone(), vault.clone(), repos.clone(), clock.clone());
        let script_services = Services::new(
            Arc::new(ServerIndex(db.clone())),
            Arc::new(ServerLog::new(events.clone(), variables.clone())),
            clock.clone(),
            random.clone(),
        )
        .with_variables(variables)
        .with_web(web.clone())
        .with_xrpc(xrpc)
        .with_jobs(jobs.clone())
        .with_atproto(
            resolver.clone(),
            Arc::new(ServerLabels(db.clone(), clock.clone())),
            Arc::new(attestation),
        )
        .with_repos(repos.clone())
        .with_linked_repos(linked_repos.clone());
        let triggers = Triggers::new(
            engine.clone(),
            Arc::clone(&library),
            script_services.clone(),
            events.clone(),
            db.clone(),
        );
        let identities = ChangedIdentities::default();
        let observer = StreamObserver {
            events: events.clone(),
            resolver: resolver.clone(),
            identities: identities.clone(),
        };
        let stream = indexing::start(indexing::Deps {
            db: db.clone(),
            tracked: registry.subscribe(),
            scripts: Arc::new(triggers.clone()),
            observer: Arc::new(observer),
            clock: clock.clone(),
            random: random.clone(),
            config: stream_config,
            shutdown: lifecycle.drain.child_token(),
        });

        repos.attach(stream.writer());

        let access = Access {
            db: db.clone(),
            clock: clock.clone(),
            random: random.clone(),
            events: events.clone(),
            registry: Arc::clone(&registry),
            resolver: resolver.clone(),
            vault: vault.clone(),
            tasks: tasks.clone(),
            origin: identity.origin.clone(),
            proxies: config.server.trusted_proxies.clone(),
            rate_limit: config.rate_limit,
            clients,
            admin_keys: AdminKeys::default(),
            users: Users::default(),
            origins,
            web_sessions,
            proofs,
            tokens: ServiceTokens::new(identity.did.as_str().to_owned(), clock.clone()),
            buckets: Buckets::default(),
            sender_buckets: Buckets::default(),
            costs,
            client_keys: ClientKeys::new(net.clone()),
        };
        let app = Arc::new(Self {
            access,
            authorizations,
            discovery,
            courier,
            vault,
            config,
            identity,
            secrets,
            sealing,
            clock,
            random,
            db,
            readiness: Readiness::default(),
            settings,
            registry,
            forwards: forwarding::places(),
            authorities: Authorities::new(net.clone(), resolver.clone()),
            net,
            resolver,
            events,
            engine,
            library,
            triggers,
            jobs,
            repos,
            linked_repos,
            script_services,
            web,
            stream,
            tasks,
            lifecycle,
        });
        app.reload(&Topic::Domains)
            .await
            .map_err(|error| StartError::Store { url: app.config.database.shown(), error })?;
        app.start_sweeps();
        app.tasks.spawn(identities.tell(app.db.clone(), app.lifecycle.drain.clone()));
        Ok(app)
    }

    /// Work that scripts asked for, until the server drains.
    pub fn start_workers(&self) {
        let workers = Workers {
            db: self.db.clone(),
            engine: self.engine.clone(),
            library: Arc::clone(&self.library),
            services: self.script_services.clone(),
            events: self.events.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            queue: self.jobs.clone(),
            places: worker::places(self.config.scripts.job_workers),
        };
        workers.start(self.config.scripts.job_workers, &self.tasks, &self.lifecycle.drain);
    }

    /// Work by the clock, until the server drains.
    fn start_sweeps(self: &Arc<Self>) {
        let keep = Retention { event_days: self.config.events.retention_days };
        let drain = self.lifecycle.drain.clone();
        self.tasks.spawn(retention::run(self.db.clone(), self.clock.clone(), keep, drain.clone()));
        self.tasks.spawn(sweep::run(self.db.clone(), self.vault.clone(), self.clock.clone(), drain.clone()));
        self.tasks.spawn(linked::keep_alive(self.linked_repos.clone(), drain.clone()));
        let limit = self.config.database.field_index_limit;
        self.tasks.spawn(field_indexes::run(self.db.clone(), self.clock.clone(), limit, drain.clone()));
        self.tasks.spawn(Arc::clone(self).follow_changes());
        let app = Arc::clone(self);
        self.tasks.spawn(async move {
            let pause = || tokio::time::sleep(rate_limit::SWEEP_EVERY);
            while drain.run_until_cancelled(pause()).await.is_some() {
                app.access.buckets.sweep(app.clock.now());
                app.access.sender_buckets.sweep(app.clock.now());
                app.script_services.log.report_dropped(app.clock.now());
            }
        });
    }
}
