//! Measures what other clients and accounts wait while something happens.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use belvedere_base::clock::Clock;
use belvedere_standins::http_client::connect;
use belvedere_standins::jetstream::{FakeJetstream, Frame, Place, synthetic_did, synthetic_record, tid};
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::SendRequest;

use crate::server::{COLLECTION, QUERY};

/// The interval at which a record is looked for, and from one that was found to the next.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// A repo that sends nothing else.
const HONEST_REPO: usize = 999_999;

/// From one list to the next.
const LIST_INTERVAL: Duration = Duration::from_millis(5);

type Client = SendRequest<Full<Bytes>>;

/// In milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Waits {
    /// From when a record is sent on the stream until a client sees it.
    pub longest_record: f64,
    pub list_p99: f64,
}

/// The client whose waiting times are measured.
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
        let lists = apart(async move { lists.lists(&until).await });
        let records = apart(async move { records.records(&also).await });
        let result = action.await;
        ended.store(true, Ordering::Relaxed);
        let (lists, records) = (lists.await??, records.await??);
        let waits = Waits {
            longest_record: records.as_secs_f64() * 1e3,
            list_p99: lists.get(lists.len() * 99 / 100).map_or(f64::NAN, |wait| wait.as_secs_f64() * 1e3),
        };
        Ok((waits, result?))
    }

    /// Lists, at a rate that costs the server little. Returns the latencies.
    async fn lists(&self, ended: &AtomicBool) -> anyhow::Result<Vec<Duration>> {
        let mut client = connect(self.address).await?;
        let mut latencies = Vec::new();
        while !ended.load(Ordering::Relaxed) {
            let sent = Instant::now();
            let status = self.get(&mut client, &format!("/xrpc/{QUERY}?limit=20")).await?;
            anyhow::ensure!(status.is_success(), "the list was refused: {status}");
            latencies.push(sent.elapsed());
            tokio::time::sleep(LIST_INTERVAL).await;
        }
        latencies.sort_unstable();
        Ok(latencies)
    }

    async fn get(&self, client: &mut Client, path: &str) -> anyhow::Result<StatusCode> {
        let request = Request::get(path).header("host", "load.test").header("x-client-key", &self.client_key);
        client.ready().await?;
        let response = client.send_request(request.body(Full::default())?).await?;
        let status = response.status();
        response.into_body().collect().await?;
        Ok(status)
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
                let status = self.get(&mut client, &path).await?;
                if status.is_success() {
                    break;
                }
                anyhow::ensure!(status == StatusCode::NOT_FOUND, "{path}: {status}");
            }
            longest = longest.max(sent.elapsed());
            count += 1;
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(longest)
    }
}

/// Runs on a thread of its own, so that other work of this program does not add to what is measured.
fn apart<T: Send + 'static>(
    measured: impl Future<Output = anyhow::Result<T>> + Send + 'static,
) -> tokio::task::JoinHandle<anyhow::Result<T>> {
    tokio::task::spawn_blocking(move || {
        tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(measured)
    })
}
