//! Sends the parts of an instance to a server.

use http::Method;

use super::super::super::remote::{Remote, Server};
use super::read::{CREATED_ID, Part, Request};
use belvedere_instance::config::Config;

pub(super) struct Sender(Remote);

impl Sender {
    pub(super) fn new(server: &Server, config: &Config) -> anyhow::Result<Self> {
        Remote::new(server, "the permissions of full_access", config).map(Self)
    }

    /// # Errors
    /// When the server refuses it.
    pub(super) async fn send(&self, part: &Part) -> anyhow::Result<()> {
        let mut id = String::new();
        for Request { method, path, body } in &part.requests {
            let path = path.replace(CREATED_ID, &id);
            let answer = self.0.send(Method::clone(method), &path, Some(body.clone())).await?;
            answer["id"].as_str().unwrap_or_default().clone_into(&mut id);
        }
        Ok(())
    }
}
