//! Starts the server under test, and uploads the lexicons and scripts that are measured.

use std::time::{Duration, Instant};

use anyhow::Context;
use http::Method;
use serde_json::json;

use crate::cpu;
use crate::support::instance::{Instance, OPERATOR, query_lexicon, record_lexicon};
use belvedere_base::clock::Clock;

pub const COLLECTION: &str = "com.example.load.note";
pub const QUERY: &str = "com.example.load.list";

const UNLIMITED: &[(&str, &str)] =
    &[("DEFAULT_RATE_LIMIT_CAPACITY", "1000000000"), ("DEFAULT_RATE_LIMIT_REFILL_RATE", "1000000000")];

/// Time to wait for records or an index before the run fails.
const TIMEOUT: Duration = Duration::from_mins(5);

/// Starts the release binary with a rate limit that the client never reaches.
pub async fn start(database: &str, jetstream: &str) -> Instance {
    start_with(database, jetstream, &[]).await
}

/// Like [`start`], with more environment variables.
pub async fn start_with(database: &str, jetstream: &str, more: &[(&'static str, &str)]) -> Instance {
    Instance::start_with(database, jetstream, &[UNLIMITED, more].concat()).await
}

/// Like [`start_with`], on a database that an earlier run may have filled: each run makes a client of its own.
pub async fn start_on(database: &str, jetstream: &str, more: &[(&'static str, &str)]) -> Instance {
    let mut server = Instance::start_unclaimed(database, jetstream, &[UNLIMITED, more].concat()).await;
    server.admin_key = server.create_key(&["--did", OPERATOR]);
    server.client_key = server.create_client(&format!("run-{}", Clock::system().now().0)).await;
    server
}

/// Uploads the record lexicon, after which the server connects to the stream.
pub async fn upload_collection(server: &Instance) {
    server.upload(record_lexicon(COLLECTION), None).await;
}

/// Uploads the lexicon of the built-in list. Returns the query's path.
pub async fn upload_query(server: &Instance) -> String {
    server.upload(query_lexicon(QUERY), Some(COLLECTION)).await;
    format!("/xrpc/{QUERY}?limit=20")
}

/// Binds a script to a new query. Returns the query's path.
pub async fn add_script(server: &Instance, name: &str, source: &str) -> String {
    let nsid = format!("com.example.load.{name}");
    server.upload(query_lexicon(&nsid), Some(COLLECTION)).await;
    server.bind(&nsid, source).await;
    format!("/xrpc/{nsid}")
}

/// The URI of a record in the index.
pub async fn some_uri(server: &Instance) -> anyhow::Result<String> {
    let page = server.xrpc(&format!("{QUERY}?limit=1")).await;
    page.body["records"][0]["uri"].as_str().map(str::to_owned).with_context(|| json!(page.text).to_string())
}

/// Sends a query until the server has built a field index for it. Returns how long the build took, in milliseconds.
pub async fn wait_for_index(server: &Instance, query: &str) -> anyhow::Result<f64> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        server.xrpc(query).await;
        let stats = server.admin(Method::GET, "/admin/stats/indexes", None).await;
        let ready = stats.body["indexes"].as_array().into_iter().flatten().find(|i| i["state"] == "ready");
        if let Some(ready) = ready {
            return ready["build_ms"].as_f64().with_context(|| stats.text.clone());
        }
        anyhow::ensure!(Instant::now() < deadline, "no index was built: {}", stats.text);
    }
}

/// Waits until the index has `count` records. Returns the server's peak resident memory, in bytes.
pub async fn wait_for_records(server: &Instance, count: u64) -> anyhow::Result<u64> {
    let deadline = Instant::now() + TIMEOUT;
    let mut peak = 0;
    loop {
        let records = server.records().await;
        peak = peak.max(cpu::resident(server.pid()));
        if records >= count {
            return Ok(peak);
        }
        anyhow::ensure!(Instant::now() < deadline, "only {records} of {count} records were indexed");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
