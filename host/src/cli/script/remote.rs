//! The admin API of the server that scripts are pushed to and pulled from.

use anyhow::{Context as _, bail};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use super::Server;
use crate::config::Config;
use crate::net::{Client, Fetched, Limits, OutboundPolicy};

/// A list of all scripts with their bodies: a hundred scripts of the largest size.
const LIST_BYTES: usize = 64 << 20;

/// A script as the server has it.
#[derive(Debug, Deserialize)]
pub(super) struct Stored {
    pub(super) id: String,
    pub(super) body: String,
}

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
            .context("the key holds characters that no key has")?;
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
    pub(super) async fn list(&self) -> anyhow::Result<Vec<Stored>> {
        let answer = self.send(Method::GET, "/admin/scripts", None).await?;
        serde_json::from_slice(&answer.body)
            .context("the server's list of scripts can't be read; is it a Belvedere?")
    }

    pub(super) async fn create(&self, id: &str, body: &str) -> anyhow::Result<()> {
        self.send(Method::POST, "/admin/scripts", Some(json!({ "id": id, "body": body }))).await.map(drop)
    }

    /// A new body; the description stays.
    pub(super) async fn update(&self, id: &str, body: &str) -> anyhow::Result<()> {
        self.send(Method::PATCH, &path(id), Some(json!({ "body": body }))).await.map(drop)
    }

    pub(super) async fn delete(&self, id: &str) -> anyhow::Result<()> {
        self.send(Method::DELETE, &path(id), None).await.map(drop)
    }

    async fn send(&self, method: Method, path: &str, body: Option<Value>) -> anyhow::Result<Fetched> {
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

/// A trigger id in a path: its characters need no encoding but the colon, for the sake of those in between.
fn path(id: &str) -> String {
    format!("/admin/scripts/{}", id.replace(':', "%3A"))
}

/// The server's own words where it has some.
fn refusal(status: StatusCode, body: &[u8]) -> String {
    let told = serde_json::from_slice::<Value>(body).ok();
    let told = told.as_ref().and_then(|body| body["error"].as_str());
    match (status, told) {
        (StatusCode::UNAUTHORIZED, _) => {
            "the server does not know this key (--key, BELVEDERE_ADMIN_KEY)".to_owned()
        }
        (StatusCode::FORBIDDEN, _) => {
            "the key may not do that: it needs scripts:read and scripts:manage".to_owned()
        }
        (_, Some(told)) => told.to_owned(),
        (status, None) => format!("the server answered {status}"),
    }
}
