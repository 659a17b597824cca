//! The server under test: the release binary, started as an operator would, and set up through its own API.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::{Value, json};

use crate::baseline::Process;
use crate::http::{connect, json as ask};

pub const COLLECTION: &str = "com.example.load.note";
const QUERY: &str = "com.example.load.list";
const DID: &str = "did:plc:loadtestloadtestloadtest";

/// How long a start or a fill may take before the run is given up.
const PATIENCE: Duration = Duration::from_secs(120);

pub struct Server {
    process: Process,
    pub address: SocketAddr,
    environment: Vec<(&'static str, String)>,
    admin_key: String,
    pub client_key: String,
}

impl Server {
    /// Prepares a database and an admin key, and starts.
    pub async fn start(database: &str, data: &Path, jetstream: &str) -> anyhow::Result<Self> {
        // Freed again before the server takes it: nothing else on this machine asks for ports meanwhile.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let environment = vec![
            ("DATABASE_URL", database.to_owned()),
            ("DATA_DIR", data.display().to_string()),
            ("HOST", address.ip().to_string()),
            ("PORT", address.port().to_string()),
            ("PUBLIC_URL", format!("http://{address}")),
            ("JETSTREAM_URL", jetstream.to_owned()),
            ("PLC_URL", "http://127.0.0.1:9".to_owned()),
            ("RELAY_URL", "http://127.0.0.1:9".to_owned()),
            ("DEFAULT_RATE_LIMIT_CAPACITY", "1000000000".to_owned()),
            ("DEFAULT_RATE_LIMIT_REFILL_RATE", "1000000000".to_owned()),
            ("RUST_LOG", "warn".to_owned()),
        ];
        let created = command(&environment).args(["admin", "create-key", "--did", DID]).output()?;
        let text = String::from_utf8_lossy(&created.stdout).into_owned();
        let admin_key = text
            .split_whitespace()
            .find(|word| word.starts_with("bva_"))
            .with_context(|| format!("no key in: {text}{}", String::from_utf8_lossy(&created.stderr)))?
            .to_owned();
        let process = Process(command(&environment).arg("serve").stdout(Stdio::null()).spawn()?);
        let mut server = Self { process, address, environment, admin_key, client_key: String::new() };
        server.wait_for_health().await?;
        Ok(server)
    }

    pub fn pid(&self) -> u32 {
        self.process.0.id()
    }

    /// Stops and starts again on the same data; how long it took to `/health`.
    pub async fn restart(&mut self) -> anyhow::Result<Duration> {
        let pid = self.pid().to_string();
        Command::new("kill").args(["-TERM", &pid]).status()?;
        self.process.0.wait()?;
        let started = Instant::now();
        self.process = Process(command(&self.environment).arg("serve").stdout(Stdio::null()).spawn()?);
        self.wait_for_health().await?;
        Ok(started.elapsed())
    }

    async fn wait_for_health(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if connect(self.address).await.is_ok()
                && let Ok((status, _)) =
                    ask(self.address, http::Method::GET, "/health", None, &Value::Null).await
                && status.is_success()
            {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        anyhow::bail!("the server does not answer")
    }

    pub async fn admin(&self, method: http::Method, path: &str, body: &Value) -> anyhow::Result<Value> {
        let (status, answer) = ask(self.address, method, path, Some(&self.admin_key), body).await?;
        anyhow::ensure!(status.is_success(), "{path}: {status} {answer}");
        Ok(answer)
    }

    /// The record lexicon, after which the stream begins.
    pub async fn upload_record_lexicon(&self) -> anyhow::Result<()> {
        let lexicon = json!({ "lexicon_json": { "lexicon": 1, "id": COLLECTION, "defs": { "main": {
            "type": "record", "key": "tid", "record": { "type": "object", "properties": {
                "text": { "type": "string" }, "createdAt": { "type": "string" } } } } } } });
        self.admin(http::Method::POST, "/admin/lexicons", &lexicon).await.map(drop)
    }

    /// The query lexicon and a client that may ask for it.
    pub async fn set_up_queries(&mut self) -> anyhow::Result<()> {
        let lexicon = json!({ "target_collection": COLLECTION, "lexicon_json": {
            "lexicon": 1, "id": QUERY, "defs": { "main": { "type": "query" } } } });
        self.admin(http::Method::POST, "/admin/lexicons", &lexicon).await?;
        let client = json!({ "name": "load", "client_id_url": "https://load.example/client.json",
            "client_uri": "https://load.example", "redirect_uris": [] });
        let answer = self.admin(http::Method::POST, "/admin/api-clients", &client).await?;
        answer["client_key"].as_str().context("a client key")?.clone_into(&mut self.client_key);
        Ok(())
    }

    /// Binds a script to a query of its own; its path.
    pub async fn add_script(&self, name: &str, body: &str) -> anyhow::Result<String> {
        let nsid = format!("com.example.load.{name}");
        let lexicon = json!({ "target_collection": COLLECTION, "lexicon_json": {
            "lexicon": 1, "id": nsid, "defs": { "main": { "type": "query" } } } });
        self.admin(http::Method::POST, "/admin/lexicons", &lexicon).await?;
        let script = json!({ "id": format!("xrpc.query:{nsid}"), "body": body });
        self.admin(http::Method::POST, "/admin/scripts", &script).await?;
        Ok(format!("/xrpc/{nsid}"))
    }

    pub fn list_path() -> String {
        format!("/xrpc/{QUERY}?limit=20")
    }

    pub async fn records(&self) -> anyhow::Result<u64> {
        let stats = self.admin(http::Method::GET, "/admin/stats", &Value::Null).await?;
        stats["total_records"].as_u64().context("a total")
    }

    /// Waits until the index holds so many records; the highest resident memory seen on the way.
    pub async fn wait_for_records(&self, count: u64) -> anyhow::Result<u64> {
        let deadline = Instant::now() + PATIENCE;
        let mut peak = 0;
        while self.records().await? < count {
            anyhow::ensure!(
                Instant::now() < deadline,
                "only {} of {count} records arrived",
                self.records().await?
            );
            peak = peak.max(crate::cpu::resident(self.pid()));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(peak)
    }
}

fn command(environment: &[(&'static str, String)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_belvedere"));
    command.env_clear().envs(environment.iter().map(|(k, v)| (*k, v.as_str()))).stdin(Stdio::null());
    command
}
