//! The scripts of the server to which they are pushed and from which they are pulled.

use http::Method;
use serde::Deserialize;
use serde_json::json;

use super::super::remote::{Remote, Server};
use belvedere_instance::config::Config;

/// A script on the server.
#[derive(Debug, Deserialize)]
pub(super) struct StoredScript {
    pub(super) id: String,
    pub(super) body: String,
}

/// `/admin/scripts` of the server.
pub(super) struct Scripts(Remote);

impl Scripts {
    pub(super) fn of(server: &Server, config: &Config) -> anyhow::Result<Self> {
        Remote::new(server, "scripts:read and scripts:manage", config).map(Self)
    }

    /// All scripts, by id.
    pub(super) async fn list(&self) -> anyhow::Result<Vec<StoredScript>> {
        self.0.get("/admin/scripts").await
    }

    pub(super) async fn create(&self, id: &str, body: &str) -> anyhow::Result<()> {
        self.0.send(Method::POST, "/admin/scripts", Some(json!({ "id": id, "body": body }))).await
    }

    /// Replaces a script's body; its description stays.
    pub(super) async fn update(&self, id: &str, body: &str) -> anyhow::Result<()> {
        self.0.send(Method::PATCH, &path(id), Some(json!({ "body": body }))).await
    }

    pub(super) async fn delete(&self, id: &str) -> anyhow::Result<()> {
        self.0.send(Method::DELETE, &path(id), None).await
    }
}

/// The path of a script. A trigger id needs no percent-encoding; its colon is encoded for the sake of proxies.
fn path(id: &str) -> String {
    format!("/admin/scripts/{}", id.replace(':', "%3A"))
}
