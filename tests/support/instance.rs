//! Runs the real binary as an operator would, and sets it up through its own command line and API.

use std::net::SocketAddr;
use std::process::Output;
use std::time::{Duration, Instant};

use belvedere_standins::dns::Dns;
use belvedere_standins::http_client;
use belvedere_standins::tls::HTTPS_CERTIFICATE;
use http::{HeaderMap, Method, StatusCode};
use serde_json::{Value, json};

use super::openapi;
use super::process::Process;

/// Time that a test waits for the server before it fails: generous, since all tests share two cores.
const TIMEOUT: Duration = Duration::from_mins(1);

/// The interval at which a condition is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The DID of the operator.
pub const OPERATOR: &str = "did:plc:operatoroperatoroperator";

/// A running server. Dropping it kills the process.
pub struct Instance {
    process: Process,
    /// Has no records until a test sets some.
    pub dns: Dns,
    pub address: SocketAddr,
    pub admin_key: String,
    pub client_key: String,
}

/// The response to a request.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// Null when the body is not JSON.
    pub body: Value,
    pub text: String,
}

impl Answer {
    /// The `error` field.
    pub fn error(&self) -> &str {
        self.body["error"].as_str().unwrap_or_default()
    }
}

impl Instance {
    /// Starts on the database, and creates an admin key and an API client. `jetstream` is the URL of a stand-in;
    /// the other servers of the network are configured with addresses that refuse connections.
    pub async fn start(database: &str, jetstream: &str) -> Self {
        Self::start_with(database, jetstream, &[]).await
    }

    /// Like [`Self::start`], with more environment variables.
    pub async fn start_with(database: &str, jetstream: &str, more: &[(&'static str, &str)]) -> Self {
        let mut instance = Self::start_unclaimed(database, jetstream, more).await;
        instance.admin_key = instance.create_key(&["--did", OPERATOR]);
        instance.client_key = instance.create_client("tests").await;
        instance
    }

    /// Like [`Self::start_with`], without a user, a key or a client.
    pub async fn start_unclaimed(database: &str, jetstream: &str, more: &[(&'static str, &str)]) -> Self {
        let dns = Dns::start().await;
        let dns_server = dns.address.to_string();
        let mut environment = vec![
            ("DATABASE_URL", database),
            ("JETSTREAM_URL", jetstream),
            // The discard port: connections are refused at once.
            ("PLC_URL", "http://127.0.0.1:9"),
            ("RELAY_URL", "http://127.0.0.1:9"),
            ("DNS_SERVER", &dns_server),
            ("SSL_CERT_FILE", HTTPS_CERTIFICATE),
            ("RUST_LOG", "warn"),
        ];
        environment.extend(more);
        let process = Process::new(&environment);
        let address = process.address;
        let (admin_key, client_key) = Default::default();
        let mut instance = Self { process, dns, address, admin_key, client_key };
        instance.start_again().await;
        instance
    }

    /// The server's log so far.
    pub fn log(&self) -> String {
        self.process.log()
    }

    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Kills the process, to simulate a crash.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Sends SIGTERM and waits for the process. Returns its exit code.
    pub fn stop(&mut self) -> Option<i32> {
        self.process.terminate();
        self.wait()
    }

    /// Sends a signal to the process, by its name without `SIG`.
    pub fn signal(&self, name: &str) {
        self.process.signal(name);
    }

    /// Waits until the process has ended. Returns its exit code.
    pub fn wait(&mut self) -> Option<i32> {
        self.process.wait()
    }

    /// Starts the server on the same data again. Returns how long it took until `/health` was fine.
    pub async fn start_again(&mut self) -> Duration {
        let started = Instant::now();
        self.process.spawn();
        self.wait_for_health().await;
        started.elapsed()
    }

    /// Creates an API client. Returns its key.
    pub async fn create_client(&self, name: &str) -> String {
        let client = json!({ "name": name, "client_id_url": format!("https://{name}.example/client.json"),
            "client_uri": format!("https://{name}.example"), "redirect_uris": [] });
        let answer = self.admin(Method::POST, "/admin/api-clients", Some(&client)).await;
        assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.text);
        answer.body["client_key"].as_str().expect("a client key").to_owned()
    }

    /// Creates another admin key through the command line.
    pub fn create_key(&self, arguments: &[&str]) -> String {
        self.process.create_key(arguments)
    }

    /// Runs another command of the binary with this server's configuration.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.process.run(arguments)
    }

    /// Sends a request with the operator's admin key.
    pub async fn admin(&self, method: Method, path: &str, body: Option<&Value>) -> Answer {
        let key = format!("Bearer {}", self.admin_key);
        self.request(method, path, &[("authorization", &key)], body.map(ToString::to_string)).await
    }

    /// Sends a GET as the API client.
    pub async fn xrpc(&self, path_and_query: &str) -> Answer {
        let headers = [("x-client-key", self.client_key.as_str())];
        self.request(Method::GET, &format!("/xrpc/{path_and_query}"), &headers, None).await
    }

    pub async fn request(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<String>,
    ) -> Answer {
        let (status, headers, bytes) = http_client::send(self.address, method.clone(), path, headers, body)
            .await
            .expect("the server responds");
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let answer =
            Answer { status, headers, body: serde_json::from_slice(&bytes).unwrap_or_default(), text };
        openapi::check(&method, path, &answer);
        answer
    }

    /// Uploads a lexicon, optionally with a target collection. Panics if that fails.
    pub async fn upload(&self, lexicon: Value, target_collection: Option<&str>) {
        let body =
            json!({ "lexicon_json": lexicon, "target_collection": target_collection, "backfill": false });
        let answer = self.admin(Method::POST, "/admin/lexicons", Some(&body)).await;
        assert!(answer.status.is_success(), "{}", answer.text);
    }

    /// Sends a POST as the API client, on behalf of the account that signed the service token.
    pub async fn procedure(&self, path_and_query: &str, token: &str, body: &Value) -> Answer {
        let token = format!("Bearer {token}");
        let headers = [("x-client-key", self.client_key.as_str()), ("authorization", &token)];
        self.request(Method::POST, &format!("/xrpc/{path_and_query}"), &headers, Some(body.to_string())).await
    }

    /// The server's DID: the audience of service tokens for it.
    pub fn did(&self) -> String {
        format!("did:web:127.0.0.1%3A{}", self.address.port())
    }

    /// Binds a script to a query. Panics if that fails.
    pub async fn bind(&self, nsid: &str, source: &str) {
        self.bind_to(&format!("xrpc.query:{nsid}"), source).await;
    }

    /// Binds a script to a trigger. Panics if that fails.
    pub async fn bind_to(&self, trigger: &str, source: &str) {
        let body = json!({ "id": trigger, "body": source });
        let answer = self.admin(Method::POST, "/admin/scripts", Some(&body)).await;
        assert!(answer.status.is_success(), "{}", answer.text);
    }

    /// The number of records in the index.
    pub async fn records(&self) -> u64 {
        let stats = self.admin(Method::GET, "/admin/stats", None).await;
        stats.body["total_records"].as_u64().unwrap_or_else(|| panic!("no total: {}", stats.text))
    }

    /// Waits until a condition is true. Panics with `what` after [`TIMEOUT`].
    pub async fn eventually(&self, what: &str, mut holds: impl AsyncFnMut(&Self) -> bool) {
        let deadline = Instant::now() + TIMEOUT;
        while !holds(self).await {
            assert!(Instant::now() < deadline, "{what}: not within {TIMEOUT:?}");
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    async fn wait_for_health(&mut self) {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Ok((status, ..)) = http_client::send(self.address, Method::GET, "/health", &[], None).await
                && status.is_success()
            {
                return;
            }
            let ended = self.process.ended();
            assert!(ended.is_none(), "the server ended with {ended:?}");
            assert!(Instant::now() < deadline, "the server does not respond");
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

/// A record lexicon with one property, `text`.
pub fn record_lexicon(nsid: &str) -> Value {
    json!({ "lexicon": 1, "id": nsid, "defs": { "main": { "type": "record", "key": "any", "record": {
        "type": "object", "properties": { "text": { "type": "string" } } } } } })
}

/// A record lexicon with another key type.
pub fn keyed_lexicon(nsid: &str, key: &str) -> Value {
    let mut lexicon = record_lexicon(nsid);
    lexicon["defs"]["main"]["key"] = key.into();
    lexicon
}

pub fn query_lexicon(nsid: &str) -> Value {
    json!({ "lexicon": 1, "id": nsid, "defs": { "main": { "type": "query" } } })
}

pub fn procedure_lexicon(nsid: &str) -> Value {
    json!({ "lexicon": 1, "id": nsid, "defs": { "main": { "type": "procedure" } } })
}
