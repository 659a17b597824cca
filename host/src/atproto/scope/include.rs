//! `include:<nsid>`: the permissions that a lexicon lists.

use std::fmt;

use serde::Deserialize;
use serde_json::Value;

use super::permission::is_audience;
use super::text::{self, Parts};
use super::{Names, Repo, Rpc, Scope};
use crate::atproto::Nsid;

/// A permission set by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Include {
    pub set: Nsid,
    /// The audience of the set's `rpc` permissions that inherit one.
    pub audience: Option<String>,
}

impl Include {
    pub(super) fn read(parts: Parts<'_>) -> Result<Self, &'static str> {
        parts.only(&["nsid", "aud"])?;
        let name = parts.value("nsid", true)?.ok_or("it names no permission set")?;
        let set = Nsid::try_from(name).map_err(|_| "its permission set is not an NSID")?;
        let audience = parts.value("aud", false)?;
        if audience.is_some_and(|audience| !is_audience(audience)) {
            return Err("its audience is not a DID with the fragment of a service");
        }
        Ok(Self { set, audience: audience.map(str::to_owned) })
    }

    /// What a set allows when it is included so. A set speaks for its own namespace alone: permissions for anything else,
    /// for all collections or methods, and of other resources are left out.
    pub(super) fn scopes_of(&self, set: &PermissionSet) -> Vec<Scope> {
        set.permissions.iter().filter_map(|permission| self.scope_of(permission)).collect()
    }

    fn scope_of(&self, permission: &Permission) -> Option<Scope> {
        let (scope, names) = match permission.resource.as_str() {
            "repo" => {
                let parts = Parts::listed(
                    "repo",
                    &[("collection", &permission.collection), ("action", &permission.action)],
                );
                let repo = Repo::read(parts).ok()?;
                (Scope::Repo(repo.clone()), repo.collections)
            }
            "rpc" => {
                let audience = match (permission.aud.as_deref(), permission.inherit_aud, &self.audience) {
                    (Some("*"), _, _) => "*",
                    (None, true, Some(audience)) => audience,
                    _ => return None,
                };
                let parts =
                    Parts::listed("rpc", &[("lxm", &permission.lxm), ("aud", &[audience.to_owned()])]);
                let rpc = Rpc::read(parts).ok()?;
                (Scope::Rpc(rpc.clone()), rpc.methods)
            }
            _ => return None,
        };
        match names {
            Names::These(names) if names.iter().all(|name| self.speaks_for(name.as_str())) => Some(scope),
            _ => None,
        }
    }

    /// Whether the set may say anything about an NSID: one in its group or below it, `com.example.*` for
    /// `com.example.authBasic`.
    pub fn speaks_for(&self, name: &str) -> bool {
        let group = self.set.as_str().rsplit_once('.').map_or("", |(group, _)| group);
        name.strip_prefix(group).is_some_and(|rest| !group.is_empty() && rest.starts_with('.'))
    }
}

impl fmt::Display for Include {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let audience: Vec<&str> = self.audience.as_deref().into_iter().collect();
        text::write(f, "include", ("nsid", &[self.set.as_str()]), &[("aud", &audience)])
    }
}

/// The permissions of a lexicon whose main definition is a `permission-set`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct PermissionSet {
    permissions: Vec<Permission>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Permission {
    resource: String,
    #[serde(default)]
    collection: Vec<String>,
    #[serde(default)]
    action: Vec<String>,
    #[serde(default)]
    lxm: Vec<String>,
    aud: Option<String>,
    #[serde(default)]
    inherit_aud: bool,
}

impl PermissionSet {
    /// Of a lexicon document; `None` when it is none of a permission set.
    pub fn of_lexicon(document: &Value) -> Option<Self> {
        let main = document.pointer("/defs/main")?;
        if main["type"] != "permission-set" {
            return None;
        }
        // One that is not understood allows nothing, and the others stand.
        let permissions = main["permissions"].as_array()?.iter();
        let permissions = permissions.filter_map(|permission| Permission::deserialize(permission).ok());
        Some(Self { permissions: permissions.collect() })
    }
}
