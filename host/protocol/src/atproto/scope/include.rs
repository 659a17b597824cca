//! The scope `include:<nsid>`, which grants the permissions of a permission set: a lexicon that lists them.

use std::fmt;

use serde::Deserialize;
use serde_json::Value;

use super::permission::is_audience;
use super::text::{self, ScopeText};
use super::{Names, Repo, Rpc, Scope, Space};
use crate::atproto::Nsid;

/// A reference to a permission set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Include {
    pub set: Nsid,
    /// The audience for those `rpc` permissions of the set that inherit it.
    pub audience: Option<String>,
}

impl Include {
    pub(super) fn read(scope_text: ScopeText<'_>) -> Result<Self, &'static str> {
        scope_text.allow_only(&["nsid", "aud"])?;
        let name = scope_text.value("nsid", true)?.ok_or("the permission set is missing")?;
        let set = Nsid::try_from(name).map_err(|_| "its permission set is not an NSID")?;
        let audience = scope_text.value("aud", false)?;
        if audience.is_some_and(|audience| !is_audience(audience)) {
            return Err("its audience is not a DID with a service fragment");
        }
        Ok(Self { set, audience: audience.map(str::to_owned) })
    }

    /// The scopes that `set` grants through this include. A set can grant only permissions in its own namespace, so
    /// permissions outside it, for all collections or methods, or of other resources are left out.
    pub(super) fn scopes_of(&self, set: &PermissionSet) -> Vec<Scope> {
        set.permissions.iter().filter_map(|permission| self.scope_of(permission)).collect()
    }

    fn scope_of(&self, permission: &Permission) -> Option<Scope> {
        let (scope, names) = match permission.resource.as_str() {
            "repo" => {
                let scope_text = ScopeText::from_lists(
                    "repo",
                    &[("collection", &permission.collection), ("action", &permission.action)],
                );
                let repo = Repo::read(scope_text).ok()?;
                (Scope::Repo(repo.clone()), repo.collections)
            }
            "rpc" => {
                let audience = match (permission.aud.as_deref(), permission.inherit_aud, &self.audience) {
                    (Some("*"), _, _) => "*",
                    (None, true, Some(audience)) => audience,
                    _ => return None,
                };
                let scope_text = ScopeText::from_lists(
                    "rpc",
                    &[("lxm", &permission.lxm), ("aud", &[audience.to_owned()])],
                );
                let rpc = Rpc::read(scope_text).ok()?;
                (Scope::Rpc(rpc.clone()), rpc.methods)
            }
            "space" => {
                let list = |value: &Option<String>| -> Vec<String> { value.iter().cloned().collect() };
                let scope_text = ScopeText::from_lists(
                    "space",
                    &[
                        ("spaceType", &list(&permission.space_type)),
                        ("authority", &list(&permission.authority)),
                        ("skey", &list(&permission.skey)),
                        ("collection", &permission.collection),
                        ("action", &permission.action),
                        ("manage", &permission.manage),
                    ],
                );
                // The type decides which collections its spaces have, so they may be of other namespaces.
                let space = Space::read(scope_text).ok()?;
                let names = Names::List(vec![space.kind.clone()?]);
                (Scope::Space(space), names)
            }
            _ => return None,
        };
        match names {
            Names::List(names) if names.iter().all(|name| self.may_grant(name.as_str())) => Some(scope),
            _ => None,
        }
    }

    /// Whether the set may grant permissions for an NSID: one in the set's group or below it, such as `com.example.*`
    /// for `com.example.authBasic`.
    pub fn may_grant(&self, name: &str) -> bool {
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
    space_type: Option<String>,
    authority: Option<String>,
    skey: Option<String>,
    #[serde(default)]
    manage: Vec<String>,
}

impl PermissionSet {
    /// Reads a lexicon document; `None` when its main definition is not a `permission-set`.
    pub fn of_lexicon(document: &Value) -> Option<Self> {
        let main = document.pointer("/defs/main")?;
        if main["type"] != "permission-set" {
            return None;
        }
        // A permission that can't be read grants nothing; the others still count.
        let permissions = main["permissions"].as_array()?.iter();
        let permissions = permissions.filter_map(|permission| Permission::deserialize(permission).ok());
        Some(Self { permissions: permissions.collect() })
    }

    /// The permissions that are not about spaces.
    #[must_use]
    pub fn without_spaces(mut self) -> Self {
        self.permissions.retain(|permission| permission.resource != "space");
        self
    }
}
