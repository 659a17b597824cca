//! Measures the CPU time of authenticated requests in the server: the same query without and with a DPoP proof, and a
//! procedure that writes to a PDS. The PDS is a stand-in in this process, so its CPU time is not counted.

use std::fmt;
use std::time::Duration;

use ::http::{Method, Request};
use bytes::Bytes;
use http_body_util::Full;
use serde_json::json;

use crate::support::app::{App, Device};
use crate::support::instance::{Instance, procedure_lexicon, query_lexicon, record_lexicon};
use crate::support::oauth_pds::OauthPds;
use crate::support::plc::Plc;
use crate::{cpu, http, server};

const QUERIES: usize = 20_000;
const WRITES: usize = 3_000;
const CONNECTIONS: usize = 16;
const ALICE: &str = "did:plc:alicealicealicealicealic";
const NOTE: &str = "com.example.note";
const LIST: &str = "/xrpc/com.example.list";
const PUT: &str = "/xrpc/com.example.put";

/// Microseconds of the server's CPU time per request.
#[derive(Debug)]
pub struct Sessions {
    name: &'static str,
    anonymous: f64,
    proved: f64,
    write: f64,
}

/// Measures on a new server.
pub async fn measure(name: &'static str, database: &str) -> anyhow::Result<Sessions> {
    let (plc, pds) = (Plc::start().await, OauthPds::start().await);
    plc.host(ALICE, &pds.url());
    let server = server::start_with(database, "none", &[("PLC_URL", &*plc.url())]).await;
    server.upload(record_lexicon(NOTE), None).await;
    server.upload(query_lexicon("com.example.list"), Some(NOTE)).await;
    server.upload(procedure_lexicon("com.example.put"), Some(NOTE)).await;
    let app = App::confidential(&server, "load").await;
    let device = app.device(&server, &pds, ALICE, json!({})).await;

    let bare = || Request::get(LIST).header("host", "load.test").header("x-client-key", &app.key);
    let anonymous = |_| bare().body(Full::default()).expect("a request");
    let proved = |_| signed(&server, &device, &Method::GET, LIST, Bytes::new());
    let write = |n| {
        let body = json!({ "text": format!("note {n}") }).to_string();
        signed(&server, &device, &Method::POST, PUT, body.into())
    };
    // Warm up caches and connections.
    http::run_each(server.address, (0..500).map(proved).collect(), CONNECTIONS).await?;
    http::run_each(server.address, (0..100).map(write).collect(), CONNECTIONS).await?;
    Ok(Sessions {
        name,
        anonymous: cost(&server, (0..QUERIES).map(anonymous).collect()).await?,
        proved: cost(&server, (0..QUERIES).map(proved).collect()).await?,
        write: cost(&server, (0..WRITES).map(write).collect()).await?,
    })
}

fn signed(
    server: &Instance,
    device: &Device,
    method: &Method,
    path: &str,
    body: Bytes,
) -> Request<Full<Bytes>> {
    Request::builder()
        .method(method)
        .uri(path)
        .header("host", "load.test")
        .header("content-type", "application/json")
        .header("x-client-key", &device.client_key)
        .header("authorization", format!("DPoP {}", device.token))
        .header("dpop", device.proof(server, method, path))
        .body(Full::new(body))
        .expect("a request")
}

/// Microseconds of the server's CPU time per request.
pub async fn cost(server: &Instance, requests: Vec<Request<Full<Bytes>>>) -> anyhow::Result<f64> {
    let before = cpu::of(server.pid());
    let run = http::run_each(server.address, requests, CONNECTIONS).await?;
    let used: Duration = cpu::of(server.pid()).saturating_sub(before);
    anyhow::ensure!(run.failures == 0, "{} of {} requests failed", run.failures, run.requests);
    Ok(used.as_secs_f64() * 1e6 / run.requests as f64)
}

/// The header of the Markdown table.
pub const HEAD: &str = "| Database | query, anonymous µs | query, DPoP µs | more for DPoP µs | procedure µs |
|---|---:|---:|---:|---:|";

impl fmt::Display for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, anonymous, proved, write } = self;
        write!(f, "| {name} | {anonymous:.0} | {proved:.0} | {:.0} | {write:.0} |", proved - anonymous)
    }
}
