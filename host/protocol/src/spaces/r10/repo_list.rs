//! Repos in answers of `com.atproto.space.listRepos` (spaces-delta.md §1).

use serde::Deserialize;
use serde_json::{Value, json};

use super::json_bytes::{bytes_json, read_digest};
use crate::atproto::{Did, Tid};

/// The state of a repo, and the space rev of its last tracked write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepoEntry {
    pub did: Did,
    pub rev: Tid,
    pub hash: [u8; 32],
    pub space_rev: Tid,
    /// The DID of the host that has the repo, if it is not the PDS of the account: a field of this server.
    pub host: Option<Did>,
}

#[derive(Deserialize)]
struct Page {
    repos: Vec<Value>,
    #[serde(default)]
    cursor: Option<String>,
}

impl RepoEntry {
    /// The form in responses, with the rev by its two names.
    pub fn to_json(&self) -> Value {
        let rev = self.rev.to_string();
        let mut entry = json!({
            "did": self.did.as_str(), "repoRev": rev, "rev": rev, "hash": bytes_json(&self.hash),
            "spaceRev": self.space_rev.to_string(),
        });
        if let Some(host) = &self.host {
            entry["host"] = host.as_str().into();
        }
        entry
    }

    /// Reads a page that another host sent, with its cursor. `None` when it is malformed.
    pub fn read_page(body: &[u8]) -> Option<(Vec<Self>, Option<String>)> {
        let page: Page = serde_json::from_slice(body).ok()?;
        Some((page.repos.iter().map(Self::read).collect::<Option<_>>()?, page.cursor))
    }

    fn read(entry: &Value) -> Option<Self> {
        let text = |name: &str| entry[name].as_str();
        let host = match &entry["host"] {
            Value::Null => None,
            host => Some(Did::try_from(host.as_str()?).ok()?),
        };
        Some(Self {
            did: Did::try_from(text("did")?).ok()?,
            // `rev` until R10.
            rev: Tid::try_from(text("repoRev").or_else(|| text("rev"))?).ok()?,
            hash: read_digest(&entry["hash"])?,
            space_rev: Tid::try_from(text("spaceRev")?).ok()?,
            host,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_round_trips() {
        let rev = Tid::try_from("3lzzzzzzzzz22").unwrap();
        let did = Did::try_from("did:plc:alicealicealicealicealic").unwrap();
        let entry = RepoEntry { did: did.clone(), rev, hash: [7; 32], space_rev: rev, host: None };
        let entries = [entry.clone(), RepoEntry { host: Some(did), ..entry }];
        let page = |repos: Vec<Value>| json!({ "repos": repos, "cursor": "x" }).to_string();
        let read = RepoEntry::read_page(page(entries.iter().map(RepoEntry::to_json).collect()).as_bytes());
        assert_eq!(read, Some((entries.to_vec(), Some("x".to_owned()))));
        for field in ["did", "hash", "spaceRev", "host"] {
            let mut wrong = entries[0].to_json();
            wrong[field] = json!(1);
            assert_eq!(RepoEntry::read_page(page(vec![wrong]).as_bytes()), None, "{field}");
        }
        let mut old = entries[0].to_json();
        old.as_object_mut().unwrap().remove("repoRev");
        assert!(RepoEntry::read_page(page(vec![old]).as_bytes()).is_some());
        assert_eq!(RepoEntry::read_page(b"{}"), None);
    }
}
