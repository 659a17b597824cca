//! The server that reads the inputs, and the servers that send them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use belvedere_base::clock::Clock;
use belvedere_standins::jetstream::{FakeJetstream, Frame, Place, synthetic, tid};
use belvedere_standins::repos::RepoNetwork;
use serde_json::Value;

use super::Row;
use super::observer::{Observer, Waits};
use crate::server::COLLECTION;
use crate::support::instance::Instance;
use crate::{Plan, cpu, server, writing};

/// Time for which the idle server is measured.
const IDLE: Duration = Duration::from_secs(3);

pub struct Scene {
    pub server: Instance,
    pub stream: Arc<FakeJetstream>,
    /// The relay, the directory and one PDS.
    pub network: RepoNetwork,
    observer: Observer,
    idle: Waits,
}

impl Scene {
    /// Starts all of them, with the plan's number of records, and measures the idle server.
    pub async fn start(directory: &Path, plan: &Plan) -> anyhow::Result<Self> {
        let stream = Arc::new(FakeJetstream::start().await);
        let network = RepoNetwork::start(1).await;
        let names = network.url();
        let database = format!("sqlite://{}", directory.join("foreign.db").display());
        let settings = [("PLC_URL", names.as_str()), ("RELAY_URL", &names)];
        let server = server::start_with(&database, &stream.url(), &settings).await;
        server::upload_collection(&server).await;
        server::upload_query(&server).await;
        server.eventually("the stream is connected", async |_| !stream.subscriptions().is_empty()).await;
        let now = Clock::system().now().0;
        stream.push_all(synthetic(plan.records, writing::REPOS, COLLECTION, now - plan.records as i64));
        server::wait_for_records(&server, plan.records as u64).await?;
        stream.forget();
        let observer = Observer {
            address: server.address,
            stream: Arc::clone(&stream),
            client_key: server.client_key.clone(),
        };
        let idle = async || {
            tokio::time::sleep(IDLE).await;
            Ok(())
        };
        // The first requests warm the caches.
        observer.during(idle()).await?;
        let (waits, ()) = observer.during(idle()).await?;
        Ok(Self { server, stream, network, observer, idle: waits })
    }

    /// Waits until the stream is subscribed with a collection.
    pub async fn wait_for_stream_of(&self, collection: &str) {
        let follows =
            async |_: &Instance| self.stream.subscriptions().last().is_some_and(|s| s.wants(collection));
        self.server.eventually("the stream follows the collection", follows).await;
    }

    /// Measures the server while it reads `count` inputs of `bytes` each.
    pub async fn row(
        &self,
        case: &str,
        bytes: usize,
        count: u32,
        send: impl Future<Output = anyhow::Result<()>>,
    ) -> anyhow::Result<Row> {
        let pid = self.server.pid();
        cpu::forget_peak(pid)?;
        let (used, resident) = (cpu::of(pid), cpu::resident(pid));
        // The cost of the observers is measured while nothing else happens, as long as the inputs took.
        let started = std::time::Instant::now();
        let (beside, ()) = self.observer.during(send).await?;
        let took = started.elapsed();
        let (all, peak) = (cpu::of(pid).saturating_sub(used), cpu::peak(pid));
        let used = cpu::of(pid);
        let alone = async {
            tokio::time::sleep(took.min(IDLE)).await;
            Ok(())
        };
        let (_, ()) = self.observer.during(alone).await?;
        let observers =
            cpu::of(pid).saturating_sub(used).mul_f64(took.as_secs_f64() / took.min(IDLE).as_secs_f64());
        let row = Row {
            case: case.to_owned(),
            bytes,
            cpu: all.saturating_sub(observers) / count,
            memory: peak.saturating_sub(resident),
            idle: self.idle,
            beside,
        };
        eprintln!("{row}");
        Ok(row)
    }

    /// Sends a record on the stream.
    pub fn push(&self, did: &str, collection: &str, record: &Value) -> String {
        let now = Clock::system().now().0;
        let rev = tid(now as u64, 1);
        self.stream.push(Frame::create(now, Place { did, collection, rkey: &rev, rev: &rev }, record));
        rev
    }

    /// Waits until a client sees a record of the collection that all scenes have.
    pub async fn wait_for(&self, did: &str, rkey: &str) {
        let path = format!("{}?uri=at://{did}/{COLLECTION}/{rkey}", server::QUERY);
        self.server
            .eventually("the record is visible", async |server| server.xrpc(&path).await.status == 200)
            .await;
    }
}
