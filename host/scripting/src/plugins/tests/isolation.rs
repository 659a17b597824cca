//! A plugin that hangs or floods leaves other calls alone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Stage, all_grants, built, engine, scope};
use crate::plugins::calls::{CallError, CallScope, Linker as _, RunContext};
use crate::plugins::manifest::{Grants, Manifest};
use crate::plugins::{LoadedPlugin, PluginStatus, limits};
use belvedere_web::fair_share::Tenant;

fn of(client: &str) -> CallScope {
    CallScope { tenant: Tenant::client(client), ..scope() }
}

async fn minimal() -> Arc<LoadedPlugin> {
    let (module, manifest) = built("minimal");
    Arc::new(LoadedPlugin {
        manifest: Manifest::parse(&manifest).unwrap().into(),
        grants: Grants::new(all_grants()),
        component: engine().await.load(&module).await.unwrap(),
        status: PluginStatus::Active,
        functions: Vec::new(),
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hanging_plugin_delays_no_other() {
    let stage = Arc::new(Stage::set().await);
    let other = minimal().await;
    let echo = async || {
        let started = Instant::now();
        let result = stage.calls.call_function(&other, &of("b"), "echo", "[1]", &RunContext::default()).await;
        assert_eq!(result.unwrap(), "[1]");
        started.elapsed()
    };
    echo().await;
    let hanging: Vec<_> = (0..limits::CALLS_PER_PLUGIN)
        .map(|n| {
            let stage = Arc::clone(&stage);
            tokio::spawn(async move {
                let config = json!({"do": "hang"}).to_string();
                stage.calls.of(&stage.plugin).connect(&of(&n.to_string()), &config).await.map(drop)
            })
        })
        .collect();
    let mut slowest = Duration::ZERO;
    let mut calls = 0;
    while !hanging.iter().all(tokio::task::JoinHandle::is_finished) {
        slowest = slowest.max(echo().await);
        calls += 1;
    }
    // Turns of the processor are milliseconds. The rest is room for a busy machine.
    assert!(slowest < Duration::from_secs(1) && calls > 50, "{slowest:?} in {calls} calls");
    for hung in hanging {
        assert!(matches!(hung.await.unwrap(), Err(CallError::Failed(_) | CallError::Paused)));
    }
}

#[tokio::test]
async fn a_tenant_occupies_half_of_a_plugin() {
    let stage = Stage::set().await;
    tokio::time::pause();
    let sleeping = async |client: &'static str| {
        let config = json!({"do": "nap", "with": 5}).to_string();
        stage.calls.of(&stage.plugin).connect(&of(client), &config).await.map(drop)
    };
    let echo = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        // The same tenant waits; another one is served at once.
        let (a, b) = (of("a"), of("b"));
        let mine = stage.act_for(&a, "echo", Value::Null);
        assert!(tokio::time::timeout(Duration::from_secs(2), mine).await.is_err());
        stage.act_for(&b, "echo", Value::Null).await.unwrap();
    };
    let (first, second, ()) = tokio::join!(sleeping("a"), sleeping("a"), echo);
    assert!(first.is_ok() && second.is_ok());
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_frees_its_permits() {
    let stage = Stage::set().await;
    for _ in 0..limits::CALLS_PER_PLUGIN * 2 {
        let abandoned = stage.act("hang", Value::Null);
        assert!(tokio::time::timeout(Duration::from_millis(20), abandoned).await.is_err());
    }
    stage.works().await;
}
