//! Measures what other clients and accounts wait while something happens.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use belvedere::testing::clock::Clock;
use belvedere_standins::http_client::connect;
use belvedere_standins::jetstream::{FakeJetstream, Frame, Place, synthetic_did, synthetic_record, tid};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};

use crate::http;
use crate::server::{COLLECTION, QUERY};

/// The interval at which a record is looked for, and from one that was found to the next.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// A repo that sends nothing else.
const HONEST_REPO: usize = 999_999;

/// The list's requests are measured in slices of this length.
const SLICE: Duration = Duration::from_millis(100);

/// In milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Waits {
    /// From when a record is sent on the stream until a client sees it.
    pub longest_record: f64,
    pub list_p99: f64,
}

/// Who waits.
#[derive(Clone, Debug)]
pub struct Observer {
    pub address: SocketAddr,
    pub stream: Arc<FakeJetstream>,
    pub client_key: String,
}

impl Observer {
    /// Measures until `action` has ended. Returns its result too.
    pub async fn during<T>(
        &self,
        action: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<(Waits, T)> {
        let ended = Arc::new(AtomicBool::new(false));
        let (lists, records) = (self.clone(), self.clone());
        let (until, also) = (Arc::clone(&ended), Arc::clone(&ended));
        let lists = tokio::spawn(async move { lists.lists(&until).await });
        let records = tokio::task::spawn_blocking(move || {
            let alone = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            alone.block_on(records.records(&also))
        });
        let result = action.await;
        ended.store(true, Ordering::Relaxed);
        let (lists, records) = (lists.await??, records.await??);
        let waits = Waits { longest_record: records.as_secs_f64() * 1e3, list_p99: lists.percentile(0.99) };
        Ok((waits, result?))
    }

    async fn lists(&self, ended: &AtomicBool) -> anyhow::Result<http::Run> {
        let headers = [("x-client-key", self.client_key.clone())];
        let mut all = http::Run::default();
        while !ended.load(Ordering::Relaxed) {
            let path = format!("/xrpc/{QUERY}?limit=20");
            all.absorb(http::run_apart(self.address, &path, &headers, SLICE).await?);
        }
        anyhow::ensure!(all.failures == 0, "the list was refused");
        Ok(all)
    }

    /// Sends records, one after the other; the longest wait for one.
    async fn records(&self, ended: &AtomicBool) -> anyhow::Result<Duration> {
        let mut client = connect(self.address).await?;
        let did = synthetic_did(HONEST_REPO);
        let mut longest = Duration::ZERO;
        let mut count = 0;
        while !ended.load(Ordering::Relaxed) {
            let now = Clock::system().now().0;
            let rev = tid(now as u64, 0);
            let place = Place { did: &did, collection: COLLECTION, rkey: &rev, rev: &rev };
            let (record, sent) = (synthetic_record(COLLECTION, count), Instant::now());
            self.stream.push(Frame::create(now, place, &record));
            let path = format!("/xrpc/{QUERY}?uri=at://{did}/{COLLECTION}/{rev}");
            loop {
                tokio::time::sleep(POLL_INTERVAL).await;
                let request = ::http::Request::get(&path).header("host", "load.test");
                let request =
                    request.header("x-client-key", &self.client_key).body(Full::<Bytes>::default())?;
                client.ready().await?;
                let response = client.send_request(request).await?;
                let status = response.status();
                response.into_body().collect().await?;
                if status.is_success() {
                    break;
                }
                anyhow::ensure!(status == ::http::StatusCode::NOT_FOUND, "{path}: {status}");
            }
            longest = longest.max(sent.elapsed());
            count += 1;
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(longest)
    }
}
