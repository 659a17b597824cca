//! Whether scopes stay within others, with permission sets looked up among the lexicons that are here.

use std::collections::HashMap;

use crate::atproto::scope::{PermissionSet, Scope, ScopeError, Scopes};
use crate::store::{Db, StoreError, lexicons};

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

/// Whether `asked` has `atproto` and nothing beyond `allowed`; both are scope strings.
///
/// # Errors
/// Names the first scope that is too much.
pub async fn within(db: &Db, allowed: &str, asked: &str) -> Result<(), NotGranted> {
    let (allowed, asked): (Scopes, Scopes) = (allowed.parse()?, asked.parse()?);
    if !asked.contains(&Scope::Atproto) {
        return Err(NotGranted::NoAtproto);
    }
    let mut sets = HashMap::new();
    for scope in allowed.iter().chain(asked.iter()) {
        if let Scope::Include(include) = scope
            && let Some(row) = lexicons::get(db, include.set.as_str()).await?
            && let Ok(document) = serde_json::from_str(&row.lexicon_json)
            && let Some(set) = PermissionSet::of_lexicon(&document)
        {
            sets.insert(include.set.clone(), set);
        }
    }
    let find = |include: &crate::atproto::scope::Include| sets.get(&include.set).cloned();
    let wide = allowed.expanded(find);
    for scope in asked.iter() {
        // As it is called, or as what it holds: one of them is enough.
        let alone: Scopes = std::iter::once(scope.clone()).collect();
        if !allowed.covers(&alone) && !wide.covers(&alone.expanded(find)) {
            return Err(NotGranted::Beyond(scope.to_string()));
        }
    }
    Ok(())
}
