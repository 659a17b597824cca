//! Measures how fast recorded runs of a script are replayed, and what recording adds to the CPU time of a call. The script lists 5
//! records, so that the recordings of one script have room for all runs. With the target of issue 33, 10,000 runs take ten seconds at most.

use std::fmt;
use std::time::{Duration, Instant};

use ::http::{Method, Request};
use belvedere_base::clock::Clock;
use belvedere_standins::jetstream::{FakeJetstream, synthetic};
use http_body_util::Full;
use serde_json::json;

use crate::sessions::cost;
use crate::support::instance::Instance;
use crate::{http, server};

const RUNS: usize = 10_000;
const RECORDS: usize = 1_000;
/// More calls at once could fill the queue of recorded runs.
const CONNECTIONS: usize = 4;
const RECORDING: &str = "/admin/scripts/xrpc.query%3Acom.example.load.replayed/recording";
const REPLAY: &str = "/admin/scripts/xrpc.query%3Acom.example.load.replayed/replay";
const SCRIPT: &str = "function handle()
    local page = db.query{ collection = 'com.example.load.note', limit = 5 }
    return { notes = page.records, at = now() }
end";
/// Time for all calls until enough runs are stored.
const TIMEOUT: Duration = Duration::from_mins(5);

/// One database.
#[derive(Debug)]
pub struct Replays {
    name: &'static str,
    /// Microseconds of the server's CPU time per call, without and with a recording.
    plain: f64,
    recorded: f64,
    /// Runs that were stored of [`RUNS`] calls.
    stored: u64,
    /// Bytes of a stored run.
    bytes: f64,
    runs: u64,
    /// Runs per second of a replay of the same body, and of one that sorts differently.
    same: f64,
    other: f64,
}

/// Measures on a new server.
pub async fn measure(name: &'static str, database: &str) -> anyhow::Result<Replays> {
    let stream = FakeJetstream::start().await;
    let server = server::start(database, &stream.url()).await;
    server::upload_collection(&server).await;
    server.eventually("the stream is connected", async |_| !stream.subscriptions().is_empty()).await;
    stream.push_all(synthetic(RECORDS, 1, server::COLLECTION, Clock::system().now().0));
    server::wait_for_records(&server, RECORDS as u64).await?;
    let path = server::add_script(&server, "replayed", SCRIPT).await;
    let call = || {
        let request =
            Request::get(&path).header("host", "load.test").header("x-client-key", &server.client_key);
        request.body(Full::default()).expect("a request")
    };
    let calls = |count: usize| (0..count).map(|_| call()).collect::<Vec<_>>();
    http::run_each(server.address, calls(500), CONNECTIONS).await?;
    let plain = cost(&server, calls(RUNS)).await?;
    let terms = json!({ "percent": 100, "minutes": 60 });
    let started = server.admin(Method::PUT, RECORDING, Some(&terms)).await;
    anyhow::ensure!(started.status == 200, "{}", started.text);
    let recorded = cost(&server, calls(RUNS)).await?;
    let (stored, _) = runs(&server).await?;
    let deadline = Instant::now() + TIMEOUT;
    // Runs that found the queue full were dropped.
    let (kept, bytes) = loop {
        let (kept, bytes) = runs(&server).await?;
        if kept >= RUNS as u64 {
            break (kept, bytes);
        }
        anyhow::ensure!(Instant::now() < deadline, "only {kept} runs are stored, in {bytes} bytes");
        http::run_each(server.address, calls(RUNS / 10), CONNECTIONS).await?;
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let (replayed, same) = replay(&server, SCRIPT, true).await?;
    let ascending = SCRIPT.replace("limit = 5", "limit = 5, sort = { 'createdAt' }");
    let (_, other) = replay(&server, &ascending, false).await?;
    Ok(Replays {
        name,
        plain,
        recorded,
        stored,
        bytes: bytes as f64 / kept as f64,
        runs: replayed,
        same,
        other,
    })
}

/// The number and the bytes of the stored runs.
async fn runs(server: &Instance) -> anyhow::Result<(u64, u64)> {
    let answer = server.admin(Method::GET, RECORDING, None).await;
    let number = |name: &str| answer.body[name].as_u64();
    number("runs").zip(number("bytes")).ok_or_else(|| anyhow::anyhow!(answer.text.clone()))
}

/// The number of replayed runs, and of those per second.
async fn replay(server: &Instance, body: &str, is_same: bool) -> anyhow::Result<(u64, f64)> {
    let started = Instant::now();
    let request = json!({ "runs": RUNS, "body": body });
    let answer = server.admin(Method::POST, REPLAY, Some(&request)).await;
    let took = started.elapsed();
    let number = |name: &str| answer.body[name].as_u64().unwrap_or_default();
    let (runs, identical) = (number("runs"), number("identical"));
    let is_expected = runs > 0 && number("skipped") == 0 && identical == if is_same { runs } else { 0 };
    anyhow::ensure!(is_expected, "{}", answer.text);
    Ok((runs, runs as f64 / took.as_secs_f64()))
}

/// The header of the Markdown table.
pub const HEAD: &str = "| Database | call µs | recorded call µs | stored of 10,000 | bytes of a run | runs replayed | same body runs/s | other body runs/s |
|---|---:|---:|---:|---:|---:|---:|---:|";

impl fmt::Display for Replays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, plain, recorded, stored, bytes, runs, same, other } = self;
        write!(
            f,
            "| {name} | {plain:.0} | {recorded:.0} | {stored} | {bytes:.0} | {runs} | {same:.0} | {other:.0} |"
        )
    }
}
