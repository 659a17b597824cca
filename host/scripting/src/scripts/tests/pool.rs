//! Many runs at once: only a full queue refuses a run, never wasmtime's pool of instances.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, try_join_all};
use http::StatusCode;
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::{EngineConfig, Invocation, Stage, TRIGGER, cache_dir, of_client};
use crate::scripts::services::{IndexRead, StandIn};
use crate::scripts::{
    CallOutcome, CompiledScript, Engine, FailureKind, Index, Lineage, ScriptFailure, Services, Xrpc,
    XrpcError, limits,
};
use belvedere_instance::xrpc::{Answer, Call};
use belvedere_protocol::trigger::Trigger;
use belvedere_storage::store::records::Page;

/// Instances of the tests' engines.
const INSTANCES: u32 = 8;

/// A gate, and an index whose `count` waits until it is open.
pub(super) struct Gate {
    waiting: AtomicUsize,
    arrived: Notify,
    open: watch::Sender<bool>,
}

impl Gate {
    pub(super) fn closed() -> Arc<Self> {
        let open = watch::Sender::new(false);
        Arc::new(Self { waiting: AtomicUsize::new(0), arrived: Notify::new(), open })
    }

    pub(super) fn open(&self) {
        self.open.send_replace(true);
    }

    /// Waits until that many runs wait at the gate.
    pub(super) async fn wait_for_runs(&self, runs: usize) {
        while self.waiting.load(Ordering::SeqCst) < runs {
            self.arrived.notified().await;
        }
    }

    /// The index behind the gate.
    pub(super) fn index(self: &Arc<Self>) -> Arc<dyn Index> {
        let gate = Arc::clone(self);
        Arc::new(StandIn::waiting(Page::empty(), move |read| {
            let gate = Arc::clone(&gate);
            async move {
                if read == IndexRead::Count {
                    gate.pass().await;
                }
            }
        }))
    }

    async fn pass(&self) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        self.arrived.notify_one();
        let _ = self.open.subscribe().wait_for(|open| *open).await;
    }
}

/// An engine with few instances, and services with a gate.
pub(super) async fn gated() -> (Engine, Services, Arc<Gate>) {
    let config = EngineConfig { pool_size: INSTANCES, ..EngineConfig::new(cache_dir()) };
    let (engine, gate) = (Engine::open(config).await.unwrap(), Gate::closed());
    let stage = Stage::set().await;
    let services = Services { index: gate.index(), ..stage.services };
    (engine, services, gate)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn twice_the_pool_of_every_kind_runs_without_an_error() {
    let (engine, services, gate) = gated().await;
    // Exceptions are kept in the garbage-collected heap; a job and an event take the same slots of the pool as a query.
    let throwing = "function handle()
            for i = 1, 200 do pcall(error, { deep = { i } }) end
            db.count('a.b.c')
            for i = 1, 200 do pcall(error, { deep = { i } }) end
        end";
    let plain = "function handle() db.count('a.b.c') return 1 end";
    let kinds = ["xrpc.query:a.b.c", "xrpc.procedure:a.b.c", "record.index:a.b.c", "job.run:work"];
    let mut scripts = Vec::new();
    for kind in kinds {
        for source in [throwing, plain] {
            scripts.push(Arc::new(engine.compile(Trigger::parse(kind).unwrap(), source).await));
        }
    }
    let runs = (0..2 * INSTANCES as usize).map(|n| {
        let (engine, services) = (engine.clone(), services.clone());
        let script = Arc::clone(&scripts[n % scripts.len()]);
        tokio::spawn(async move {
            // A tenant has half of the instances.
            let caller = of_client(["a", "b", "c", "d"][n % 4]);
            let job = Some(("id", &b"{}"[..]));
            let invocation = Invocation { job, caller: Some(&caller), ..Invocation::default() };
            engine.run(&script, invocation, &services).await.unwrap_or_else(|failure| panic!("{failure:?}"));
        })
    });
    let checks = (0..INSTANCES).map(|_| {
        let engine = engine.clone();
        tokio::spawn(async move {
            let trigger = Trigger::parse("xrpc.query:a.b.c").unwrap();
            engine
                .check(trigger, "function handle() end", &Arc::default())
                .await
                .unwrap_or_else(|failure| panic!("{failure:?}"));
        })
    });
    let mut all = try_join_all(runs.chain(checks).collect::<Vec<_>>());
    // Every instance is taken before the first one ends.
    tokio::select! {
        ended = &mut all => panic!("{ended:?}"),
        () = gate.wait_for_runs(INSTANCES as usize) => gate.open(),
    }
    all.await.unwrap();
}

/// Runs the script that calls it again, as often as the limits allow.
struct Recursive {
    engine: Engine,
    script: Arc<CompiledScript>,
    services: OnceLock<Services>,
    calls: AtomicU32,
}

impl Recursive {
    async fn start(engine: &Engine, services: Services, source: &str) -> (Arc<Self>, Services) {
        let script = Arc::new(engine.compile(Trigger::parse(TRIGGER).unwrap(), source).await);
        let recursive =
            Arc::new(Self { engine: engine.clone(), script, services: OnceLock::new(), calls: 0.into() });
        let services = services.with_xrpc(recursive.clone());
        assert!(recursive.services.set(services.clone()).is_ok());
        (recursive, services)
    }
}

impl Xrpc for Recursive {
    fn call(&self, call: Call, lineage: Lineage) -> BoxFuture<'_, Result<CallOutcome, XrpcError>> {
        async move {
            self.calls.fetch_add(1, Ordering::SeqCst);
            let invocation =
                Invocation { caller: Some(&call.caller), lineage: Some(&lineage), ..Invocation::default() };
            let ran = self.engine.run(&self.script, invocation, self.services.get().unwrap()).await;
            let (status, body) = match ran {
                Ok(outcome) => (200, outcome.body),
                Err(failure) if failure.kind == FailureKind::Busy => (503, Bytes::from_static(b"{}")),
                Err(_) => (500, Bytes::from_static(b"{}")),
            };
            let answer = Answer::json(StatusCode::from_u16(status).unwrap(), body);
            Ok(CallOutcome { answer, is_remote: false })
        }
        .boxed()
    }
}

/// Nests as deep as the limits allow, and returns how the deepest call ended.
const RECURSE: &str = "function handle()
        local ok, answer = pcall(xrpc.query, 'a.b.c')
        if not ok then return { ended = answer.code } end
        if answer.status ~= 200 then return { ended = answer.status } end
        return json.decode(answer.body)
    end";

async fn run_as(
    engine: &Engine,
    services: &Services,
    script: &CompiledScript,
    tenant: &str,
) -> Result<Value, ScriptFailure> {
    let caller = of_client(tenant);
    let invocation = Invocation { caller: Some(&caller), ..Invocation::default() };
    let outcome = engine.run(script, invocation, services).await?;
    Ok(serde_json::from_slice(&outcome.body).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn scripts_that_call_scripts_never_wait_in_a_circle() {
    let (engine, services, gate) = gated().await;
    // The runs that no script called wait until there are as many of them as instances.
    let source = format!("db.count('a.b.c') {RECURSE}");
    let (recursive, services) = Recursive::start(&engine, services, &source).await;
    let run = |tenant: &'static str| {
        let (engine, services, script) = (engine.clone(), services.clone(), Arc::clone(&recursive.script));
        tokio::spawn(async move { run_as(&engine, &services, &script, tenant).await })
    };
    // Twice as many runs as there are instances, by two tenants that take all that they may, and one run by a third.
    let greedy: Vec<_> = (0..2 * INSTANCES).map(|n| run(if n % 2 == 0 { "a" } else { "b" })).collect();
    gate.wait_for_runs(INSTANCES as usize).await;
    let modest = run("c");
    gate.open();
    assert_eq!(modest.await.unwrap().unwrap(), json!({ "ended": "limit" }));
    let mut ended_well = 0;
    for one in try_join_all(greedy).await.unwrap() {
        match one {
            Ok(value) if value == json!({ "ended": "limit" }) => ended_well += 1,
            Ok(value) => assert_eq!(value, json!({ "ended": 503 })),
            Err(failure) => assert_eq!(failure.kind, FailureKind::Busy, "{failure:?}"),
        }
    }
    assert!(ended_well > 0);
}

#[tokio::test]
async fn a_tenant_that_takes_all_it_may_leaves_instances_to_others() {
    let (engine, services, gate) = gated().await;
    let trigger = || Trigger::parse(TRIGGER).unwrap();
    let waiting = Arc::new(engine.compile(trigger(), "function handle() db.count('a.b.c') end").await);
    let greedy: Vec<_> = (0..4 * INSTANCES)
        .map(|_| {
            let (engine, services, script) = (engine.clone(), services.clone(), Arc::clone(&waiting));
            tokio::spawn(async move { run_as(&engine, &services, &script, "greedy").await })
        })
        .collect();
    gate.wait_for_runs(INSTANCES as usize / 2).await;
    let quick = engine.compile(trigger(), "function handle() return 1 end").await;
    assert_eq!(run_as(&engine, &services, &quick, "modest").await.unwrap(), 1);
    gate.open();
    for one in try_join_all(greedy).await.unwrap() {
        one.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_and_what_it_calls_have_one_deadline() {
    let (engine, services, _gate) = gated().await;
    let source = "function handle()
            pcall(db.count, 'a.b.c')
            while true do pcall(xrpc.query, 'a.b.c') end
        end";
    let (recursive, services) = Recursive::start(&engine, services, source).await;
    let started = Instant::now();
    let failure = run_as(&engine, &services, &recursive.script, "a").await.unwrap_err();
    assert_eq!((failure.kind, started.elapsed()), (FailureKind::Limit, limits::RUN_TIME), "{failure:?}");
    // The same when a nested run takes the time.
    let source = "function handle() while true do pcall(xrpc.query, 'a.b.c') end end";
    let script = engine.compile(Trigger::parse(TRIGGER).unwrap(), source).await;
    let started = Instant::now();
    let failure = run_as(&engine, &services, &script, "a").await.unwrap_err();
    assert_eq!((failure.kind, started.elapsed()), (FailureKind::Limit, limits::RUN_TIME), "{failure:?}");
}

#[tokio::test]
async fn calls_of_calls_do_not_multiply() {
    let (engine, services, _gate) = gated().await;
    let source = "function handle() for i = 1, 40 do pcall(xrpc.query, 'a.b.c') end return 1 end";
    let (recursive, services) = Recursive::start(&engine, services, source).await;
    assert_eq!(run_as(&engine, &services, &recursive.script, "a").await.unwrap(), 1);
    assert_eq!(recursive.calls.load(Ordering::SeqCst), limits::XRPC_CALLS);
}

#[tokio::test]
async fn a_caller_that_goes_away_pays_for_what_was_burnt() {
    let config = EngineConfig { client_fuel: 1, ..EngineConfig::new(cache_dir()) };
    let (_, services, gate) = gated().await;
    let engine = Engine::open(config).await.unwrap();
    let compile = async |last: &str| {
        let source = format!("function handle() for i = 1, 10 do ('x'):rep(1000000):upper() end {last} end");
        engine.compile(Trigger::parse(TRIGGER).unwrap(), &source).await
    };
    let whole = engine.run(&compile("").await, Invocation::default(), &services).await.unwrap();
    let script = compile("db.count('a.b.c')").await;
    for n in 0..=limits::FUEL / whole.usage.fuel {
        tokio::select! {
            ended = run_as(&engine, &services, &script, "a") => panic!("{ended:?}"),
            () = gate.wait_for_runs(n as usize + 1) => {}
        }
    }
    let failure = run_as(&engine, &services, &script, "a").await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Throttled, "{failure:?}");
}
