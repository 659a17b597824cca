//! Computes the intersection of two sets of scopes.

use super::need::CHAT;
use super::permission::{
    Account, AccountAction, AccountAttribute, Blob, Identity, IdentityAttribute, Names, Repo, Rpc,
};
use super::{Include, PermissionSet, Scope, Scopes};

impl Scopes {
    /// The scopes that both this set and `others` allow. A scope that `others` covers stays as it is; any other is
    /// reduced to what both allow. Permission sets are expanded with `find` where their names alone do not decide.
    #[must_use]
    pub fn intersection(&self, others: &Self, find: impl Fn(&Include) -> Option<PermissionSet>) -> Self {
        let wide = others.expanded(&find);
        let mut both = Self::default();
        for scope in self.iter() {
            let alone: Self = std::iter::once(scope.clone()).collect();
            let parts = alone.expanded(&find);
            if others.contains(scope) || wide.covers(&parts) {
                both.add(scope.clone());
                continue;
            }
            for part in parts.iter() {
                for other in wide.iter() {
                    if let Some(common) = intersect(part, other) {
                        both.add(common);
                    }
                }
            }
        }
        both
    }
}

/// The intersection of two scopes. `None` when that is nothing, or when no scope can express it: all methods of a
/// service except `chat.bsky.*`.
fn intersect(a: &Scope, b: &Scope) -> Option<Scope> {
    match (a, b) {
        (Scope::TransitionGeneric, other @ (Scope::Repo(_) | Scope::Blob(_)))
        | (other @ (Scope::Repo(_) | Scope::Blob(_)), Scope::TransitionGeneric) => Some(other.clone()),
        (Scope::TransitionGeneric, Scope::Rpc(rpc)) | (Scope::Rpc(rpc), Scope::TransitionGeneric) => {
            with_methods(rpc, |method| !method.starts_with(CHAT))
        }
        (Scope::TransitionChat, Scope::Rpc(rpc)) | (Scope::Rpc(rpc), Scope::TransitionChat) => {
            with_methods(rpc, |method| method.starts_with(CHAT))
        }
        (Scope::TransitionEmail, Scope::Account(account))
        | (Scope::Account(account), Scope::TransitionEmail) => {
            let actions = vec![AccountAction::Read];
            (account.attribute == AccountAttribute::Email)
                .then_some(Scope::Account(Account { attribute: AccountAttribute::Email, actions }))
        }
        (Scope::Repo(a), Scope::Repo(b)) => {
            let collections = a.collections.intersect(&b.collections)?;
            let actions: Vec<_> =
                a.actions.iter().filter(|action| b.actions.contains(action)).copied().collect();
            (!actions.is_empty()).then_some(Scope::Repo(Repo { collections, actions }))
        }
        (Scope::Rpc(a), Scope::Rpc(b)) => {
            let audience = match (&a.audience, &b.audience) {
                (None, other) | (other, None) => other.clone(),
                (Some(one), Some(other)) => Some((one == other).then(|| one.clone())?),
            };
            Some(Scope::Rpc(Rpc { methods: a.methods.intersect(&b.methods)?, audience }))
        }
        (Scope::Blob(a), Scope::Blob(b)) => {
            let of_a = a.types.iter().filter(|kind| b.has(kind));
            let mut types: Vec<String> =
                of_a.chain(b.types.iter().filter(|kind| a.has(kind))).cloned().collect();
            types.sort_unstable();
            types.dedup();
            (!types.is_empty()).then_some(Scope::Blob(Blob { types }))
        }
        (Scope::Account(a), Scope::Account(b)) if a.attribute == b.attribute => {
            // Managing includes reading, so any two scopes have reading in common.
            let manage = AccountAction::Manage;
            let both = a.actions.contains(&manage) && b.actions.contains(&manage);
            let actions = vec![if both { manage } else { AccountAction::Read }];
            Some(Scope::Account(Account { attribute: a.attribute, actions }))
        }
        (Scope::Identity(a), Scope::Identity(b)) => {
            let attribute = match (a.attribute, b.attribute) {
                (IdentityAttribute::Any, other) | (other, IdentityAttribute::Any) => other,
                (one, other) => (one == other).then_some(one)?,
            };
            Some(Scope::Identity(Identity { attribute }))
        }
        (Scope::Space(a), Scope::Space(b)) => a.intersect(b).map(Scope::Space),
        (a, b) => (a == b).then(|| a.clone()),
    }
}

/// An `rpc` scope reduced to the methods that pass. `None` when none does, or when the scope does not list its methods.
fn with_methods(rpc: &Rpc, pass: impl Fn(&str) -> bool) -> Option<Scope> {
    let Names::List(names) = &rpc.methods else { return None };
    let names: Vec<_> = names.iter().filter(|name| pass(name.as_str())).cloned().collect();
    let audience = rpc.audience.clone();
    (!names.is_empty()).then_some(Scope::Rpc(Rpc { methods: Names::List(names), audience }))
}

impl Names {
    /// The names in both lists; `None` when there are none.
    pub(super) fn intersect(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::Any, names) | (names, Self::Any) => Some(names.clone()),
            (Self::List(a), Self::List(b)) => {
                let both: Vec<_> = a.iter().filter(|name| b.contains(name)).cloned().collect();
                (!both.is_empty()).then_some(Self::List(both))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::need::Need;
    use super::super::{IdentityAttribute, RepoAction};
    use super::*;

    fn scopes(text: &str) -> Scopes {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn scopes_stay_as_written_or_are_reduced_to_the_common_part() {
        for (own, others, both) in [
            ("atproto repo:com.example.note", "atproto transition:generic", "atproto repo:com.example.note"),
            ("atproto transition:generic", "atproto repo:com.example.note", "atproto repo:com.example.note"),
            ("atproto transition:generic", "atproto", "atproto"),
            ("repo:*", "repo:com.example.note?action=create", "repo:com.example.note?action=create"),
            ("repo:*?action=delete", "repo:com.example.note?action=create", ""),
            (
                "repo?collection=a.b.c&collection=a.b.d",
                "repo:a.b.c repo:a.b.d",
                "repo?collection=a.b.c&collection=a.b.d",
            ),
            ("repo?collection=a.b.c&collection=a.b.d", "repo:a.b.d repo:a.b.e", "repo:a.b.d"),
            ("rpc:a.b.c?aud=*", "rpc:*?aud=did:web:x.example%23y", "rpc:a.b.c?aud=did:web:x.example%23y"),
            ("rpc?lxm=chat.bsky.x&lxm=a.b.c&aud=*", "transition:generic", "rpc:a.b.c?aud=*"),
            ("rpc?lxm=chat.bsky.x&lxm=a.b.c&aud=*", "transition:chat.bsky", "rpc:chat.bsky.x?aud=*"),
            ("blob:*/*", "blob?accept=image/*&accept=text/plain", "blob?accept=image/*&accept=text/plain"),
            ("blob:image/png", "blob:image/*", "blob:image/png"),
            ("blob:image/png", "blob:video/*", ""),
            ("account:email?action=manage", "account:email", "account:email"),
            ("account:email?action=manage", "transition:email", "account:email"),
            ("account:email", "account:status", ""),
            ("identity:*", "identity:handle", "identity:handle"),
            ("someday:soon", "someday:soon", "someday:soon"),
            ("someday:soon", "transition:generic", ""),
            ("include:a.b.set", "include:a.b.set", "include:a.b.set"),
            ("include:a.b.set", "transition:generic", ""),
        ] {
            assert_eq!(
                scopes(own).intersection(&scopes(others), |_| None).to_string(),
                both,
                "{own} and {others}"
            );
        }
    }

    #[test]
    fn permission_sets_are_expanded() {
        let document = serde_json::json!({ "defs": { "main": { "type": "permission-set", "permissions": [
            { "resource": "repo", "collection": ["com.example.note", "com.example.like"] } ] } } });
        let find = |_: &Include| PermissionSet::of_lexicon(&document);
        let set = "include:com.example.authBasic";
        for (own, others, both) in [
            (set, "transition:generic", set),
            (
                set,
                "repo:*?action=delete",
                "repo?collection=com.example.like&collection=com.example.note&action=delete",
            ),
            (set, "repo:com.example.note", "repo:com.example.note"),
            (set, "repo:com.example.note repo:com.example.like", set),
            ("repo:com.example.note", set, "repo:com.example.note"),
            ("repo:*", set, "repo?collection=com.example.like&collection=com.example.note"),
        ] {
            assert_eq!(
                scopes(own).intersection(&scopes(others), find).to_string(),
                both,
                "{own} and {others}"
            );
        }
    }

    #[test]
    fn the_intersection_allows_what_both_sets_allow() {
        let all = [
            "atproto",
            "transition:generic",
            "transition:email",
            "transition:chat.bsky",
            "repo:*",
            "repo:*?action=create",
            "repo:a.b.c",
            "repo?collection=a.b.c&collection=a.b.d&action=update",
            "rpc:a.b.c?aud=*",
            "rpc?lxm=a.b.c&lxm=chat.bsky.x&aud=did:web:x.example%23y",
            "blob:*/*",
            "blob?accept=image/*&accept=text/plain",
            "account:email",
            "account:email?action=manage",
            "identity:*",
            "identity:handle",
        ];
        let mut needs = Vec::new();
        for collection in ["a.b.c", "a.b.d", "x.y.z"] {
            needs.extend(
                RepoAction::ALL.iter().map(|&action| Need::Repo { collection: Some(collection), action }),
            );
        }
        for method in ["a.b.c", "chat.bsky.x", "x.y.z"] {
            for audience in ["did:web:x.example#y", "did:web:z.example#y"] {
                needs.push(Need::Rpc { method: Some(method), audience: Some(audience) });
            }
        }
        needs.extend(["image/png", "text/plain", "video/mp4"].map(|kind| Need::Blob { kind }));
        let attribute = AccountAttribute::Email;
        needs.extend(AccountAction::ALL.iter().map(|&action| Need::Account { attribute, action }));
        needs.push(Need::Identity { attribute: IdentityAttribute::Handle });
        for a in all {
            for b in all {
                let both = scopes(a).intersection(&scopes(b), |_| None);
                for need in &needs {
                    let each = scopes(a).allows(need) && scopes(b).allows(need);
                    assert_eq!(both.allows(need), each, "{a} and {b}: {both}: {need:?}");
                }
            }
        }
    }
}
