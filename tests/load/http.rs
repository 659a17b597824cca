//! A closed-loop HTTP client: each of its connections sends the next request as soon as it has the response.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use belvedere_standins::http_client::connect;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use tokio::task::JoinHandle;

/// The result of a run of the loop.
#[derive(Debug, Default)]
pub struct Run {
    pub requests: u64,
    pub failures: u64,
    /// The size of the last response body.
    pub body_bytes: usize,
    pub elapsed: Duration,
    latencies: Vec<u32>,
}

impl Run {
    pub fn per_second(&self) -> f64 {
        self.requests as f64 / self.elapsed.as_secs_f64()
    }

    /// Adds a run that came after this one.
    pub fn then(&mut self, next: Self) {
        self.elapsed += next.elapsed;
        self.take(next);
        self.latencies.sort_unstable();
    }

    fn take(&mut self, other: Self) {
        self.requests += other.requests;
        self.failures += other.failures;
        self.body_bytes = other.body_bytes;
        self.latencies.extend(other.latencies);
    }

    /// A percentile of the latencies, in milliseconds.
    pub fn percentile(&self, p: f64) -> f64 {
        let at = ((self.latencies.len().saturating_sub(1)) as f64 * p) as usize;
        self.latencies.get(at).map_or(f64::NAN, |us| f64::from(*us) / 1e3)
    }
}

/// Sends each of the requests once, over `connections` connections.
pub async fn run_each(
    address: SocketAddr,
    requests: Vec<http::Request<Full<Bytes>>>,
    connections: usize,
) -> anyhow::Result<Run> {
    let started = Instant::now();
    let mut shares: Vec<Vec<_>> = (0..connections).map(|_| Vec::new()).collect();
    for (at, request) in requests.into_iter().enumerate() {
        shares[at % connections].push(request);
    }
    let mut tasks = Vec::new();
    for share in shares {
        let mut sender = connect(address).await?;
        tasks.push(tokio::spawn(async move {
            let mut run = Run::default();
            for request in share {
                let sent = Instant::now();
                sender.ready().await?;
                let response = sender.send_request(request).await?;
                let ok = response.status().is_success();
                run.body_bytes = response.into_body().collect().await?.to_bytes().len();
                run.latencies.push(sent.elapsed().as_micros() as u32);
                run.requests += 1;
                run.failures += u64::from(!ok);
            }
            anyhow::Ok(run)
        }));
    }
    merge(tasks, started).await
}

/// Requests `path` repeatedly over `connections` connections for `duration`.
pub async fn run(
    address: SocketAddr,
    path: &str,
    headers: &[(&'static str, String)],
    connections: usize,
    duration: Duration,
) -> anyhow::Result<Run> {
    run_paths(address, &[path.to_owned()], headers, connections, duration, None).await
}

/// Like [`run`], for several paths: each connection requests them in turns, beginning with another one. With `per_second`, all
/// connections together send so many requests a second, and a request that is late because of earlier ones takes the longer.
pub async fn run_paths(
    address: SocketAddr,
    paths: &[String],
    headers: &[(&'static str, String)],
    connections: usize,
    duration: Duration,
    per_second: Option<f64>,
) -> anyhow::Result<Run> {
    let mut senders = Vec::new();
    for _ in 0..connections {
        senders.push(connect(address).await?);
    }
    let started = Instant::now();
    let mut tasks = Vec::new();
    for (connection, mut sender) in senders.into_iter().enumerate() {
        let (paths, headers) = (paths.to_vec(), headers.to_vec());
        tasks.push(tokio::spawn(async move {
            let mut run = Run::default();
            let paths = paths.iter().cycle().skip(connection * paths.len() / connections);
            for (n, path) in paths.enumerate() {
                let due = per_second.map(|rate| {
                    started + Duration::from_secs_f64((n * connections + connection) as f64 / rate)
                });
                if let Some(due) = due {
                    tokio::time::sleep_until(due.into()).await;
                }
                if started.elapsed() >= duration {
                    break;
                }
                let mut request = http::Request::get(path).header("host", "load.test");
                for (name, value) in &headers {
                    request = request.header(*name, value);
                }
                let sent = due.unwrap_or_else(Instant::now);
                sender.ready().await?;
                let response = sender.send_request(request.body(Full::default())?).await?;
                let ok = response.status().is_success();
                let body = response.into_body().collect().await?.to_bytes();
                run.latencies.push(sent.elapsed().as_micros() as u32);
                run.requests += 1;
                run.failures += u64::from(!ok);
                run.body_bytes = body.len();
            }
            anyhow::Ok(run)
        }));
    }
    merge(tasks, started).await
}

/// Like [`run`], over one connection and on a separate thread, so that other loops in this program do not add to the
/// latencies.
pub async fn run_apart(
    address: SocketAddr,
    path: &str,
    headers: &[(&'static str, String)],
    duration: Duration,
) -> anyhow::Result<Run> {
    let (path, headers) = (path.to_owned(), headers.to_vec());
    tokio::task::spawn_blocking(move || {
        let alone = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        alone.block_on(run(address, &path, &headers, 1, duration))
    })
    .await?
}

async fn merge(tasks: Vec<JoinHandle<anyhow::Result<Run>>>, started: Instant) -> anyhow::Result<Run> {
    let mut all = Run::default();
    for task in tasks {
        all.take(task.await??);
    }
    all.elapsed = started.elapsed();
    all.latencies.sort_unstable();
    Ok(all)
}
