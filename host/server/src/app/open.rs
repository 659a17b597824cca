//! Opens the database, and derives the settings of the script engine, the outbound client and the stream from the
//! configuration.

use std::net::SocketAddr;
use std::path::PathBuf;

use belvedere_base::clock::Clock;
use belvedere_instance::config::{self, Config, EncryptionKey, Identity, ScriptSql, SecretError, Secrets};
use belvedere_instance::identity::Resolver;
use belvedere_instance::indexing::StreamConfig;
use belvedere_instance::keys::instance::InstanceKeyError;
use belvedere_protocol::crypto::MacKey;
use belvedere_scripting::plugins;
use belvedere_scripting::scripts::{EngineConfig, EngineError};
use belvedere_storage::store::script_sql::role::ScriptRole;
use belvedere_storage::store::server_lock::ServerLockError;
use belvedere_storage::store::shards::{self, ShardsError};
use belvedere_storage::store::{Db, Resources, StoreError};
use belvedere_web::net::{self, OutboundPolicy};

/// The reason why the server can't start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error(transparent)]
    Lock(#[from] ServerLockError),
    #[error("the database at {url} can't be used: {error}")]
    Store { url: String, error: StoreError },
    #[error("the database at {url} can't be distributed: {error}")]
    Shards { url: String, error: ShardsError },
    #[error("the script engine can't be set up: {0}")]
    Engine(#[from] EngineError),
    #[error(transparent)]
    PluginEngine(#[from] plugins::EngineError),
    #[error(transparent)]
    InstanceKey(#[from] InstanceKeyError),
    #[error("the outbound HTTP client can't be set up: {0}")]
    Net(#[from] net::NetError),
    #[error("the zstd dictionary {path} can't be read: {error}")]
    Dictionary { path: PathBuf, error: std::io::Error },
    #[error("PLUGIN_DIR {path} can't be read: {error}")]
    PluginDir { path: PathBuf, error: std::io::Error },
}

/// The resources of the machine that the database may take.
pub fn resources(config: &config::Database) -> Resources {
    Resources {
        connections: config.max_connections,
        page_cache_mib: config.page_cache_mib,
        cached_accounts: config.cached_accounts,
    }
}

/// Opens the database and brings its schema up to date. Distributes a new one if the configuration says so.
///
/// # Errors
/// Names the database, without its password.
pub async fn open_store(config: &config::Database, scripts: &ScriptRole) -> Result<Db, StartError> {
    let named = |error| StartError::Store { url: config.redacted_url(), error };
    let mut db = open_current(config, scripts).await.map_err(named)?;
    if config.wants_shards {
        let failed = |error| StartError::Shards { url: config.redacted_url(), error };
        if shards::distribute_new(&db).await.map_err(failed)? {
            db.close().await;
            db = open_current(config, scripts).await.map_err(named)?;
        }
    }
    // The first requests find the nodes, and scripts what they read.
    db.look_at_nodes().await;
    db.with_replicas(&config.replicas.urls, config.replicas.max_lag).map_err(named)
}

async fn open_current(config: &config::Database, scripts: &ScriptRole) -> Result<Db, StoreError> {
    let db = Db::open_with(&config.url, resources(config), scripts).await?;
    // Checking is cheaper than the lock that a migration takes.
    if db.pending_migrations().await? > 0 {
        db.migrate().await?;
    } else {
        db.prepare_script_role().await;
    }
    Ok(db)
}

/// The database role of scripts' SQL, whose password is derived from the encryption key: hosts that share a database
/// have the same key, and so the same password.
pub fn script_access(config: &config::Database, encryption: &EncryptionKey) -> ScriptRole {
    match &config.script_sql {
        ScriptSql::OwnRole if config.is_postgres() => {
            let key = MacKey::derive(encryption.reveal(), "script SQL role");
            ScriptRole::Own { password: Some(hex::encode(key.tag(b"password"))) }
        }
        ScriptSql::OwnRole => ScriptRole::Own { password: None },
        ScriptSql::Address(url) => ScriptRole::Given { url: url.reveal().clone() },
        ScriptSql::Guarded => ScriptRole::Guarded,
    }
}

/// Like [`script_access`], for commands that must not generate the encryption key; `None` when there is no key yet. A
/// new key would change the role's password, and a running server could not log in any more.
///
/// # Errors
/// When the key can't be read.
pub fn existing_script_access(
    secrets: &Secrets,
    database: &config::Database,
) -> Result<Option<ScriptRole>, SecretError> {
    let key = secrets.existing_encryption_key()?;
    Ok(key.map(|key| script_access(database, &key)))
}

/// The settings of the script engine.
pub fn engine_config(config: &Config) -> EngineConfig {
    EngineConfig {
        pool_size: config.scripts.pool_size,
        queue: config.scripts.queue,
        memory: config.memory.shares(&config.database).runs,
        client_fuel: config.scripts.client_fuel,
        profile_sample: config.scripts.profile_sample,
        ..EngineConfig::new(config.server.data_dir.join("cache"))
    }
}

/// Creates the outbound client with the addresses that the configuration allows. `port` is the one that the server
/// listens on.
///
/// # Errors
/// When the system has no usable TLS or DNS setup.
pub fn net_client(config: &Config, identity: &Identity, port: u16) -> Result<net::Client, net::NetError> {
    net::Client::new(outbound_policy(config, identity, port))
}

/// The addresses that the configuration allows.
pub(super) fn outbound_policy(config: &Config, identity: &Identity, port: u16) -> OutboundPolicy {
    let urls = config.indexing.jetstream_urls.iter();
    let urls = urls.chain([&config.indexing.relay_url, &config.indexing.plc_url]);
    let own = [SocketAddr::new(config.server.host, port)];
    OutboundPolicy {
        allow_loopback: identity.is_loopback,
        allow: config.outbound.allow.clone(),
        trusted: urls.filter_map(|url| url::Url::parse(url).ok()).collect(),
        own: own.into_iter().chain(config.observe.metrics_addr).collect(),
        dns_server: config.outbound.dns_server,
    }
}

/// Creates the resolver of DIDs and handles.
pub fn resolver(config: &Config, net: net::Client, clock: Clock) -> Resolver {
    let plc = url::Url::parse(&config.indexing.plc_url).expect("the configuration was checked");
    Resolver::new(net, plc, clock)
}

pub(super) fn stream_config(indexing: &config::Indexing) -> Result<StreamConfig, StartError> {
    let zstd_dictionary = indexing
        .jetstream_zstd_dict
        .as_ref()
        .map(|path| std::fs::read(path).map_err(|error| StartError::Dictionary { path: path.clone(), error }))
        .transpose()?;
    Ok(StreamConfig { urls: indexing.jetstream_urls.clone(), zstd_dictionary, ..StreamConfig::default() })
}
