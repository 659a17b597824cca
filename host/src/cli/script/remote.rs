//! Calls the admin API of the server to which scripts are pushed and from which they are pulled.

use anyhow::{Context as _, bail};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use super::Server;
use crate::config::Config;
use crate::net::{Client, FetchedResponse, Limits, OutboundPolicy};

/// Bytes of the list of all scripts with their bodies: a hundred scripts of the largest size.
const LIST_BYTES: usize = 64 << 20;

/// A script on the server.
#[derive(Debug, Deserialize)]
pub(super) struct StoredScript {
    pub(super) id: String,
    pub(super) body: String,
}

/// A client of the server's admin API.
pub(super) struct Remote {
    client: Client,
    base: String,
    headers: HeaderMap,
}

impl Remote {
    pub(super) fn new(server: &Server, config: &Config) -> anyhow::Result<Self> {
        let url = match &server.url {
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
        Ok(Self { client, base: base.as_str().trim_end_matches('/').to_owned(), headers })
    }

    /// All scripts, by id.
    pub(super) async fn list(&self) -> anyhow::Result<Vec<StoredScript>> {
        let answer = self.send(Method::GET, "/admin/scripts", None).await?;
        serde_json::from_slice(&answer.body)
            .context("the server's list of scripts can't be parsed; is it a Belvedere server?")
    }

    pub(super) async fn create(&self, id: &str, body: &str) -> anyhow::Result<()> {
        self.send(Method::POST, "/admin/scripts", Some(json!({ "id": id, "body": body }))).await.map(drop)
    }

    /// Replaces a script's body; its description stays.
    pub(super) async fn update(&self, id: &str, body: &str) -> anyhow::Result<()> {
        self.send(Method::PATCH, &path(id), Some(json!({ "body": body }))).await.map(drop)
    }

    pub(super) async fn delete(&self, id: &str) -> anyhow::Result<()> {
        self.send(Method::DELETE, &path(id), None).await.map(drop)
    }

    async fn send(&self, method: Method, path: &str, body: Option<Value>) -> anyhow::Result<FetchedResponse> {
        let url = format!("{}{path}", self.base);
        let body = body.map(|body| body.to_string().into());
        let limits = Limits { max_bytes: LIST_BYTES, ..Limits::DOCUMENT };
        let answer = self.client.request(method, &url, self.headers.clone(), body, limits).await;
        let answer = answer.with_context(|| format!("{} does not answer", self.base))?;
        if !answer.status.is_success() {
            bail!("{}", refusal(answer.status, &answer.body));
        }
        Ok(answer)
    }
}

/// The path of a script. A trigger id needs no percent-encoding; its colon is encoded for the sake of proxies.
fn path(id: &str) -> String {
    format!("/admin/scripts/{}", id.replace(':', "%3A"))
}

/// The error text for a response: advice for 401 and 403, otherwise the server's own error text if it has one.
fn refusal(status: StatusCode, body: &[u8]) -> String {
    let body = serde_json::from_slice::<Value>(body).ok();
    let error = body.as_ref().and_then(|body| body["error"].as_str());
    match (status, error) {
        (StatusCode::UNAUTHORIZED, _) => {
            "the server does not know this key (--key, BELVEDERE_ADMIN_KEY)".to_owned()
        }
        (StatusCode::FORBIDDEN, _) => {
            "the key may not do that: it needs scripts:read and scripts:manage".to_owned()
        }
        (_, Some(error)) => error.to_owned(),
        (status, None) => format!("the server answered {status}"),
    }
}
