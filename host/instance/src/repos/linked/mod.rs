//! Linked repos: repos whose owners allow the instance to write to them (admin-api.md §18). A grant is authorized once
//! and kept alive. Scripts use it within its scopes, if the admin's list of scripts allows them.

mod keep_alive;
mod repo;

pub use keep_alive::run as keep_alive;
pub use repo::{GrantError, GrantUser, LinkedRepo};

use std::fmt;
use std::sync::Arc;

use crate::pds::Vault;
use crate::repos::Repos;
use belvedere_base::clock::Clock;
use belvedere_protocol::atproto::scope::{Scope, Scopes};
use belvedere_protocol::atproto::{Did, Nsid};
use belvedere_storage::store::linked_repos::{self, GrantRow};
use belvedere_storage::store::{Db, StoreError};

/// `status` of a grant with a valid session.
pub const ACTIVE: &str = "active";
/// `status` of a grant that was never authorized.
pub const PENDING: &str = "pending";

/// Gives scripts access to linked repos. Cheap to clone.
#[derive(Clone)]
pub struct LinkedRepos(Arc<Inner>);

struct Inner {
    db: Db,
    vault: Vault,
    repos: Repos,
    clock: Clock,
}

impl LinkedRepos {
    pub fn new(db: Db, vault: Vault, repos: Repos, clock: Clock) -> Self {
        Self(Arc::new(Inner { db, vault, repos, clock }))
    }

    /// The grants that a run may use, in any state.
    ///
    /// # Errors
    /// When the store can't be read.
    pub async fn list(&self, runner: &GrantUser<'_>) -> Result<Vec<GrantRow>, StoreError> {
        let mut all = linked_repos::list(&self.0.db).await?;
        all.retain(|grant| runner.may_use(grant));
        Ok(all)
    }

    /// The grant of an account, in any state; `None` when the run may not use it.
    ///
    /// # Errors
    /// When the store can't be read.
    pub async fn find(&self, did: &Did, runner: &GrantUser<'_>) -> Result<Option<GrantRow>, StoreError> {
        let grant = linked_repos::of_account(&self.0.db, did.as_str()).await?;
        Ok(grant.filter(|grant| runner.may_use(grant)))
    }
}

/// Validates the scopes of a new grant. Returns them without duplicates, `atproto` first.
///
/// # Errors
/// Names the first scope that is invalid or unknown.
pub fn scopes(text: &str) -> Result<String, String> {
    let parsed: Scopes =
        text.parse().map_err(|error: belvedere_protocol::atproto::scope::ScopeError| error.to_string())?;
    if text.trim().is_empty() {
        return Err("scopes must not be blank".to_owned());
    }
    let mut list = vec![Scope::Atproto.to_string()];
    for scope in parsed.iter() {
        if let unknown @ (Scope::Other(_) | Scope::Space(_)) = scope {
            return Err(format!("the scope {unknown} is not known"));
        }
        let text = scope.to_string();
        if !list.contains(&text) {
            list.push(text);
        }
    }
    Ok(list.join(" "))
}

/// Whether a text is a valid trigger id.
pub fn is_trigger(name: &str) -> bool {
    belvedere_protocol::trigger::Trigger::parse(name).is_ok()
}

/// Parses a collection that a script names.
fn collection(text: &str) -> Result<Nsid, GrantError> {
    Nsid::try_from(text).map_err(|_| GrantError::Invalid(format!("collection {text:?} is not an NSID")))
}

impl fmt::Debug for LinkedRepos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LinkedRepos")
    }
}

#[cfg(test)]
mod tests {
    use super::scopes;

    #[test]
    fn scopes_are_validated_and_ordered() {
        let good = scopes("repo:com.example.note  blob:*/* repo:com.example.note").unwrap();
        assert_eq!(good, "atproto repo:com.example.note blob:*/*");
        assert_eq!(scopes("blob:*/* atproto").unwrap(), "atproto blob:*/*");
        for bad in ["", "  ", "repo:", "repo:not an nsid", "wish:everything", "space:a.b.c", "rpc:*?aud=*"] {
            assert!(scopes(bad).is_err(), "{bad}");
        }
    }
}
