//! Checks that the scopes of sessions and child clients stay within those of their API client. Permission sets are
//! expanded with the lexicons that are uploaded here.

use super::{Access, ApiClient};
use crate::atproto::scope::{Include, Scope, ScopeError, Scopes};
use crate::pds::permission_sets;
use crate::store::{Db, StoreError};

/// Why scopes are not granted.
#[derive(Debug, thiserror::Error)]
pub enum NotGranted {
    #[error("{0}")]
    Malformed(#[from] ScopeError),
    #[error("token must include the 'atproto' scope")]
    NoAtproto,
    #[error("scope '{0}' is not allowed for this client")]
    Beyond(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Checks that a session of `client` may be registered with the scopes `asked`: they must be within the client's own,
/// and its parent's.
///
/// # Errors
/// Names the first scope that is too much.
pub async fn registrable(access: &Access, client: &ApiClient, asked: &str) -> Result<(), NotGranted> {
    within(&access.db, &client.scopes, asked).await?;
    match &client.parent {
        None => Ok(()),
        Some(parent) => within(&access.db, &parent_scopes(access, parent), asked).await,
    }
}

/// The scopes of a session of `client` that the client and its parent still have, as text.
///
/// # Errors
/// When the store can't be read.
pub async fn left(access: &Access, client: &ApiClient, session: &str) -> Result<String, StoreError> {
    let mut ceilings = vec![client.scopes.clone()];
    ceilings.extend(client.parent.as_ref().map(|parent| parent_scopes(access, parent)));
    let ceilings: Vec<&str> = ceilings.iter().map(String::as_str).collect();
    Ok(access.vault.ceilings().permits(session, &ceilings).await?.scopes.to_string())
}

/// Empty for a parent that is not active.
fn parent_scopes(access: &Access, id: &str) -> String {
    access.clients.by_id(id).map(|parent| parent.scopes.clone()).unwrap_or_default()
}

/// Checks that `asked` has `atproto` and nothing beyond `allowed`; both are scope strings.
///
/// # Errors
/// Names the first scope that is too much.
pub async fn within(db: &Db, allowed: &str, asked: &str) -> Result<(), NotGranted> {
    let (allowed, asked): (Scopes, Scopes) = (allowed.parse()?, asked.parse()?);
    if !asked.contains(&Scope::Atproto) {
        return Err(NotGranted::NoAtproto);
    }
    let sets = permission_sets(db, [&allowed, &asked].into_iter()).await?;
    let find = |include: &Include| sets.get(&include.set).cloned();
    let wide = allowed.expanded(find);
    for scope in asked.iter() {
        // Covered as it is written, or with permission sets expanded: either is enough.
        let alone: Scopes = std::iter::once(scope.clone()).collect();
        if !allowed.covers(&alone) && !wide.covers(&alone.expanded(find)) {
            return Err(NotGranted::Beyond(scope.to_string()));
        }
    }
    Ok(())
}
