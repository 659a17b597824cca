//! What is shared, built once, in order: store, then what is kept in memory of it, then what runs by itself.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tokio_util::task::TaskTracker;

use crate::access::{
    AdminKeys, Buckets, ClientKeys, Clients, Costs, DpopProofs, Nonces, Origins, ServiceTokens, UsedProofs,
    Users, WebSessions, rate_limit,
};
use crate::api::health::Readiness;
use crate::api::xrpc::forward;
use crate::api::xrpc::nested::InProcess;
use crate::attestation::Attestation;
use crate::changes::{ChangedIdentities, Topic};
use crate::clock::Clock;
use crate::config::{self, Config, Identity, LoadedSecrets, ScriptSql, SecretError};
use crate::crypto::{Algorithm, MacKey, SealingKey};
use crate::events::{EventLog, StreamObserver};
use crate::fair_share::FairPool;
use crate::identity::Resolver;
use crate::indexing::{self, StreamConfig, StreamHandle};
use crate::instance_key::{self, InstanceKeyError};
use crate::jobs::field_indexes;
use crate::jobs::retention::{self, Retention};
use crate::jobs::{self, JobQueue, Workers};
use crate::lexicons::{Authorities, Registry};
use crate::lifecycle::Lifecycle;
use crate::linked_repos::{self, LinkedRepos};
use crate::net::{self, OutboundPolicy};
use crate::oauth::{Authorizations, Courier, Discovery, OwnKey};
use crate::pds::{Sessions, Vault, sweep};
use crate::random::Random;
use crate::scripts::{
    Engine, EngineConfig, EngineError, Library, Repos, ServerIndex, ServerLabels, ServerLog, Services,
    Variables, Web,
};
use crate::settings::{self, Settings};
use crate::store::script_sql::role::Access;
use crate::store::{self, Db, StoreError};
use crate::triggers::Triggers;

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
    pub clients: Clients,
    pub admin_keys: AdminKeys,
    pub users: Users,
    /// Origins that are our own.
    pub origins: Origins,
    /// Browsers that are logged in.
    pub web_sessions: WebSessions,
    /// The instance's own users on their way to their servers and back.
    pub authorizations: Authorizations,
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
    pub settings: Settings,
    pub costs: Costs,
    pub registry: Arc<Registry>,
    /// The guarded way to everybody else.
    pub net: net::Client,
    pub resolver: Resolver,
    /// Which authorization server speaks for an account.
    pub discovery: Discovery,
    /// Requests with DPoP proofs of ours.
    pub courier: Courier,
    /// Keys of API clients, for authorization servers.
    pub client_keys: ClientKeys,
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

/// Why the server can't start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error("the database at {url} can't be used: {error}")]
    Store { url: String, error: StoreError },
    #[error("the script engine can't be set up: {0}")]
    Engine(#[from] EngineError),
    #[error(transparent)]
    InstanceKey(#[from] InstanceKeyError),
    #[error("the outbound HTTP client can't be set up: {0}")]
    Net(#[from] net::NetError),
    #[error("the zstd dictionary {path} can't be read: {error}")]
    Dictionary { path: PathBuf, error: std::io::Error },
}

/// Opens the database and brings its schema up to date.
///
/// # Errors
/// Names the database, without its password.
pub async fn open_store(config: &config::Database, scripts: &Access) -> Result<Db, StartError> {
    let named = |error| StartError::Store { url: config.shown(), error };
    let db = Db::open_with(&config.url, config.max_connections, scripts).await.map_err(named)?;
    // Looking is cheaper than the lock that migrating takes.
    if db.pending_migrations().await.map_err(named)? > 0 {
        db.migrate().await.map_err(named)?;
    } else {
        db.prepare_script_role().await;
    }
    Ok(db)
}

/// How scripts' SQL gets to the database. Hosts that share one have the same key, and so the same password.
///
/// # Errors
/// When the key can't be read. It is not asked for where it is not needed.
pub fn script_access(config: &Config) -> Result<Access, SecretError> {
    let database = &config.database;
    Ok(match &database.script_sql {
        ScriptSql::OwnRole if database.is_postgres() => {
            let secrets = config.secrets.load(&Random::system())?;
            let key = MacKey::derive(secrets.encryption.reveal(), "script SQL role");
            Access::Own { password: Some(hex::encode(key.tag(b"password"))) }
        }
        ScriptSql::OwnRole => Access::Own { password: None },
        ScriptSql::Address(url) => Access::Given { url: url.reveal().clone() },
        ScriptSql::Guarded => Access::Guarded,
    })
}

/// Room and place for scripts.
pub fn engine_config(config: &Config) -> EngineConfig {
    EngineConfig {
        pool_size: config.scripts.pool_size,
        queue: config.scripts.queue,
        client_fuel: config.scripts.client_fuel,
        ..EngineConfig::new(config.server.data_dir.join("cache"))
    }
}

/// The outbound client, as far as the configuration lets it go. `port` is the one that is listened on.
///
/// # Errors
/// When the system has no usable TLS or DNS setup.
pub fn net_client(config: &Config, identity: &Identity, port: u16) -> Result<net::Client, net::NetError> {
    let urls = config.indexing.jetstream_urls.iter();
    let urls = urls.chain([&config.indexing.relay_url, &config.indexing.plc_url]);
    let own = [SocketAddr::new(config.server.host, port)];
    net::Client::new(OutboundPolicy {
        allow_loopback: identity.is_loopback,
        allow: config.outbound.allow.clone(),
        trusted: urls.filter_map(|url| url::Url::parse(url).ok()).collect(),
        own: own.into_iter().chain(config.observe.metrics_addr).collect(),
        dns_server: config.outbound.dns_server,
    })
}

impl App {
    /// Starts everything but the HTTP server. `port` is the one that is listened on.
    ///
    /// # Errors
    /// Says what is missing; nothing keeps running then.
    pub async fn start(config: Config, port: u16, lifecycle: Lifecycle) -> Result<Arc<Self>, StartError> {
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
        drop(settings.reload(&db).await.map_err(named)?);
        costs.reload(&settings);

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
        let jobs = JobQueue::new(db.clone(), Arc::clone(&library), clock.clone(), random.clone());
        let in_process = Arc::new(InProcess::default());
        let tasks = TaskTracker::new();
        let courier = Courier::new(net.clone(), clock.clone(), random.clone());
        let discovery = Discovery::new(net.clone(), resolver.clone());
        let own_key =
            instance_key::load(&db, &sealing, &random, &clock, "oauth-client", Algorithm::Es256).await?;
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
            Arc::clone(&library),
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
        .with_xrpc(in_process.clone())
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

        let app = Arc::new(Self {
            origins,
            web_sessions,
            authorizations,
            proofs,
            discovery,
            courier,
            client_keys: ClientKeys::new(net.clone()),
            vault,
            tokens: ServiceTokens::new(identity.did.as_str().to_owned(), clock.clone()),
            config,
            identity,
            secrets,
            sealing,
            clock,
            random,
            db,
            readiness: Readiness::default(),
            clients,
            admin_keys: AdminKeys::default(),
            users: Users::default(),
            buckets: Buckets::default(),
            sender_buckets: Buckets::default(),
            settings,
            costs,
            registry,
            forwards: forward::places(),
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
        in_process.open(&app);
        app.start_workers();
        app.start_sweeps();
        app.tasks.spawn(identities.tell(app.db.clone(), app.lifecycle.drain.clone()));
        Ok(app)
    }

    /// Work that scripts asked for, until the server drains.
    fn start_workers(&self) {
        let workers = Workers {
            db: self.db.clone(),
            engine: self.engine.clone(),
            library: Arc::clone(&self.library),
            services: self.script_services.clone(),
            events: self.events.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            queue: self.jobs.clone(),
            places: jobs::places(self.config.scripts.job_workers),
        };
        workers.start(self.config.scripts.job_workers, &self.tasks, &self.lifecycle.drain);
    }

    /// Work by the clock, until the server drains.
    fn start_sweeps(self: &Arc<Self>) {
        let keep = Retention { event_days: self.config.events.retention_days };
        let drain = self.lifecycle.drain.clone();
        self.tasks.spawn(retention::run(self.db.clone(), self.clock.clone(), keep, drain.clone()));
        self.tasks.spawn(sweep::run(self.db.clone(), self.vault.clone(), self.clock.clone(), drain.clone()));
        self.tasks.spawn(linked_repos::keep_alive(self.linked_repos.clone(), drain.clone()));
        let limit = self.config.database.field_index_limit;
        self.tasks.spawn(field_indexes::run(self.db.clone(), self.clock.clone(), limit, drain.clone()));
        self.tasks.spawn(Arc::clone(self).follow_changes());
        let app = Arc::clone(self);
        self.tasks.spawn(async move {
            let pause = || tokio::time::sleep(rate_limit::SWEEP_EVERY);
            while drain.run_until_cancelled(pause()).await.is_some() {
                app.buckets.sweep(app.clock.now());
                app.sender_buckets.sweep(app.clock.now());
                app.script_services.log.report_dropped(app.clock.now());
            }
        });
    }
}

fn stream_config(indexing: &config::Indexing) -> Result<StreamConfig, StartError> {
    let zstd_dictionary = indexing
        .jetstream_zstd_dict
        .as_ref()
        .map(|path| std::fs::read(path).map_err(|error| StartError::Dictionary { path: path.clone(), error }))
        .transpose()?;
    Ok(StreamConfig { urls: indexing.jetstream_urls.clone(), zstd_dictionary, ..StreamConfig::default() })
}
