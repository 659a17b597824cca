//! Measures the CPU time of reads of a space in the server, beside that of a public list of records of the same size; and how much greedy
//! readers of a large space slow down another client's public list. The credential's signature is used again, as the protocol
//! allows: it is verified once in a minute.

use std::fmt;
use std::time::Duration;

use ::http::{Method, Request};
use belvedere_base::clock::Clock;
use belvedere_base::random::Random;
use belvedere_protocol::atproto::Did;
use belvedere_protocol::crypto::{Algorithm, PrivateKey};
use belvedere_protocol::spaces::SpaceUri;
use belvedere_protocol::spaces::r10::http_signature;
use belvedere_protocol::spaces::r10::token::{Delegation, Signer};
use belvedere_standins::jetstream::{FakeJetstream, synthetic, synthetic_record};
use http_body_util::Full;
use serde_json::{Value, json};

use crate::sessions::cost;
use crate::support::instance::Instance;
use crate::support::plc::{Person, Plc};
use crate::{http, server};

const READS: usize = 20_000;
const RECORDS: usize = 20;
/// Writes of one call, at most.
const MAX_WRITES: usize = 200;
const CONNECTIONS: usize = 16;
/// Records of the space that greedy readers read as a whole.
const LARGE: usize = 1_000;
/// Their connections: many times what one tenant may use at once.
const GREEDY: usize = 32;
/// Times that each of them is measured, in turns with the public list alone.
const ROUNDS: u32 = 3;
/// The time of each measurement.
const SECONDS: Duration = Duration::from_secs(3);
const ALICE: &str = "did:plc:alicealicealicealicealic";
const METHODS: &str = "/xrpc/com.atproto.space";

/// Microseconds of the server's CPU time per request.
#[derive(Debug)]
pub struct Spaces {
    name: &'static str,
    public: f64,
    space: f64,
    /// The p99 of the public list in milliseconds: alone; beside greedy lists of a space, here and at another server on this machine,
    /// which shares only the processors and the kernel with this one; and the same beside exports of a repo.
    p99: [f64; 5],
}

/// Measures on a new server, with another one beside it.
pub async fn measure(name: &'static str, [database, apart]: [&str; 2]) -> anyhow::Result<Spaces> {
    let (plc, stream) = (Plc::start().await, FakeJetstream::start().await);
    let alice = plc.person(ALICE, Algorithm::Es256k);
    let more = [("PLC_URL", &*plc.url()), ("FEATURE_SPACES_ENABLED", "true")];
    let server = server::start_with(database, &stream.url(), &more).await;
    let other = server::start_with(apart, &stream.url(), &more).await;
    let public = public_list(&server, &stream).await?;
    let (space, headers) = space(&server, &alice, "small", RECORDS).await?;
    let list = format!("{METHODS}.listRecords?space={space}&limit={RECORDS}");
    let read = |_| {
        let request = Request::get(&list).header("host", "load.test");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, value));
        request.body(Full::default()).expect("a request")
    };
    let anonymous = |_| {
        let request = Request::get(&public).header("host", "load.test");
        request.header("x-client-key", &server.client_key).body(Full::default()).expect("a request")
    };
    // Warm up caches and connections.
    http::run_each(server.address, (0..500).map(read).collect(), CONNECTIONS).await?;
    http::run_each(server.address, (0..500).map(anonymous).collect(), CONNECTIONS).await?;
    Ok(Spaces {
        name,
        public: cost(&server, (0..READS).map(anonymous).collect()).await?,
        space: cost(&server, (0..READS).map(read).collect()).await?,
        p99: beside([&server, &other], &alice, &public).await?,
    })
}

/// The p99 of a public list of the first server.
async fn beside(servers: [&Instance; 2], alice: &Person, public: &str) -> anyhow::Result<[f64; 5]> {
    let mut greedy = Vec::new();
    for method in [format!("listRecords?limit={LARGE}"), format!("getRepo?did={ALICE}")] {
        for server in servers {
            let (space, headers) = space(server, alice, &method[..7], LARGE).await?;
            greedy.push((server.address, format!("{METHODS}.{method}&space={space}"), headers));
        }
    }
    let server = servers[0];
    let modest = [("x-client-key", server.client_key.clone())];
    let mut runs = [(); 5].map(|()| http::Run::default());
    for _ in 0..ROUNDS {
        runs[0].then(http::run_apart(server.address, public, &modest, SECONDS).await?);
        for (run, (address, path, headers)) in runs[1..].iter_mut().zip(&greedy) {
            let (listed, read) = tokio::join!(
                http::run_apart(server.address, public, &modest, SECONDS),
                http::run(*address, path, headers, GREEDY, SECONDS),
            );
            let read = read?;
            anyhow::ensure!(read.requests > read.failures, "{path}: every read was refused");
            run.then(listed?);
        }
    }
    anyhow::ensure!(runs.iter().all(|run| run.failures == 0), "the modest client was refused");
    Ok(runs.map(|run| run.percentile(0.99)))
}

/// A public list. Returns its path.
async fn public_list(server: &Instance, stream: &FakeJetstream) -> anyhow::Result<String> {
    server::upload_collection(server).await;
    server.eventually("the stream is connected", async |_| !stream.subscriptions().is_empty()).await;
    stream.push_all(synthetic(RECORDS, 1, server::COLLECTION, Clock::system().now().0));
    server::wait_for_records(server, RECORDS as u64).await?;
    Ok(server::upload_query(server).await)
}

/// A space with some records, and the headers of a request that a credential opens it to.
async fn space(
    server: &Instance,
    alice: &Person,
    skey: &str,
    records: usize,
) -> anyhow::Result<(SpaceUri, [(&'static str, String); 4])> {
    let created = json!({ "spaceType": "com.example.group", "skey": skey });
    let post = async |method: &str, body: Value| {
        let answer = server.procedure(method, &alice.token(&server.did(), json!({})), &body).await;
        anyhow::ensure!(answer.status.is_success(), "{method}: {}", answer.text);
        Ok(answer.body)
    };
    let created = post("com.atproto.simplespace.createSpace", created).await?;
    let space = SpaceUri::parse(created["uri"].as_str().unwrap_or_default())?;
    let write = |n| {
        let value = synthetic_record(server::COLLECTION, n);
        json!({ "action": "create", "collection": server::COLLECTION, "rkey": format!("k{n}"), "value": value })
    };
    let writes: Vec<Value> = (0..records).map(write).collect();
    for writes in writes.chunks(MAX_WRITES) {
        post("com.atproto.space.applyWrites", json!({ "space": space.to_string(), "writes": writes }))
            .await?;
    }

    let random = Random::system();
    let key = PrivateKey::generate(Algorithm::Es256, &random);
    let (did, now) = (Did::try_from(ALICE)?, Clock::system().now());
    let token = Delegation::issue((alice.key(), Signer::Account), &did, &space, &random.hex(16), now).0;
    let authorization = format!("Bearer {token}");
    let (input, signature) = http_signature::sign(&key, &authorization, None).expect("a key of P-256");
    let headers =
        [("authorization", &*authorization), ("signature-input", &*input), ("signature", &*signature)];
    let body = Some(json!({ "space": space.to_string() }).to_string());
    let path = format!("{METHODS}.getSpaceCredential");
    let answer = server.request(Method::POST, &path, &headers, body).await;
    let credential = answer.body["credential"].as_str();
    let credential = credential.ok_or_else(|| anyhow::anyhow!("no credential: {}", answer.text))?;
    let authorization = format!("Atproto-Space {credential}");
    let (input, signature) = http_signature::sign(&key, &authorization, Some(ALICE)).expect("a key of P-256");
    let headers = [
        ("authorization", authorization),
        (http_signature::AUDIENCE, ALICE.to_owned()),
        ("signature-input", input),
        ("signature", signature),
    ];
    Ok((space, headers))
}

/// The header of the Markdown table.
pub const HEAD: &str = "| Database | public list µs | list of a space µs | ratio | public list alone, p99 ms | beside lists of 1,000 records | … at another server | beside exports | … at another server |
|---|---:|---:|---:|---:|---:|---:|---:|---:|";

impl fmt::Display for Spaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, public, space, p99: [alone, beside @ ..] } = self;
        write!(f, "| {name} | {public:.0} | {space:.0} | {:.2} | {alone:.2} |", space / public)?;
        beside.iter().try_for_each(|p99| write!(f, " {p99:.2} ({:.1}×) |", p99 / alone))
    }
}
