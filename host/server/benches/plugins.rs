//! Measures calls of plugins in the engine, without HTTP: `cargo bench --bench plugins`, after `sh dev/plugins.sh`. Prints
//! the fastest and the median call in microseconds, the time from a module to its first call, and the slowest of a hundred
//! calls of one plugin while another one hangs. Run it on an idle machine.

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use belvedere_base::clock::Clock;
use belvedere_base::random::Random;
use belvedere_instance::events::EventLog;
use belvedere_instance::keys::attestation::Attestation;
use belvedere_protocol::crypto::{Algorithm, PrivateKey};
use belvedere_scripting::plugins::calls::{CallScope, Calls, Linker as _, RunContext};
use belvedere_scripting::plugins::manifest::{Grants, Manifest, Permission};
use belvedere_scripting::plugins::{
    Compiler, EngineConfig, LoadedPlugin, PluginEngine, PluginServices, PluginStatus,
};
use belvedere_standins::database::Database;
use belvedere_storage::store::Db;
use belvedere_web::fair_share::Tenant;
use belvedere_web::net::{Client, OutboundPolicy, install_tls_provider};

const CALLS: usize = 5_000;

/// Calls for each latency beside a hanging plugin.
const BESIDE: usize = 2_000;

/// A built plugin: its module and manifest.
fn built(name: &str) -> (Vec<u8>, Vec<u8>) {
    let program = std::env::current_exe().expect("a program has a path");
    let target: PathBuf = program.ancestors().nth(3).expect("it is in target").join("plugins").join(name);
    let read = |file: &str| std::fs::read(target.join(file)).expect("the plugin is built: sh dev/plugins.sh");
    (read("plugin.wasm"), read("manifest.json"))
}

async fn load(engine: &PluginEngine, name: &str) -> Arc<LoadedPlugin> {
    let (module, manifest) = built(name);
    let grants = [
        "network:request?host=localhost",
        "records:read?collection=com.example.game",
        "attest:sign",
        "secrets:read",
        "kv:use",
    ];
    let grants = grants.map(|text| text.parse::<Permission>().expect("a permission"));
    Arc::new(LoadedPlugin {
        manifest: Manifest::parse(&manifest).expect("a manifest").into(),
        grants: Grants::new(grants.into()),
        component: engine.load(&module).await.expect("a component"),
        status: PluginStatus::Active,
        functions: Vec::new(),
    })
}

fn scope(client: &str) -> CallScope {
    CallScope { tenant: Tenant::client(client), did: None, flow: None }
}

/// The latencies of `count` calls, sorted.
async fn latencies(calls: &Calls, plugin: &Arc<LoadedPlugin>, count: usize) -> Vec<Duration> {
    let scope = scope("b");
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let started = Instant::now();
        let result = calls.call_function(plugin, &scope, "echo", "[1]", &RunContext::default()).await;
        times.push(started.elapsed());
        assert_eq!(result.ok().as_deref(), Some("[1]"));
    }
    times.sort();
    times
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

#[tokio::main]
async fn main() {
    install_tls_provider();
    let database = Database::sqlite();
    let db = Db::open(&database.url, 4).await.expect("the database opens");
    db.migrate().await.expect("the migrations apply");
    let (clock, random) = (Clock::system(), Random::system());
    let (events, _writer) = EventLog::start(db.clone(), clock.clone(), random.clone());
    let net = Client::new(OutboundPolicy::default()).expect("a client");
    let key = PrivateKey::from_bytes(Algorithm::Es256k, &[7; 32]).expect("a key");
    let attestation = Attestation::new(key, "did:web:x.test#attestation".to_owned(), "x.test.sig".to_owned());
    let services = PluginServices::new(db, net, clock, random, events, Arc::new(attestation));
    let cache = std::env::temp_dir().join(format!("belvedere-bench-plugins-{}", std::process::id()));
    let compiler = Compiler::program(env!("CARGO_BIN_EXE_belvedere"));
    let engine = PluginEngine::open(EngineConfig::new(&cache, compiler)).expect("the engine opens");
    let calls = Calls::new(engine.clone(), services);

    for name in ["minimal", "hostile"] {
        for state in ["compiled", "from the cache"] {
            let started = Instant::now();
            let plugin = load(&engine, name).await;
            let loaded = started.elapsed();
            calls.describe(&plugin.component).await.expect("it describes itself");
            let first = started.elapsed();
            println!(
                "{name}, {state}: loaded {:.1} ms, first call {:.1} ms",
                micros(loaded) / 1e3,
                micros(first) / 1e3
            );
        }
    }
    for name in ["minimal", "hostile"] {
        let plugin = load(&engine, name).await;
        let times = latencies(&calls, &plugin, CALLS).await;
        println!(
            "{name}: a call of a function: min {:.1}  median {:.1}  p99 {:.1} µs",
            micros(times[0]),
            micros(times[CALLS / 2]),
            micros(times[CALLS * 99 / 100])
        );
    }
    let (minimal, hostile) = (load(&engine, "minimal").await, load(&engine, "hostile").await);
    let alone = latencies(&calls, &minimal, BESIDE).await;
    for (case, what) in [("one that hangs", "hang"), ("one that allocates", "allocate")] {
        let (calls_of_task, hostile) = (calls.clone(), Arc::clone(&hostile));
        let greedy = tokio::spawn(async move {
            let config = format!("{{\"do\":\"{what}\"}}");
            let one = async |client: String| loop {
                calls_of_task.resume("hostile");
                let _ = calls_of_task.of(&hostile).connect(&scope(&client), &config).await;
            };
            tokio::join!(one("1".to_owned()), one("2".to_owned()), one("3".to_owned()), one("4".to_owned()));
        });
        let beside = latencies(&calls, &minimal, BESIDE).await;
        greedy.abort();
        let p99 = |times: &[Duration]| micros(times[BESIDE * 99 / 100]);
        println!("beside {case}: p99 {:.1} µs, alone {:.1} µs", p99(&beside), p99(&alone));
    }
    // The next run compiles again.
    let _ = std::fs::remove_dir_all(cache);
}
