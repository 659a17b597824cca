//! Many runs at once: the queue alone says no, never the pool of instances.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, try_join_all};
use tokio::sync::Notify;
use tokio::sync::watch;

use super::{EngineConfig, Invocation, Stage, cache_dir};
use crate::scripts::services::{Backlinks, RawAnswer};
use crate::scripts::{Engine, Index, IndexError, Page, Query, Row, Search, Services, Trigger};

/// Instances of the tests' engines.
const INSTANCES: u32 = 8;

/// An index whose `count` answers when the gate is open.
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

    /// Waits until so many runs stand at the gate.
    pub(super) async fn holds(&self, runs: usize) {
        while self.waiting.load(Ordering::SeqCst) < runs {
            self.arrived.notified().await;
        }
    }

    fn empty() -> BoxFuture<'static, Result<Page, IndexError>> {
        async { Ok(Page::default()) }.boxed()
    }
}

impl Index for Gate {
    fn query(&self, _query: Query) -> BoxFuture<'_, Result<Page, IndexError>> {
        Self::empty()
    }

    fn get(&self, _uri: String) -> BoxFuture<'_, Result<Option<Row>, IndexError>> {
        async { Ok(None) }.boxed()
    }

    fn count(&self, _collection: String, _did: Option<String>) -> BoxFuture<'_, Result<u64, IndexError>> {
        async move {
            self.waiting.fetch_add(1, Ordering::SeqCst);
            self.arrived.notify_one();
            let _ = self.open.subscribe().wait_for(|open| *open).await;
            Ok(0)
        }
        .boxed()
    }

    fn backlinks(&self, _links: Backlinks) -> BoxFuture<'_, Result<Page, IndexError>> {
        Self::empty()
    }

    fn raw(&self, _sql: String, _params: Bytes) -> BoxFuture<'_, Result<RawAnswer, IndexError>> {
        async { Ok(RawAnswer::default()) }.boxed()
    }

    fn search(&self, _search: Search) -> BoxFuture<'_, Result<Vec<Row>, IndexError>> {
        async { Ok(Vec::new()) }.boxed()
    }

    fn backend(&self) -> &'static str {
        "sqlite"
    }
}

/// An engine with few instances, and services with a gate.
pub(super) async fn gated() -> (Engine, Services, Arc<Gate>) {
    let config = EngineConfig { pool_size: INSTANCES, ..EngineConfig::new(cache_dir()) };
    let (engine, gate) = (Engine::open(config).await.unwrap(), Gate::closed());
    let stage = Stage::set().await;
    let services = Services { index: gate.clone(), ..stage.services };
    (engine, services, gate)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn twice_the_pool_of_every_kind_runs_without_an_error() {
    let (engine, services, gate) = gated().await;
    // Exceptions are kept in the collected heap; a job and an event take the same parts of the pool as a query.
    let throwing = "function handle()
            for i = 1, 200 do pcall(error, { deep = { i } }) end
            db.count('a.b')
            for i = 1, 200 do pcall(error, { deep = { i } }) end
        end";
    let plain = "function handle() db.count('a.b') return 1 end";
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
            let invocation = Invocation { job: Some(("id", b"{}")), ..Invocation::default() };
            engine.run(&script, invocation, &services).await.unwrap_or_else(|failure| panic!("{failure:?}"));
        })
    });
    let checks = (0..INSTANCES).map(|_| {
        let engine = engine.clone();
        tokio::spawn(async move {
            let trigger = Trigger::parse("xrpc.query:a.b.c").unwrap();
            engine
                .check(trigger, "function handle() end")
                .await
                .unwrap_or_else(|failure| panic!("{failure:?}"));
        })
    });
    let mut all = try_join_all(runs.chain(checks).collect::<Vec<_>>());
    // Every instance is taken before the first one ends.
    tokio::select! {
        ended = &mut all => panic!("{ended:?}"),
        () = gate.holds(INSTANCES as usize) => gate.open(),
    }
    all.await.unwrap();
}
