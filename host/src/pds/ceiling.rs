//! What is left of a session's scopes. A session keeps the scopes that it was registered with; its API client, or that
//! client's parent, may have lost some since. Only what all of them have is used.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use moka::future::Cache;

use crate::atproto::Nsid;
use crate::atproto::scope::{Include, Need, PermissionSet, Scope, Scopes};
use crate::store::{Db, StoreError, lexicons};

/// Bytes of scope strings whose intersections are remembered: the few sets of scopes that an instance's applications ask
/// for, many times over.
const REMEMBERED_BYTES: u64 = 4 << 20;

/// How long an intersection is believed: a permission set's lexicon may change.
const FRESH: Duration = Duration::from_mins(1);

/// What a session may do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permits {
    /// As scopes, written as they were asked for where all of a scope is left.
    pub scopes: Scopes,
    /// The same with permission sets replaced by what they hold, where their lexicon is here.
    expanded: Scopes,
}

impl Permits {
    /// Whether a call is allowed. Of a permission set that is not known here, the PDS judges.
    pub fn allow(&self, need: &Need<'_>) -> bool {
        let unknown = |scope: &Scope| match (scope, need) {
            (Scope::Include(include), Need::Repo { collection: Some(collection), .. }) => {
                include.speaks_for(collection)
            }
            _ => false,
        };
        self.expanded.allows(need) || self.expanded.iter().any(unknown)
    }
}

/// Computes [`Permits`] and remembers them. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Ceilings {
    db: Db,
    known: Cache<String, Arc<Permits>>,
}

impl Ceilings {
    pub fn new(db: Db) -> Self {
        let known = Cache::builder()
            .max_capacity(REMEMBERED_BYTES)
            .weigher(|key: &String, _: &Arc<Permits>| u32::try_from(key.len()).unwrap_or(u32::MAX))
            .time_to_live(FRESH)
            .build();
        Self { db, known }
    }

    /// What is left of `session` under `ceilings`; all are scope strings.
    ///
    /// # Errors
    /// When the store can't be read.
    pub async fn permits(&self, session: &str, ceilings: &[&str]) -> Result<Arc<Permits>, StoreError> {
        let mut key = session.to_owned();
        for ceiling in ceilings {
            key.push('\n');
            key.push_str(ceiling);
        }
        if let Some(known) = self.known.get(&key).await {
            return Ok(known);
        }
        let mut scopes = understood(session);
        let ceilings: Vec<Scopes> = ceilings.iter().map(|text| understood(text)).collect();
        let sets = permission_sets(&self.db, ceilings.iter().chain([&scopes])).await?;
        let find = |include: &Include| sets.get(&include.set).cloned();
        for ceiling in &ceilings {
            scopes = scopes.intersection(ceiling, find);
        }
        let permits = Arc::new(Permits { expanded: scopes.expanded(find), scopes });
        self.known.insert(key, Arc::clone(&permits)).await;
        Ok(permits)
    }
}

/// The scopes of a text; one that is not valid allows nothing, and the others stand.
fn understood(text: &str) -> Scopes {
    text.split_ascii_whitespace().filter_map(|scope| scope.parse::<Scope>().ok()).collect()
}

/// The permission sets that scopes include, as far as their lexicons are here.
///
/// # Errors
/// When the store can't be read.
pub async fn permission_sets<'a>(
    db: &Db,
    all: impl Iterator<Item = &'a Scopes>,
) -> Result<HashMap<Nsid, PermissionSet>, StoreError> {
    let mut sets = HashMap::new();
    for scope in all.flat_map(Scopes::iter) {
        if let Scope::Include(include) = scope
            && !sets.contains_key(&include.set)
            && let Some(row) = lexicons::get(db, include.set.as_str()).await?
            && let Ok(document) = serde_json::from_str(&row.lexicon_json)
            && let Some(set) = PermissionSet::of_lexicon(&document)
        {
            sets.insert(include.set.clone(), set);
        }
    }
    Ok(sets)
}
