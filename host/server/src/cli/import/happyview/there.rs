//! Reads the parts that the server has, and compares parts of the instance with them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::part::{Kind, Part};
use super::parts::linked_repo_key;
use crate::cli::diff::compare::{first_line, places};
use crate::cli::remote::Remote;
use belvedere_instance::lexicons::forwarding;

/// The lists of parts by kind, with the field that identifies one.
const LISTS: [(Kind, &str, &str); 9] = [
    (Kind::Variable, "/admin/script-variables", "key"),
    (Kind::Domain, "/admin/domains", "url"),
    (Kind::Setting, "/admin/settings", "key"),
    (Kind::User, "/admin/users", "did"),
    (Kind::Lexicon, "/admin/lexicons?documents=true", "id"),
    (Kind::Script, "/admin/scripts", "id"),
    (Kind::Labeler, "/admin/labelers", "did"),
    (Kind::Service, "/admin/service-entries", "fragment_id"),
    (Kind::Client, "/admin/api-clients", "client_key"),
];

/// The parts of the server, as its lists have them.
pub(super) struct There(BTreeMap<(Kind, String), Value>);

/// The result of a comparison.
#[derive(Debug, PartialEq)]
pub(super) enum Presence {
    Absent,
    Equal,
    /// Lines for people.
    Different(Vec<String>),
}

impl There {
    /// # Errors
    /// When the server does not show its parts.
    pub(super) async fn load(remote: &Remote, parts: &[Part]) -> anyhow::Result<Self> {
        let mut there = Self(BTreeMap::new());
        for (kind, path, field) in LISTS {
            for item in remote.get::<Vec<Value>>(path).await? {
                let key = item[field].as_str().unwrap_or_default().to_owned();
                there.add(kind, key, item);
            }
        }
        let rules = remote.get::<Value>("/admin/settings/xrpc-proxy").await?;
        there.add(Kind::Setting, forwarding::SETTING.to_owned(), rules);
        let repos = remote.get::<Value>("/admin/linked-repos").await?;
        for repo in repos["linked_repos"].as_array().into_iter().flatten() {
            there.add(Kind::LinkedRepo, linked_repo_key(repo), repo.clone());
        }
        for part in parts {
            there.load_of(remote, part).await?;
        }
        Ok(there)
    }

    /// Loads what the lists lack of a part.
    async fn load_of(&mut self, remote: &Remote, part: &Part) -> anyhow::Result<()> {
        if part.kind == Kind::Service
            && let Some(service) = self.0.get_mut(&(part.kind, part.key.clone()))
        {
            let path = format!("/admin/service-entries/{}/xrpcs", service["id"]);
            service["methods"] = remote.get(&path).await?;
        }
        let owner = part.owner.as_deref().and_then(|did| self.id(Kind::User, did)).map(str::to_owned);
        if part.kind == Kind::Key
            && let Some(owner) = owner
        {
            for key in remote.get::<Vec<Value>>(&format!("/admin/users/{owner}/api-keys")).await? {
                self.add(Kind::Key, key["key_prefix"].as_str().unwrap_or_default().to_owned(), key);
            }
        }
        Ok(())
    }

    pub(super) fn add(&mut self, kind: Kind, key: String, mut item: Value) {
        if let Some(permissions) = item.get_mut("permissions").and_then(Value::as_array_mut) {
            permissions.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
        }
        self.0.insert((kind, key), item);
    }

    pub(super) fn get(&self, part: &Part) -> Option<&Value> {
        self.0.get(&(part.kind, part.key.clone()))
    }

    pub(super) fn id(&self, kind: Kind, key: &str) -> Option<&str> {
        self.0.get(&(kind, key.to_owned()))?["id"].as_str()
    }

    pub(super) fn compare(&self, part: &Part) -> Presence {
        let Some(there) = self.get(part) else { return Presence::Absent };
        // The super user has every permission, whichever are listed.
        if there["is_super"] == true {
            return Presence::Equal;
        }
        let fields = part.wanted.as_object().into_iter().flat_map(Map::keys);
        let there: Map<String, Value> =
            fields.map(|field| (field.clone(), there.get(field).cloned().unwrap_or_default())).collect();
        let there = Value::Object(there);
        if there == part.wanted {
            return Presence::Equal;
        }
        // These rules apply while none are stored.
        if part.key == forwarding::SETTING && there["mode"] == "open" {
            return Presence::Absent;
        }
        Presence::Different(lines(there, part.wanted.clone()))
    }
}

/// The differences of two parts, as lines. Bodies of scripts are too long for one.
fn lines(mut there: Value, mut wanted: Value) -> Vec<String> {
    let mut lines = Vec::new();
    let (before, after) = (there["body"].take(), wanted["body"].take());
    if let (Some(before), Some(after)) = (before.as_str(), after.as_str())
        && before != after
    {
        lines.push(first_line(before, after));
    }
    lines.extend(places(&there, &wanted));
    lines
}
