//! Measures the CPU time of reads of a space in the server, beside that of a public list of records of the same size. The credential's
//! signature is used again, as the protocol allows: it is verified once in a minute.

use std::fmt;

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
const CONNECTIONS: usize = 16;
const ALICE: &str = "did:plc:alicealicealicealicealic";
const METHODS: &str = "/xrpc/com.atproto.space";

/// Microseconds of the server's CPU time per request.
#[derive(Debug)]
pub struct Spaces {
    name: &'static str,
    public: f64,
    space: f64,
}

/// Measures on a new server.
pub async fn measure(name: &'static str, database: &str) -> anyhow::Result<Spaces> {
    let (plc, stream) = (Plc::start().await, FakeJetstream::start().await);
    let alice = plc.person(ALICE, Algorithm::Es256k);
    let more = [("PLC_URL", &*plc.url()), ("FEATURE_SPACES_ENABLED", "true")];
    let server = server::start_with(database, &stream.url(), &more).await;
    let public = public_list(&server, &stream).await?;
    let (space, credential, key) = space(&server, &alice).await?;

    let list = format!("{METHODS}.listRecords?space={space}&limit={RECORDS}");
    let authorization = format!("Atproto-Space {credential}");
    let (input, signature) = http_signature::sign(&key, &authorization, Some(ALICE)).expect("a key of P-256");
    let read = |_| {
        let request = Request::get(&list).header("host", "load.test").header("authorization", &authorization);
        let request = request.header(http_signature::AUDIENCE, ALICE);
        let request = request.header("signature-input", &input).header("signature", &signature);
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
    })
}

/// A public list. Returns its path.
async fn public_list(server: &Instance, stream: &FakeJetstream) -> anyhow::Result<String> {
    server::upload_collection(server).await;
    server.eventually("the stream is connected", async |_| !stream.subscriptions().is_empty()).await;
    stream.push_all(synthetic(RECORDS, 1, server::COLLECTION, Clock::system().now().0));
    server::wait_for_records(server, RECORDS as u64).await?;
    Ok(server::upload_query(server).await)
}

/// A space with the same number of records, and a credential that opens it to a key.
async fn space(server: &Instance, alice: &Person) -> anyhow::Result<(SpaceUri, String, PrivateKey)> {
    let created = json!({ "spaceType": "com.example.group", "skey": "load" });
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
    let writes: Vec<Value> = (0..RECORDS).map(write).collect();
    post("com.atproto.space.applyWrites", json!({ "space": space.to_string(), "writes": writes })).await?;

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
    let credential = credential.ok_or_else(|| anyhow::anyhow!("no credential: {}", answer.text))?.to_owned();
    Ok((space, credential, key))
}

/// The header of the Markdown table.
pub const HEAD: &str = "| Database | public list µs | list of a space µs | ratio |
|---|---:|---:|---:|";

impl fmt::Display for Spaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, public, space } = self;
        write!(f, "| {name} | {public:.0} | {space:.0} | {:.2} |", space / public)
    }
}
