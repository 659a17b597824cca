//! Sends the parts of an instance that a server lacks.

use super::super::super::remote::Remote;
use super::part::{Kind, Part, Request};
use super::there::{Presence, There};

pub(super) struct Sender {
    remote: Remote,
    there: There,
    /// Whether parts that differ are replaced.
    replaces: bool,
    /// Whether nothing is sent.
    dry_run: bool,
}

/// The end of a part that the server has not refused.
#[derive(Debug, PartialEq)]
pub(super) enum Outcome {
    Copied,
    Replaced,
    /// It was there already, and equal.
    Present,
    /// It was there already with these differences, and stays.
    Kept(Vec<String>),
}

impl Sender {
    /// # Errors
    /// When the server does not show its parts.
    pub(super) async fn new(
        remote: Remote,
        parts: &[Part],
        replaces: bool,
        dry_run: bool,
    ) -> anyhow::Result<Self> {
        let there = There::load(&remote, parts).await?;
        Ok(Self { remote, there, replaces, dry_run })
    }

    /// # Errors
    /// When the server refuses it.
    pub(super) async fn send(&mut self, part: &Part) -> anyhow::Result<Outcome> {
        let lines = match self.there.compare(part) {
            Presence::Equal => return Ok(Outcome::Present),
            Presence::Absent => {
                self.exchange(part, &part.requests, String::new()).await?;
                return Ok(Outcome::Copied);
            }
            Presence::Different(lines) => lines,
        };
        if !self.replaces {
            return Ok(Outcome::Kept(lines));
        }
        let there = self.there.get(part).cloned().unwrap_or_default();
        let requests = part.replacing(&there).map_err(anyhow::Error::msg)?;
        // The ids of services are numbers.
        let id = there["id"].as_str().map_or_else(|| there["id"].to_string(), str::to_owned);
        self.exchange(part, &requests, id).await?;
        Ok(Outcome::Replaced)
    }

    /// Sends requests. `id`: that of the part.
    async fn exchange(&mut self, part: &Part, requests: &[Request], mut id: String) -> anyhow::Result<()> {
        if self.dry_run {
            return Ok(());
        }
        let owner = match &part.owner {
            None => "",
            Some(did) => self
                .there
                .id(Kind::User, did)
                .ok_or_else(|| anyhow::anyhow!("its user {did} is not a user of the server"))?,
        };
        let mut first = None;
        for request in requests {
            let path = request.path(&id, owner);
            let answer = self.remote.send(request.method.clone(), &path, request.body.clone()).await?;
            match &answer["id"] {
                serde_json::Value::String(text) => text.clone_into(&mut id),
                serde_json::Value::Number(number) => id = number.to_string(),
                _ => {}
            }
            first = first.or(Some(answer));
        }
        if let (Kind::User, Some(created)) = (part.kind, first) {
            self.there.add(Kind::User, part.key.clone(), created);
        }
        Ok(())
    }
}
