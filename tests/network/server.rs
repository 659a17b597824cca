//! The server as an operator runs it: the real binary, its own process, its own port and folder.

use std::fs::File;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use reqwest::{Method, StatusCode};
use serde_json::Value;
use tempfile::TempDir;

use crate::database::Database;
use crate::network::{Network, http};
use crate::wait::until;

/// How much of the log a failing test shows.
const LOG_LINES: usize = 60;

pub struct Server {
    pub url: String,
    /// What service tokens for this server are made out to.
    pub did: String,
    environment: Vec<(&'static str, String)>,
    directory: TempDir,
    process: Option<Child>,
    _database: Database,
}

impl Server {
    /// Not started yet; `start` does.
    pub fn new(network: &Network, database: Database) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory is made");
        // Kept over restarts: it is part of the server's name.
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .expect("a port is free")
            .port();
        let url = format!("http://127.0.0.1:{port}");
        let environment = vec![
            ("PATH", path()),
            ("HOST", "127.0.0.1".to_owned()),
            ("PORT", port.to_string()),
            ("PUBLIC_URL", url.clone()),
            ("DATA_DIR", directory.path().join("data").display().to_string()),
            ("DATABASE_URL", database.url.clone()),
            ("JETSTREAM_URL", network.jetstream.clone()),
            ("PLC_URL", network.plc.clone()),
            ("RELAY_URL", network.relay.clone()),
            ("DNS_SERVER", network.dns.clone()),
            // The buckets have tests of their own; here they would only make tests wait.
            ("DEFAULT_RATE_LIMIT_CAPACITY", "1000000".to_owned()),
            ("RUST_LOG", "info".to_owned()),
        ];
        let did = format!("did:web:127.0.0.1%3A{port}");
        Self { url, did, environment, directory, process: None, _database: database }
    }

    /// Starts the process without waiting for anything.
    pub fn spawn(&mut self) {
        assert!(self.process.is_none(), "the server runs already");
        let log =
            File::options().create(true).append(true).open(self.log_path()).expect("the log can be written");
        let process = self
            .command()
            .arg("serve")
            .stdout(log.try_clone().expect("a file handle is cloned"))
            .stderr(log)
            .spawn()
            .expect("the binary starts");
        self.process = Some(process);
    }

    /// Starts the process and waits until it takes requests.
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

    /// `kill -9`.
    pub fn kill(&mut self) {
        let mut process = self.process.take().expect("the server runs");
        process.kill().expect("our own process can be killed");
        process.wait().expect("a killed process ends");
    }

    /// SIGTERM, as `docker stop` and systemd do it; the server must end well and in time.
    pub async fn stop(&mut self) {
        let mut process = self.process.take().expect("the server runs");
        let signalled = Command::new("kill").arg(process.id().to_string()).status().expect("kill runs");
        assert!(signalled.success());
        let status = until("the server has stopped", || {
            let ended = process.try_wait().expect("our own process can be asked");
            async move { ended.ok_or_else(|| "it still runs".to_owned()) }
        })
        .await;
        assert!(status.success(), "the server ended with {status}");
    }

    /// Runs `belvedere ARGS` beside the server and gives what it prints.
    pub fn cli(&self, args: &[&str]) -> String {
        let output = self.command().args(args).output().expect("the binary runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{args:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
        text
    }

    /// An admin API key for `did`, made on the command line.
    pub fn create_key(&self, did: &str) -> String {
        let printed = self.cli(&["admin", "create-key", "--did", did]);
        let key = printed
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .find(|word| word.starts_with("bva_"));
        key.unwrap_or_else(|| panic!("no key in {printed:?}")).to_owned()
    }

    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        http().request(method, format!("{}{path}", self.url))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_belvedere"));
        command
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            // Not the repository: its .env is not ours.
            .current_dir(self.directory.path())
            .stdin(Stdio::null());
        command
    }

    fn log_path(&self) -> std::path::PathBuf {
        self.directory.path().join("log")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.log_path()).unwrap_or_default();
            let lines: Vec<_> = log.lines().collect();
            eprintln!(
                "the end of the server's log:\n{}",
                lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
            );
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "tests have no configuration")]
fn path() -> String {
    std::env::var("PATH").unwrap_or_default()
}

/// Sends and gives status and body; a body that is not JSON comes as a JSON string.
pub async fn send(request: reqwest::RequestBuilder) -> (StatusCode, Value) {
    let answer = request.send().await.expect("the server answers");
    let status = answer.status();
    let body = answer.text().await.expect("the server answers in full");
    (status, serde_json::from_str(&body).unwrap_or(Value::String(body)))
}

/// Sends and gives the body of the expected status.
pub async fn expect(status: u16, request: reqwest::RequestBuilder) -> Value {
    let (found, body) = send(request).await;
    assert_eq!(found.as_u16(), status, "{body}");
    body
}
