//! Computes a session's effective scopes. A session keeps the scopes that it was registered with; its API client, or
//! that client's parent, may have lost some since. The effective scopes are the intersection of all of them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use moka::future::Cache;

use crate::settings::{SPACES_ENABLED, Settings};
use belvedere_protocol::atproto::Nsid;
use belvedere_protocol::atproto::scope::{Include, Need, PermissionSet, Scope, Scopes};
use belvedere_storage::store::{Db, StoreError, lexicons};

/// Bytes of cached scope strings. The API clients of an instance request few different sets of scopes, so this is
/// ample.
const CACHE_BYTES: u64 = 4 << 20;

/// Time for which an intersection is cached: the lexicon of a permission set may change.
const CACHE_TIME: Duration = Duration::from_mins(1);

/// The effective scopes of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EffectiveScopes {
    /// The intersection; a scope that is left completely is written as it was requested.
    pub scopes: Scopes,
    /// The same, with permission sets replaced by their content if their lexicon is stored here.
    expanded: Scopes,
}

impl EffectiveScopes {
    /// Whether a call is allowed. A call that may be covered by a permission set without a stored lexicon is allowed;
    /// the PDS decides.
    pub fn allow(&self, need: &Need<'_>) -> bool {
        let unknown = |scope: &Scope| match (scope, need) {
            (Scope::Include(include), Need::Repo { collection: Some(name), .. } | Need::Method { name }) => {
                include.may_grant(name)
            }
            _ => false,
        };
        self.expanded.allows(need) || self.expanded.iter().any(unknown)
    }
}

/// Computes and caches [`EffectiveScopes`]. Cheap to clone.
#[derive(Clone, Debug)]
pub struct EffectiveScopesCache {
    db: Db,
    cache: Cache<String, Arc<EffectiveScopes>>,
    /// Whether spaces are switched on: else permission sets grant nothing in them.
    has_spaces: Arc<AtomicBool>,
}

impl EffectiveScopesCache {
    pub fn new(db: Db) -> Self {
        let cache = Cache::builder()
            .max_capacity(CACHE_BYTES)
            .weigher(|key: &String, _: &Arc<EffectiveScopes>| u32::try_from(key.len()).unwrap_or(u32::MAX))
            .time_to_live(CACHE_TIME)
            .build();
        Self { db, cache, has_spaces: Arc::default() }
    }

    /// Reads the setting of spaces.
    pub fn reload(&self, settings: &Settings) {
        let has_spaces = settings.flag(SPACES_ENABLED);
        if self.has_spaces.swap(has_spaces, Ordering::Relaxed) != has_spaces {
            self.cache.invalidate_all();
        }
    }

    /// The intersection of the scopes of `session` with each of `ceilings`; all are scope strings.
    ///
    /// # Errors
    /// When the store can't be read.
    pub async fn permits(
        &self,
        session: &str,
        ceilings: &[&str],
    ) -> Result<Arc<EffectiveScopes>, StoreError> {
        let mut key = session.to_owned();
        for ceiling in ceilings {
            key.push('\n');
            key.push_str(ceiling);
        }
        if let Some(cached) = self.cache.get(&key).await {
            return Ok(cached);
        }
        let mut scopes = valid_scopes(session);
        let ceilings: Vec<Scopes> = ceilings.iter().map(|text| valid_scopes(text)).collect();
        let sets = self.permission_sets(ceilings.iter().chain([&scopes])).await?;
        let find = |include: &Include| sets.get(&include.set).cloned();
        for ceiling in &ceilings {
            scopes = scopes.intersection(ceiling, find);
        }
        let effective = Arc::new(EffectiveScopes { expanded: scopes.expanded(find), scopes });
        self.cache.insert(key, Arc::clone(&effective)).await;
        Ok(effective)
    }

    /// The permission sets that scopes include and whose lexicons are stored here.
    ///
    /// # Errors
    /// When the store can't be read.
    pub async fn permission_sets<'a>(
        &self,
        all: impl Iterator<Item = &'a Scopes>,
    ) -> Result<HashMap<Nsid, PermissionSet>, StoreError> {
        let has_spaces = self.has_spaces.load(Ordering::Relaxed);
        let mut sets = HashMap::new();
        for scope in all.flat_map(Scopes::iter) {
            if let Scope::Include(include) = scope
                && !sets.contains_key(&include.set)
                && let Some(row) = lexicons::get(&self.db, include.set.as_str()).await?
                && let Ok(document) = serde_json::from_str(&row.lexicon_json)
                && let Some(set) = PermissionSet::of_lexicon(&document)
            {
                let set = if has_spaces { set } else { set.without_spaces() };
                sets.insert(include.set.clone(), set);
            }
        }
        Ok(sets)
    }
}

/// The valid scopes of a text; invalid ones are ignored.
pub fn valid_scopes(text: &str) -> Scopes {
    text.split_ascii_whitespace().filter_map(|scope| scope.parse::<Scope>().ok()).collect()
}
