//! Runs the real binary in a separate process with its own port and folder, as an operator does.

use reqwest::{Method, StatusCode};
use serde_json::Value;

use crate::database::Database;
use crate::network::{Network, http};
use crate::process::Process;
use crate::wait::until;

pub struct Server {
    pub url: String,
    /// The server's DID: the audience of service tokens for it.
    pub did: String,
    process: Process,
    _database: Database,
}

impl Server {
    /// Does not start the server yet.
    pub fn new(network: &Network, database: Database) -> Self {
        Self::with(network, database, &[])
    }

    /// Like [`Self::new`], with more environment variables.
    pub fn with(network: &Network, database: Database, more: &[(&'static str, &str)]) -> Self {
        let mut environment: Vec<(&str, &str)> = vec![
            ("DATABASE_URL", &database.url),
            ("JETSTREAM_URL", &network.jetstream),
            ("PLC_URL", &network.plc),
            ("RELAY_URL", &network.relay),
            ("DNS_SERVER", &network.dns),
            ("RUST_LOG", "info"),
        ];
        environment.extend(more);
        let process = Process::new(&environment);
        let url = format!("http://{}", process.address);
        let did = format!("did:web:127.0.0.1%3A{}", process.address.port());
        Self { url, did, process, _database: database }
    }

    /// Starts the process without waiting until it is ready.
    pub fn spawn(&mut self) {
        self.process.spawn();
    }

    /// Starts the process and waits until it accepts requests.
    pub async fn start(&mut self) {
        self.spawn();
        self.ready().await;
    }

    pub async fn ready(&self) {
        until("the server is ready", || async {
            match http().get(format!("{}/readyz", self.url)).send().await {
                Ok(answer) if answer.status().is_success() => Ok(()),
                Ok(answer) => Err(format!("{} {}", answer.status(), answer.text().await.unwrap_or_default())),
                Err(error) => Err(error.to_string()),
            }
        })
        .await;
    }

    /// Sends SIGKILL.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Sends SIGTERM. Panics unless the server ends successfully and in time.
    pub async fn stop(&mut self) {
        self.process.terminate();
        let process = &mut self.process;
        let status = until("the server has stopped", || {
            let ended = process.ended();
            async move { ended.ok_or_else(|| "it still runs".to_owned()) }
        })
        .await;
        assert!(status.success(), "the server ended with {status}");
        self.process.wait();
    }

    /// Runs `belvedere ARGS` while the server runs. Returns its standard output.
    pub fn cli(&self, args: &[&str]) -> String {
        let output = self.process.run(args);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{args:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
        text
    }

    /// Runs `belvedere ARGS`. Returns its exit status and its standard output.
    pub fn try_cli(&self, args: &[&str]) -> (Option<i32>, String) {
        let output = self.process.run(args);
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Creates an admin API key for `did` on the command line.
    pub fn create_key(&self, did: &str) -> String {
        self.process.create_key(&["--did", did])
    }

    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        http().request(method, format!("{}{path}", self.url))
    }
}

/// Sends a request. Returns status and body; a body that is not JSON is returned as a JSON string.
pub async fn send(request: reqwest::RequestBuilder) -> (StatusCode, Value) {
    let answer = request.send().await.expect("the server answers");
    let status = answer.status();
    let body = answer.text().await.expect("the server answers in full");
    (status, serde_json::from_str(&body).unwrap_or(Value::String(body)))
}

/// Sends a request, checks the status, and returns the body.
pub async fn expect(status: u16, request: reqwest::RequestBuilder) -> Value {
    let (found, body) = send(request).await;
    assert_eq!(found.as_u16(), status, "{body}");
    body
}
