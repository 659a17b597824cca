//! The memory of all runs together.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use super::pool::Gate;
use super::{EngineConfig, FailureKind, Invocation, Stage, TRIGGER, cache_dir, of_client};
use crate::scripts::{Engine, Outcome, ScriptFailure, Services};
use belvedere_protocol::trigger::Trigger;

/// A reserve and half as much again, of which a tenant may have half: ten runs that do not grow.
const MEMORY: usize = 96 << 20;

struct Small {
    engine: Engine,
    services: Services,
    gate: Arc<Gate>,
}

impl Small {
    async fn open() -> Self {
        let config = EngineConfig { memory: MEMORY, ..EngineConfig::new(cache_dir()) };
        let (engine, gate) = (Engine::open(config).await.unwrap(), Gate::closed());
        let services = Services { index: gate.clone(), ..Stage::set().await.services };
        Self { engine, services, gate }
    }

    async fn run(&self, client: &str, body: &str) -> Result<Outcome, ScriptFailure> {
        let source = format!("function handle() {body} end");
        let script = self.engine.compile(Trigger::parse(TRIGGER).unwrap(), &source).await;
        let caller = of_client(client);
        let invocation = Invocation { caller: Some(&caller), ..Invocation::default() };
        self.engine.run(&script, invocation, &self.services).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_that_need_more_than_there_is_end_one_after_the_other() {
    let small = Small::open().await;
    let large = "local kept = {} for i = 1, 25 do kept[i] = ('x'):rep(1 << 20) .. i end return #kept";
    let ended = join_all((0..4).map(|n| small.run(if n % 2 == 0 { "a" } else { "b" }, large))).await;
    for ended in ended {
        assert_eq!(&ended.unwrap().body[..], b"25");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_without_memory_is_busy_whatever_its_script_catches() {
    let small = Small::open().await;
    // It has ten of the sixteen MiB of its tenant's share, and the reserve.
    let large = "local kept = ('x'):rep(10 << 20) db.count('a.b') return #kept";
    let beside = async {
        small.gate.wait_for_runs(1).await;
        let greedy = "while true do pcall(string.rep, 'x', 8 << 20) end";
        let failure = small.run("a", greedy).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Busy, "{failure:?}");
        assert!(failure.message.contains("no memory for the run"), "{failure}");
        assert!(failure.is_retryable());
        let other = tokio::time::timeout(Duration::from_secs(2), small.run("b", "return 1")).await;
        assert_eq!(&other.expect("it does not wait").unwrap().body[..], b"1");
        small.gate.open();
    };
    let (large, ()) = tokio::join!(small.run("a", large), beside);
    assert_eq!(&large.unwrap().body[..], b"10485760");
    let after = small.run("a", "return #('x'):rep(15 << 20)").await.unwrap();
    assert_eq!(&after.body[..], b"15728640", "all of it was released");
}
