//! The scripts of the server to which they are pushed and from which they are pulled.

use anyhow::Context as _;
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

/// A state that a script has had.
#[derive(Debug, Deserialize)]
pub(super) struct Revision {
    pub(super) revision: u32,
    pub(super) kind: String,
}

impl Revision {
    /// Whether it has a body; the other kind is a deletion.
    pub(super) fn is_saved(&self) -> bool {
        self.kind == "saved"
    }
}

#[derive(Deserialize)]
struct Revisions {
    revisions: Vec<Revision>,
}

#[derive(Deserialize)]
struct FullRevision {
    description: Option<String>,
    body: Option<String>,
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

    /// The last revisions of a script, newest first.
    pub(super) async fn revisions(&self, id: &str) -> anyhow::Result<Vec<Revision>> {
        let Revisions { revisions } = self.0.get(&format!("{}/revisions", path(id))).await?;
        Ok(revisions)
    }

    /// Stores the body of a revision again, unless another one than `newest` is the newest by now.
    pub(super) async fn restore(&self, id: &str, revision: u32, newest: &Revision) -> anyhow::Result<()> {
        let full: FullRevision = self.0.get(&format!("{}/revisions/{revision}", path(id))).await?;
        let body = full.body.with_context(|| format!("revision {revision} of {id} is a deletion"))?;
        let replaced = if newest.is_saved() { newest.revision } else { 0 };
        let script = json!({ "id": id, "body": body, "description": full.description, "revision": replaced });
        self.0.send(Method::POST, "/admin/scripts", Some(script)).await.map(drop)
    }
}

/// The path of a script. A trigger id needs no percent-encoding; its colon is encoded for the sake of proxies.
pub(super) fn path(id: &str) -> String {
    format!("/admin/scripts/{}", id.replace(':', "%3A"))
}
