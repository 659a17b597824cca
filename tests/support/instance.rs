//! The real binary, started as an operator would start it, and set up through its own command line and API.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use http::{HeaderMap, Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::http_client;

/// How long the server may take for something before a test gives up on it: generous, since tests share two cores.
const PATIENCE: Duration = Duration::from_mins(1);

/// Between two looks at something that is about to happen.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The DID of the operator.
pub const OPERATOR: &str = "did:plc:operatoroperatoroperator";

/// A running server; it is killed with the value.
pub struct Instance {
    child: Child,
    pub address: SocketAddr,
    environment: Vec<(&'static str, String)>,
    pub admin_key: String,
    pub client_key: String,
    _data: TempDir,
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What a request came back with.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// Null when the body is no JSON.
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
    /// Starts on a database of its own, with an admin key and an API client. `jetstream` is the URL of a stand-in;
    /// the other servers of the network are named but not there.
    pub async fn start(database: &str, jetstream: &str) -> Self {
        Self::start_with(database, jetstream, &[]).await
    }

    /// As [`Self::start`], with more environment variables.
    pub async fn start_with(database: &str, jetstream: &str, more: &[(&'static str, &str)]) -> Self {
        let mut instance = Self::start_unclaimed(database, jetstream, more).await;
        instance.admin_key = create_key(&instance.environment, &["--did", OPERATOR]);
        let client = json!({ "name": "tests", "client_id_url": "https://tests.example/client.json",
            "client_uri": "https://tests.example", "redirect_uris": [] });
        let answer = instance.admin(Method::POST, "/admin/api-clients", Some(&client)).await;
        assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.text);
        answer.body["client_key"].as_str().expect("a client key").clone_into(&mut instance.client_key);
        instance
    }

    /// As [`Self::start_with`], without a user, a key or a client.
    pub async fn start_unclaimed(database: &str, jetstream: &str, more: &[(&'static str, &str)]) -> Self {
        let data = tempfile::tempdir().expect("a temporary directory is made");
        share_guest(data.path());
        let address = free_address();
        let mut environment = vec![
            ("DATABASE_URL", database.to_owned()),
            ("DATA_DIR", data.path().display().to_string()),
            ("HOST", address.ip().to_string()),
            ("PORT", address.port().to_string()),
            ("PUBLIC_URL", format!("http://{address}")),
            ("JETSTREAM_URL", jetstream.to_owned()),
            // The discard port: refused at once.
            ("PLC_URL", "http://127.0.0.1:9".to_owned()),
            ("RELAY_URL", "http://127.0.0.1:9".to_owned()),
            ("RUST_LOG", "warn".to_owned()),
            // Tests look again and again; a client of their own stands for a small bucket where one is meant.
            ("DEFAULT_RATE_LIMIT_CAPACITY", "1000000".to_owned()),
        ];
        environment.extend(more.iter().map(|(name, value)| (*name, (*value).to_owned())));
        let child = spawn(&environment);
        let (admin_key, client_key) = Default::default();
        let mut instance = Self { child, address, environment, admin_key, client_key, _data: data };
        instance.wait_for_health().await;
        instance
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends the process at once, as a crash does.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Asks the process to end, and waits for it; its exit code.
    pub fn stop(&mut self) -> Option<i32> {
        let _ = Command::new("kill").args(["-TERM", &self.pid().to_string()]).status();
        self.wait()
    }

    /// Waits until the process has ended; its exit code.
    pub fn wait(&mut self) -> Option<i32> {
        self.child.wait().ok()?.code()
    }

    /// Starts again on the same data; how long it took to `/health`.
    pub async fn start_again(&mut self) -> Duration {
        let started = Instant::now();
        self.child = spawn(&self.environment);
        self.wait_for_health().await;
        started.elapsed()
    }

    /// Makes another admin key through the command line.
    pub fn create_key(&self, arguments: &[&str]) -> String {
        create_key(&self.environment, arguments)
    }

    /// Runs another command of the binary with this server's configuration.
    pub fn run(&self, arguments: &[&str]) -> std::process::Output {
        command(&self.environment).args(arguments).output().expect("it runs")
    }

    /// A request as the operator.
    pub async fn admin(&self, method: Method, path: &str, body: Option<&Value>) -> Answer {
        let key = format!("Bearer {}", self.admin_key);
        self.request(method, path, &[("authorization", &key)], body.map(ToString::to_string)).await
    }

    /// A GET as the API client.
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
        let (status, headers, bytes) =
            http_client::send(self.address, method, path, headers, body).await.expect("the server answers");
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Answer { status, headers, body: serde_json::from_slice(&bytes).unwrap_or_default(), text }
    }

    /// Uploads a lexicon, with a target collection if there is one; it must succeed.
    pub async fn upload(&self, lexicon: Value, target_collection: Option<&str>) {
        let body =
            json!({ "lexicon_json": lexicon, "target_collection": target_collection, "backfill": false });
        let answer = self.admin(Method::POST, "/admin/lexicons", Some(&body)).await;
        assert!(answer.status.is_success(), "{}", answer.text);
    }

    /// Binds a script to a query; it must succeed.
    pub async fn bind(&self, nsid: &str, source: &str) {
        let body = json!({ "id": format!("xrpc.query:{nsid}"), "body": source });
        let answer = self.admin(Method::POST, "/admin/scripts", Some(&body)).await;
        assert!(answer.status.is_success(), "{}", answer.text);
    }

    /// How many records the index holds.
    pub async fn records(&self) -> u64 {
        let stats = self.admin(Method::GET, "/admin/stats", None).await;
        stats.body["total_records"].as_u64().unwrap_or_else(|| panic!("no total: {}", stats.text))
    }

    /// Waits for a condition; `what` is for the panic.
    pub async fn eventually(&self, what: &str, mut holds: impl AsyncFnMut(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds(self).await {
            assert!(Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    async fn wait_for_health(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Ok((status, ..)) = http_client::send(self.address, Method::GET, "/health", &[], None).await
                && status.is_success()
            {
                return;
            }
            let ended = self.child.try_wait().expect("the child can be asked");
            assert!(ended.is_none(), "the server ended with {ended:?}");
            assert!(Instant::now() < deadline, "the server does not answer");
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}

/// A record lexicon with a text.
pub fn record_lexicon(nsid: &str) -> Value {
    json!({ "lexicon": 1, "id": nsid, "defs": { "main": { "type": "record", "key": "any", "record": {
        "type": "object", "properties": { "text": { "type": "string" } } } } } })
}

pub fn query_lexicon(nsid: &str) -> Value {
    json!({ "lexicon": 1, "id": nsid, "defs": { "main": { "type": "query" } } })
}

pub fn procedure_lexicon(nsid: &str) -> Value {
    json!({ "lexicon": 1, "id": nsid, "defs": { "main": { "type": "procedure" } } })
}

/// A port that is free now. Freed again before the server takes it; the kernel hands out others meanwhile.
fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("a bound socket has an address")
}

/// Compiling the script guest takes seconds, so that all servers of a test run share one. It is kept under a hash of
/// what it is made of, so nobody finds a stale one.
fn share_guest(data: &Path) {
    let shared = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guest");
    std::fs::create_dir_all(&shared).expect("the target directory can be written");
    std::os::unix::fs::symlink(shared, data.join("cache")).expect("the data directory is empty");
}

fn command(environment: &[(&'static str, String)]) -> Command {
    let mut command = Command::new(Path::new(env!("CARGO_BIN_EXE_belvedere")));
    command.env_clear().envs(environment.iter().map(|(k, v)| (*k, v.as_str()))).stdin(Stdio::null());
    command
}

fn spawn(environment: &[(&'static str, String)]) -> Child {
    command(environment).arg("serve").stdout(Stdio::null()).spawn().expect("the binary starts")
}

fn create_key(environment: &[(&'static str, String)], arguments: &[&str]) -> String {
    let output =
        command(environment).args(["admin", "create-key"]).args(arguments).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let key = text.split_whitespace().find(|word| word.starts_with("bva_"));
    key.unwrap_or_else(|| panic!("no key: {text}{}", String::from_utf8_lossy(&output.stderr))).to_owned()
}
