//! Starts the network of `up.mjs`, one node process for all tests of a run, and controls it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::app::Device;
use crate::pds::Account;

/// The addresses that `up.mjs` prints.
#[derive(Deserialize)]
pub struct Network {
    pub plc: String,
    pub pds: String,
    /// A second PDS, which neither the stream nor the relay has.
    #[serde(rename = "otherPds")]
    pub other_pds: String,
    #[serde(rename = "pdsAdminPassword")]
    pub pds_admin_password: String,
    pub jetstream: String,
    pub relay: String,
    pub dns: String,
    pub labeler: Labeler,
    control: String,
    /// The node process. It ends when its standard input is closed, so also when the tests are killed.
    #[serde(skip)]
    process: Option<Child>,
}

/// A labeler that all tests share.
#[derive(Deserialize)]
pub struct Labeler {
    pub did: String,
}

pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The network. The first call starts it.
pub async fn network() -> &'static Network {
    static NETWORK: OnceLock<Network> = OnceLock::new();
    tokio::task::spawn_blocking(|| NETWORK.get_or_init(start)).await.expect("the network starts")
}

fn start() -> Network {
    let installed = Command::new("sh").arg("dev/network.sh").current_dir(repository()).status();
    assert!(installed.is_ok_and(|status| status.success()), "dev/network.sh failed");
    let mut process = Command::new("node")
        .args(["tests/network/up.mjs", "--accounts", "", "--stdin"])
        .current_dir(repository())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // The PDS logs every request; errors are in the responses.
        .stderr(Stdio::null())
        .spawn()
        .expect("node starts");
    let mut line = String::new();
    BufReader::new(process.stdout.take().expect("standard output is piped"))
        .read_line(&mut line)
        .expect("up.mjs prints a line");
    let mut network: Network =
        serde_json::from_str(&line).expect("up.mjs printed no JSON: run it to see its error");
    network.process = Some(process);
    network
}

/// The one HTTP client of these tests.
pub fn http() -> reqwest::Client {
    static PROVIDER: OnceLock<()> = OnceLock::new();
    PROVIDER.get_or_init(|| {
        // Fails only if another test has installed it already.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    #[expect(clippy::disallowed_methods, reason = "tests are clients of the server")]
    reqwest::Client::builder().no_proxy().build().expect("a plain client is built")
}

impl Network {
    /// Creates an account on the PDS, with a unique name.
    pub async fn account(&'static self) -> Account {
        self.account_at(&self.pds).await
    }

    /// Creates an account on a PDS, with a unique name.
    pub async fn account_at(&'static self, pds: &'static str) -> Account {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("user{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let answer = self.control("/account", &json!({ "name": name, "pds": pds })).await;
        Account::new(self, pds, &answer)
    }

    /// The code with which the account's owner confirms a change of its DID document, as the PDS sent it by email.
    pub async fn plc_code(&self, user: &Account) -> String {
        let answer = self.control("/plc-code", &json!({ "did": user.did })).await;
        answer["code"].as_str().expect("a code").to_owned()
    }

    /// Sets a TXT record.
    pub async fn txt(&self, name: &str, text: &str) {
        self.control("/dns", &json!({ "name": name, "txt": text })).await;
    }

    /// Makes the labeler issue a label: `uri`, `val`, and optionally `cid`, `neg` and `exp`.
    pub async fn label(&self, label: Value) {
        self.control("/label", &label).await;
    }

    /// Drops every Jetstream connection.
    pub async fn drop_jetstream(&self) {
        self.control("/jetstream/drop", &json!({})).await;
    }

    /// Starts a Jetstream server for one test. Returns its URL.
    pub async fn start_jetstream(&self) -> String {
        self.control("/jetstream/start", &json!({})).await["url"].as_str().expect("a URL").to_owned()
    }

    /// Makes a server of [`Self::start_jetstream`] forget its events.
    pub async fn forget_events(&self, url: &str) {
        self.control("/jetstream/forget", &json!({ "url": url })).await;
    }

    /// Runs an application's OAuth flow with the PDS, in which the user consents. Returns the tokens.
    pub async fn oauth(&self, user: &Account, options: Value) -> Value {
        let mut body = json!({ "handle": user.handle, "password": user.password, "pds": user.endpoint() });
        body.as_object_mut().expect("an object").extend(options.as_object().expect("an object").clone());
        self.control("/oauth", &body).await
    }

    /// Calls a URL of the PDS with an application's session. Returns the response's status.
    pub async fn as_app(&self, device: &Device, url: &str) -> u64 {
        let body = json!({ "key": device.jwk, "url": url, "accessToken": device.token });
        self.control("/as-app", &body).await["status"].as_u64().expect("a status")
    }

    /// Acts as a user who follows an authorization URL, signs in and consents. Returns the redirect's URL.
    pub async fn consent(&self, user: &Account, url: &str) -> String {
        let body = json!({ "url": url, "username": user.handle, "password": user.password });
        self.control("/consent", &body).await["url"].as_str().expect("a URL").to_owned()
    }

    async fn control(&self, path: &str, body: &Value) -> Value {
        let answer =
            http().post(format!("{}{path}", self.control)).json(body).send().await.expect("up.mjs responds");
        assert!(answer.status().is_success(), "{path}: {}", answer.text().await.unwrap_or_default());
        answer.json().await.expect("up.mjs responds with JSON")
    }
}
