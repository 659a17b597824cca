//! Tests of the engine from outside: real components in, results, failures and events out. `hostile` is a plugin that does
//! what its arguments say (`tests/plugins/hostile`, built by `dev/plugins.sh`).

mod accounts;
mod hostile;
mod http;
mod isolation;
mod loading;
mod lookups;
mod memory;
mod modules;
mod values;

use std::path::PathBuf;
use std::sync::Arc;

use belvedere_standins::database::Database;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::calls::{CallError, CallScope, Calls, FaultCode, RunContext};
use super::engine::Component;
use super::manifest::{Grants, Manifest, Permission, RequiredSecret};
use super::{EngineConfig, LoadedPlugin, PluginEngine, PluginServices, PluginStatus};
use belvedere_base::clock::{Clock, Timestamp};
use belvedere_base::random::Random;
use belvedere_instance::config::Secret;
use belvedere_instance::events::EventLog;
use belvedere_instance::keys::attestation::Attestation;
use belvedere_protocol::atproto::Did;
use belvedere_protocol::crypto::{Algorithm, PrivateKey};
use belvedere_storage::store::Db;
use belvedere_storage::store::events::{self, EventFilter, EventRow};
use belvedere_web::fair_share::Tenant;
use belvedere_web::net;

/// 2023-11-14T22:13:20.123456Z
const NOW: Timestamp = Timestamp(1_700_000_000_123_456);

const ALICE: &str = "did:plc:alice";

/// A built plugin: its module and manifest.
fn built(name: &str) -> (Vec<u8>, Vec<u8>) {
    let program = std::env::current_exe().unwrap();
    let target: PathBuf = program.ancestors().nth(3).unwrap().join("plugins").join(name);
    let read = |file: &str| {
        std::fs::read(target.join(file)).unwrap_or_else(|error| {
            panic!("{}: {error}; build it: sh dev/plugins.sh {name}", target.join(file).display())
        })
    };
    (read("plugin.wasm"), read("manifest.json"))
}

/// The directory of compiled plugins, shared by all tests and test processes.
fn cache_dir() -> PathBuf {
    let user = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap());
    std::env::temp_dir().join(format!("belvedere-test-plugins-{user}"))
}

/// One engine for the tests of a process.
async fn engine() -> PluginEngine {
    static ENGINE: OnceCell<PluginEngine> = OnceCell::const_new();
    let open = async || PluginEngine::open(EngineConfig::in_this_process(cache_dir())).unwrap();
    ENGINE.get_or_init(open).await.clone()
}

/// The hostile plugin's component.
async fn hostile() -> Component {
    static COMPONENT: OnceCell<Component> = OnceCell::const_new();
    let load = async || engine().await.load(&built("hostile").0).await.unwrap();
    COMPONENT.get_or_init(load).await.clone()
}

/// Everything that a plugin may be granted, the host `localhost` among it.
fn all_grants() -> Vec<Permission> {
    [
        "network:request?host=localhost",
        "records:write?collection=com.example.item",
        "records:read?collection=com.example.game",
        "attest:sign",
        "secrets:read",
        "kv:use",
    ]
    .map(|text| text.parse().unwrap())
    .into()
}

/// An engine with a database, and the hostile plugin installed in it.
struct Stage {
    calls: Calls,
    plugin: Arc<LoadedPlugin>,
    db: Db,
    clock: Clock,
    events: EventLog,
    _database: Database,
}

impl Stage {
    async fn set() -> Self {
        Self::with_net(net::testing::loopback()).await
    }

    async fn with_net(net: net::Client) -> Self {
        let database = Database::sqlite();
        let db = Db::open(&database.url, 4).await.unwrap();
        db.migrate().await.unwrap();
        let clock = Clock::fixed(NOW);
        let (events, _writer) = EventLog::start(db.clone(), clock.clone(), Random::system());
        let key = PrivateKey::from_bytes(Algorithm::Es256k, &[7; 32]).unwrap();
        let attestation =
            Attestation::new(key, "did:web:x.test#attestation".to_owned(), "com.example.sig".to_owned());
        let secrets = |plugin: &str, name: &str| {
            (plugin == "hostile" && name == "API_KEY").then(|| Secret::new("s3cret-value".to_owned()))
        };
        let services = PluginServices::new(
            db.clone(),
            net,
            clock.clone(),
            Random::system(),
            events.clone(),
            Arc::new(attestation),
        );
        let calls = Calls::new(engine().await, services.with_secrets(Arc::new(secrets)));
        let plugin = plugin(hostile().await, all_grants());
        Self { calls, plugin, db, clock, events, _database: database }
    }

    /// With fewer or more grants.
    fn granted(mut self, grants: &[&str]) -> Self {
        let grants = grants.iter().map(|text| text.parse().unwrap()).collect();
        self.plugin = plugin(self.plugin.component.clone(), grants);
        self
    }

    /// Calls a function of the plugin with one argument.
    async fn act(&self, name: &str, arg: Value) -> Result<Value, CallError> {
        self.act_for(&scope(), name, arg).await
    }

    async fn act_for(&self, scope: &CallScope, name: &str, arg: Value) -> Result<Value, CallError> {
        let args = json!([arg]).to_string();
        let result =
            self.calls.call_function(&self.plugin, scope, name, &args, &RunContext::default()).await?;
        Ok(serde_json::from_str(&result).unwrap())
    }

    /// The plugin's failure, without its row of traps.
    async fn failure(&self, name: &str, arg: Value) -> String {
        let failed = self.act(name, arg).await;
        self.calls.resume("hostile");
        match failed {
            Err(CallError::Failed(failure)) => failure.text,
            other => panic!("{name}: {other:?}"),
        }
    }

    /// The code and the message of a refusal.
    async fn fault(&self, name: &str, arg: Value) -> (FaultCode, String) {
        match self.act(name, arg).await {
            Err(CallError::Fault(fault)) => (fault.code, fault.message),
            other => panic!("{name}: {other:?}"),
        }
    }

    /// The plugin still works.
    async fn works(&self) {
        assert_eq!(self.act("echo", json!(1)).await.unwrap(), json!([1]));
    }

    /// The events of a type, oldest first.
    async fn events(&self, event_type: &str) -> Vec<EventRow> {
        self.events.flush().await;
        let filter = EventFilter { event_type: Some(event_type.to_owned()), ..EventFilter::default() };
        let mut found = events::list(&self.db, &filter, 1_000).await.unwrap();
        found.reverse();
        found
    }
}

/// The hostile plugin with these grants.
fn plugin(component: Component, grants: Vec<Permission>) -> Arc<LoadedPlugin> {
    let mut manifest = Manifest::parse(&built("hostile").1).unwrap();
    let key = "PLUGIN_HOSTILE_API_KEY".to_owned();
    manifest.required_secrets.push(RequiredSecret { key, name: "Key".to_owned(), description: None });
    Arc::new(LoadedPlugin {
        manifest: manifest.into(),
        grants: Grants::new(grants),
        component,
        status: PluginStatus::Active,
        functions: Vec::new(),
    })
}

/// A call for Alice's account, by an API client.
fn scope() -> CallScope {
    CallScope { tenant: Tenant::client("a"), did: Some(Did::try_from(ALICE).unwrap()), flow: None }
}

#[tokio::test]
async fn a_component_is_read_described_and_called() {
    let stage = Stage::set().await;
    let component = &stage.plugin.component;
    assert!(component.exports.linking && component.exports.sync && component.exports.callable);
    assert_eq!(component.imports, ["attest", "clock", "http", "kv", "log", "lookup", "secrets"]);
    let info = stage.calls.describe(component).await.unwrap();
    assert_eq!((info.id.as_str(), info.version.as_str()), ("hostile", "1.0.0"));
    let functions = stage.calls.surface(component).await.unwrap();
    assert_eq!((functions.len(), functions[0].name.as_str()), (8, "echo"));
    assert_eq!(stage.act("echo", json!({"a": null})).await.unwrap(), json!([{"a": null}]));
    assert_eq!(stage.act("caller", Value::Null).await.unwrap(), json!([ALICE, false]));
    assert_eq!(stage.act("now", Value::Null).await.unwrap(), json!(NOW.0 / 1_000));
}
