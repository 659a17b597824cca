//! Checks that the scopes of sessions and child clients stay within those of their API client. Permission sets are
//! expanded with the lexicons that are uploaded here.

use std::sync::Arc;

use super::{Access, ApiClient};
use belvedere_instance::pds::{EffectiveScopes, EffectiveScopesCache, valid_scopes};
use belvedere_protocol::atproto::scope::{Include, Scope, ScopeError, Scopes};
use belvedere_storage::store::StoreError;

/// The reason why scopes are not granted.
#[derive(Debug, thiserror::Error)]
pub enum NotGranted {
    #[error("{0}")]
    Malformed(#[from] ScopeError),
    #[error("token must include the 'atproto' scope")]
    NoAtproto,
    #[error("scope '{0}' is not allowed for this client")]
    NotAllowed(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Checks that a session of `client` may be registered with the scopes `requested`: they must be within the client's
/// own, and its parent's.
///
/// # Errors
/// Names the first scope that is too much.
pub async fn check_session(access: &Access, client: &ApiClient, requested: &str) -> Result<(), NotGranted> {
    let sets = access.vault.effective_scopes();
    check_within(sets, &client.scopes, requested).await?;
    match &client.parent {
        None => Ok(()),
        Some(parent) => check_within(sets, &parent_scopes(access, parent), requested).await,
    }
}

/// The scopes of a session of `client` that the client and its parent still have, as text.
///
/// # Errors
/// When the store can't be read.
pub async fn remaining(access: &Access, client: &ApiClient, session: &str) -> Result<String, StoreError> {
    Ok(effective(access, client, session).await?.scopes.to_string())
}

/// The scopes of a session of `client` that the client and its parent still have.
///
/// # Errors
/// When the store can't be read.
pub async fn effective(
    access: &Access,
    client: &ApiClient,
    session: &str,
) -> Result<Arc<EffectiveScopes>, StoreError> {
    let mut ceilings = vec![client.scopes.clone()];
    ceilings.extend(client.parent.as_ref().map(|parent| parent_scopes(access, parent)));
    let ceilings: Vec<&str> = ceilings.iter().map(String::as_str).collect();
    access.vault.effective_scopes().permits(session, &ceilings).await
}

/// Empty for a parent that is not active.
fn parent_scopes(access: &Access, id: &str) -> String {
    access.clients.by_id(id).map(|parent| parent.scopes.clone()).unwrap_or_default()
}

/// Checks that `requested` has `atproto` and nothing beyond `allowed`; both are scope strings. `allowed` is stored: a scope that
/// an earlier version accepted and this one finds invalid allows nothing.
///
/// # Errors
/// Names the first scope that is too much.
pub async fn check_within(
    sets: &EffectiveScopesCache,
    allowed: &str,
    requested: &str,
) -> Result<(), NotGranted> {
    let (allowed, requested): (Scopes, Scopes) = (valid_scopes(allowed), requested.parse()?);
    if !requested.contains(&Scope::Atproto) {
        return Err(NotGranted::NoAtproto);
    }
    let sets = sets.permission_sets([&allowed, &requested].into_iter()).await?;
    let find = |include: &Include| sets.get(&include.set).cloned();
    let wide = allowed.expanded(find);
    for scope in requested.iter() {
        // Covered as it is written, or with permission sets expanded: either is enough.
        let alone: Scopes = std::iter::once(scope.clone()).collect();
        if !allowed.covers(&alone) && !wide.covers(&alone.expanded(find)) {
            return Err(NotGranted::NotAllowed(scope.to_string()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use belvedere_storage::store::testing;

    #[tokio::test]
    async fn a_stored_scope_that_became_invalid_allows_nothing_and_hides_no_other() {
        let db = testing::sqlite().await;
        let sets = EffectiveScopesCache::new(db.clone());
        let stored = "atproto space:a.b.c?did=x repo:a.b.d";
        assert!(check_within(&sets, stored, "atproto repo:a.b.d").await.is_ok());
        for refused in ["atproto space:a.b.c", "atproto space:a.b.c?did=x"] {
            assert!(check_within(&sets, stored, refused).await.is_err(), "{refused}");
        }
    }
}
