//! Calls the admin API of a server, with an admin API key.

use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use url::Url;

use belvedere_instance::config::Config;
use belvedere_web::net::{ArrivingResponse, Client, Limits, OutboundPolicy};

/// Bytes of the largest response, the list of all scripts with their bodies: a hundred scripts of the largest size.
const MAX_RESPONSE_BYTES: usize = 64 << 20;

/// Time for a request and its response. The preview of many lexicons validates records, which takes up to a second for each
/// of a hundred collections.
const MAX_TIME: Duration = Duration::from_mins(3);

/// Bytes and time of a stream: then the command opens another one.
const MAX_STREAM_BYTES: usize = 256 << 20;
const MAX_STREAM_TIME: Duration = Duration::from_hours(1);

/// The server to call.
#[derive(Args, Debug)]
pub(super) struct Address {
    /// The server's address [default: the one that this configuration sets]
    #[arg(id = "server", long = "url", env = "BELVEDERE_URL", value_name = "URL")]
    url: Option<String>,
}

/// The server to call, and the key for it.
#[derive(Args, Debug)]
pub(super) struct Server {
    #[command(flatten)]
    address: Address,
    /// An admin API key (`belvedere admin create-key` prints one)
    #[arg(
        id = "server_key",
        long = "key",
        env = "BELVEDERE_ADMIN_KEY",
        hide_env_values = true,
        value_name = "KEY"
    )]
    key: String,
}

impl Server {
    /// The server at an address.
    pub(super) fn at(url: &str, key: String) -> Self {
        Self { address: Address { url: Some(url.to_owned()) }, key }
    }
}

/// A server for commands that also do without one.
#[derive(Args, Debug)]
pub(super) struct OptionalServer {
    #[command(flatten)]
    address: Address,
    /// An admin API key for it; without one no server is called
    #[arg(
        id = "server_key",
        long = "key",
        env = "BELVEDERE_ADMIN_KEY",
        hide_env_values = true,
        value_name = "KEY"
    )]
    key: Option<String>,
}

impl OptionalServer {
    /// `None` without a key.
    pub(super) fn given(self) -> Option<Server> {
        let Self { address, key } = self;
        key.map(|key| Server { address, key })
    }
}

/// A client of a server's admin API.
pub(super) struct Remote {
    client: Client,
    base: String,
    headers: HeaderMap,
    /// The permissions that the command's key needs, for the advice after a 403.
    needed: &'static str,
}

impl Remote {
    pub(super) fn new(server: &Server, needed: &'static str, config: &Config) -> anyhow::Result<Self> {
        let url = match &server.address.url {
            Some(url) => url.clone(),
            None => config.server.identity(config.server.port).origin,
        };
        let base = Url::parse(&url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let base = base.with_context(|| format!("{url} is not the address of a server (https://…)"))?;
        let mut key = HeaderValue::from_str(&format!("Bearer {}", server.key))
            .context("the key contains invalid characters")?;
        key.set_sensitive(true);
        let client = Client::new(OutboundPolicy {
            allow_loopback: true,
            trusted: vec![base.clone()],
            dns_server: config.outbound.dns_server,
            ..OutboundPolicy::default()
        })?
        .trusted();
        let json = HeaderValue::from_static("application/json");
        let headers = HeaderMap::from_iter([(AUTHORIZATION, key), (CONTENT_TYPE, json)]);
        Ok(Self { client, base: base.as_str().trim_end_matches('/').to_owned(), headers, needed })
    }

    /// GETs a path and parses the response.
    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        parse(&self.exchange(Method::GET, path, None).await?)
    }

    /// Sends a request and parses the response.
    pub(super) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> anyhow::Result<T> {
        parse(&self.exchange(Method::POST, path, Some(serde_json::to_string(body)?)).await?)
    }

    /// Sends a request, and fails unless the server carries it out. Returns the response; null if it has no body.
    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> anyhow::Result<Value> {
        let answer = self.exchange(method, path, body.map(|body| body.to_string())).await?;
        if answer.is_empty() { Ok(Value::Null) } else { parse(&answer) }
    }

    /// Opens a stream of server-sent events, which the command reads until it ends.
    pub(super) async fn open(&self, path: &str) -> anyhow::Result<ArrivingResponse> {
        let url = format!("{}{path}", self.base);
        let limits = Limits { max_bytes: MAX_STREAM_BYTES, total: MAX_STREAM_TIME };
        let opened = self.client.open(Method::GET, &url, self.headers.clone(), None, limits).await;
        let stream = opened.with_context(|| format!("{} does not answer", self.base))?;
        if !stream.status.is_success() {
            let status = stream.status;
            let body = stream.complete().await.map(|answer| answer.body).unwrap_or_default();
            bail!("{}", refusal(status, &body, self.needed));
        }
        Ok(stream)
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
    ) -> anyhow::Result<bytes::Bytes> {
        let url = format!("{}{path}", self.base);
        let limits = Limits { max_bytes: MAX_RESPONSE_BYTES, total: MAX_TIME };
        let body = body.map(Into::into);
        let answer = self.client.request(method, &url, self.headers.clone(), body, limits).await;
        let answer = answer.with_context(|| format!("{} does not answer", self.base))?;
        if !answer.status.is_success() {
            bail!("{}", refusal(answer.status, &answer.body, self.needed));
        }
        Ok(answer.body)
    }
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> anyhow::Result<T> {
    serde_json::from_slice(body).context("the response can't be parsed; is it a Belvedere server?")
}

/// The error text for a response: advice for 401 and 403, otherwise the server's own error text if it has one.
fn refusal(status: StatusCode, body: &[u8], needed: &str) -> String {
    let body = serde_json::from_slice::<Value>(body).ok();
    let error = body.as_ref().and_then(|body| body["error"].as_str());
    match (status, error) {
        (StatusCode::UNAUTHORIZED, _) => {
            "the server does not know this key (--key, BELVEDERE_ADMIN_KEY)".to_owned()
        }
        (StatusCode::FORBIDDEN, _) => format!("the key may not do that: it needs {needed}"),
        (_, Some(error)) => error.to_owned(),
        (status, None) => format!("the server answered {status}"),
    }
}
