//! Tests of `plugin.*` with real libraries: `tests/plugins/minimal` and `plugins/markdown`, which `dev/plugins.sh` builds.

use std::sync::Arc;
use std::time::{Duration, Instant};

use belvedere_standins::database::Database;
use belvedere_standins::plugins::built;
use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{EngineConfig, FailureKind, Invocation, Stage, account, cache_dir, of_client};
use crate::plugins::calls::Calls;
use crate::plugins::manifest::{Grants, Manifest};
use crate::plugins::{
    EngineConfig as PluginConfig, LoadedPlugin, PluginEngine, PluginServices, PluginStatus, Plugins,
};
use crate::scripts::services::ServerPlugins;
use crate::scripts::{Engine, limits};
use belvedere_base::clock::Clock;
use belvedere_base::random::Random;
use belvedere_instance::events::EventLog;
use belvedere_instance::keys::attestation::Attestation;
use belvedere_instance::xrpc::Caller;
use belvedere_protocol::crypto::{Algorithm, PrivateKey};
use belvedere_protocol::trigger::Trigger;
use belvedere_storage::store::Db;
use belvedere_web::net::testing::loopback;

/// The permissions for the imports of `hostile`.
const HOSTILE_GRANTS: [&str; 5] = [
    "network:request?host=localhost",
    "records:read?collection=com.example.game",
    "attest:sign",
    "secrets:read",
    "kv:use",
];

/// A stage whose scripts may call the built plugins, and the database behind them.
struct Real {
    stage: Stage,
    _database: Database,
}

impl Real {
    async fn set() -> Self {
        let database = Database::sqlite();
        let db = Db::open(&database.url, 4).await.unwrap();
        db.migrate().await.unwrap();
        let (clock, random) = (Clock::fixed(super::NOW), Random::system());
        let key = PrivateKey::from_bytes(Algorithm::Es256k, &[9; 32]).unwrap();
        let attestation = Attestation::new(key, "did:web:x.test#a".to_owned(), "com.example.sig".to_owned());
        let (events, _writer) = EventLog::start(db.clone(), clock.clone(), random.clone());
        let services = PluginServices::new(db, loopback(), clock, random, events, Arc::new(attestation));

        let config = EngineConfig::new(cache_dir());
        let plugin_config = PluginConfig {
            processor: config.processor.clone(),
            ..PluginConfig::in_this_process(cache_dir())
        };
        let engine = PluginEngine::open(plugin_config).unwrap();
        let calls = Calls::new(engine.clone(), services);
        let load = async |name: &str, id: &str, status: PluginStatus| {
            let files = built(name);
            let manifest = Manifest { id: id.to_owned(), ..Manifest::parse(&files.manifest).unwrap() };
            let component = engine.load(&files.module).await.unwrap();
            let functions = calls.surface(&component).await.unwrap();
            let grants = if id == "hostile" {
                HOSTILE_GRANTS.map(|text| text.parse().unwrap()).into()
            } else {
                Vec::new()
            };
            LoadedPlugin {
                manifest: manifest.into(),
                grants: Grants::new(grants),
                component,
                status,
                functions,
            }
        };
        let plugins = Plugins::with([
            load("minimal", "minimal", PluginStatus::Active).await,
            load("minimal", "my-lib", PluginStatus::Active).await,
            load("minimal", "paused", PluginStatus::Paused).await,
            load("minimal", "removed", PluginStatus::Removing).await,
            load("markdown", "markdown", PluginStatus::Active).await,
            load("hostile", "hostile", PluginStatus::Active).await,
        ]);
        let mut stage = Stage::set().await;
        stage.engine = Engine::open(config).await.unwrap();
        stage.services = stage.services.with_plugins(Arc::new(ServerPlugins::new(plugins, calls)));
        Self { stage, _database: database }
    }
}

#[tokio::test]
async fn libraries_answer_scripts() {
    let stage = Real::set().await.stage;
    let seen = stage
        .handle(
            "return { plugin.markdown.render('*hi* <script>x</script>'), plugin.markdown.to_text('*hi*'),
                      plugin.minimal.echo(1, nil, { a = toarray({}) }, 0.5), plugin.my_lib.echo(),
                      plugin['my-lib'].echo(json.null) }",
        )
        .await
        .unwrap();
    let html = seen[0].as_str().unwrap();
    assert!(html.contains("<em>hi</em>") && !html.contains("<script"), "{html}");
    let values = json!([1, null, { "a": [] }, 0.5]);
    assert_eq!((&seen[1], &seen[2], &seen[3], &seen[4]), (&json!("hi"), &values, &json!([]), &json!([null])));
}

#[tokio::test]
async fn a_library_sees_the_caller_of_the_script() {
    let stage = Real::set().await.stage;
    let source = "caller_did = 'did:plc:b' function handle() return plugin.minimal.caller() end";
    let caller = Caller { did: account("did:plc:a").did, ..of_client("client-1") };
    for (caller, expected) in [(Some(&caller), json!("did:plc:a")), (None, Value::Null)] {
        let outcome = stage.run_with(source, Invocation { caller, ..Invocation::default() }).await.unwrap();
        let seen: Value = serde_json::from_slice(&outcome.body).unwrap();
        assert_eq!(seen, json!({ "caller": expected, "hasSession": false }));
    }
}

#[tokio::test]
async fn refusals_name_what_exists() {
    let stage = Real::set().await.stage;
    for (call, code, message) in [
        ("plugin.minimal.fail('no')", "bad-input", "plugin.minimal.fail: no"),
        (
            "plugin.markdown.render()",
            "bad-input",
            "plugin.markdown.render: the first argument must be a string",
        ),
        ("plugin.minimal.ecco()", "bad-input", "it has caller, echo, fail"),
        ("plugin.removed.echo()", "bad-input", "installed are hostile, markdown, minimal, my-lib, paused"),
        ("plugin['my_lib\\0'].echo()", "bad-input", "plugin.my_lib\\0.echo: no plugin of this name"),
        ("plugin.paused.echo()", "unavailable", "plugin.paused.echo: the plugin is paused"),
    ] {
        let body =
            format!("local ok, e = pcall(function() return {call} end) return {{ ok, e.code, e.message }}");
        let seen = stage.handle(&body).await.unwrap();
        assert_eq!((&seen[0], &seen[1]), (&json!(false), &json!(code)), "{call}: {seen}");
        assert!(seen[2].as_str().unwrap().contains(message), "{call}: {seen}");
    }
}

/// Without its own bound a plugin computes for 5 s, which the run, with a quarter of a second, pays for only afterwards.
#[tokio::test]
async fn a_plugin_computes_for_no_longer_than_the_run_may() {
    let stage = Real::set().await.stage;
    // More often than a plugin may fail before it is paused.
    for _ in 0..4 {
        let failure = stage.handle("return pcall(plugin.hostile.hang)").await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Limit, "{failure}");
        assert!(failure.message.contains("plugins computed for longer than the run may"), "{failure}");
    }
    let source = "function handle() return pcall(plugin.hostile.hang) end";
    let script = stage.engine.compile(Trigger::parse(super::TRIGGER).unwrap(), source).await;
    let started = Instant::now();
    stage.engine.run(&script, Invocation::default(), &stage.services).await.unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    let alive = stage.handle("return plugin.hostile.echo(1)").await;
    assert_eq!(alive.unwrap(), json!([1]), "the plugin did nothing wrong");
}

#[tokio::test]
async fn scripts_see_why_a_plugin_failed() {
    let stage = Real::set().await.stage;
    for (call, cause) in [
        ("trap()", "plugin.hostile.trap: the plugin failed: it reached unreachable code, as a panic does"),
        ("big(13 << 20)", "plugin.hostile.big: the plugin failed: it handed over more bytes than a call may"),
    ] {
        let body = format!(
            "local ok, e = pcall(function() return plugin.hostile.{call} end) return {{ e.code, e.message }}"
        );
        let seen = stage.handle(&body).await.unwrap();
        assert_eq!(seen[0], "unavailable");
        assert!(seen[1].as_str().unwrap().ends_with(cause), "{seen}");
    }
}

/// More runs than cores and than permits of the plugin, each with a text that takes a while.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_runs_call_a_library_at_once_and_pay_for_it() {
    let stage = Real::set().await.stage;
    let source = "function handle()
            local text = ('*a* [b](https://x.example/) `c` '):rep(200)
            local n = 0
            for i = 1, 3 do n = n + #plugin.markdown.render(text) end
            return n
        end";
    let alone = stage.run_with(source, Invocation::default()).await.unwrap();
    let own = "function handle() return #('*a* [b](https://x.example/) `c` '):rep(200) end";
    let own = stage.run_with(own, Invocation::default()).await.unwrap();
    let computed = alone.usage.guest_time.saturating_sub(own.usage.guest_time);
    let charged = alone.usage.fuel - own.usage.fuel;
    let expected = computed.as_micros() as u64 * limits::PLUGIN_FUEL_PER_MICROSECOND;
    assert!(charged > expected / 2, "{charged} for {computed:?}");
    let callers: Vec<Caller> = (0..16).map(|n| of_client(&format!("client-{}", n % 4))).collect();
    let runs = callers
        .iter()
        .map(|caller| stage.run_with(source, Invocation { caller: Some(caller), ..Invocation::default() }));
    let ended = tokio::time::timeout(Duration::from_mins(1), join_all(runs)).await.unwrap();
    for outcome in ended {
        assert_eq!(outcome.unwrap().body, alone.body);
    }
}
