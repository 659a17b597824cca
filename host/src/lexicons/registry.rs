//! The registry: one immutable snapshot, replaced after every change.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use serde_json::Value;
use tokio::sync::{Mutex, watch};

use super::schema;
use crate::atproto::Nsid;
use crate::atproto::lexicon::{LexiconKind, Mismatch, Schemas};
use crate::store::{self, Db, StoreError};

/// What a request for a method, or an event of a collection, has to know of its lexicon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lexicon {
    pub id: Nsid,
    pub kind: LexiconKind,
    /// The collection that the built-in behaviour of a query or procedure reads or writes.
    pub target_collection: Option<Nsid>,
    /// What a procedure without a script does; `None`: put when the body names a record, else create.
    pub action: Option<Action>,
    /// Tokens that one call takes from the client's bucket; `None` means the instance's default.
    pub token_cost: Option<u32>,
}

/// What a procedure without a script does with its target collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Create,
    Update,
    Delete,
}

impl Action {
    /// `upsert` is what procedures do that have no action.
    fn from_name(name: &str) -> Option<Self> {
        match name {
            "create" => Some(Self::Create),
            "update" => Some(Self::Update),
            "delete" => Some(Self::Delete),
            _ => None,
        }
    }
}

/// All lexicons at one moment.
#[derive(Debug, Default)]
pub struct Snapshot {
    by_nsid: HashMap<Box<str>, Arc<Lexicon>>,
    tracked: Arc<[Nsid]>,
    /// What scripts are told of each record lexicon, as JSON text.
    schemas: HashMap<Box<str>, Bytes>,
    /// What records are compared with.
    documents: Schemas,
}

impl Snapshot {
    pub fn get(&self, nsid: &str) -> Option<&Arc<Lexicon>> {
        self.by_nsid.get(nsid)
    }

    /// The collections that are indexed: those with a record lexicon. Sorted.
    pub fn tracked(&self) -> &Arc<[Nsid]> {
        &self.tracked
    }

    pub fn is_tracked(&self, collection: &str) -> bool {
        self.tracked.binary_search_by(|c| c.as_str().cmp(collection)).is_ok()
    }

    /// `{key, required, defaults, record}` of a record lexicon, as JSON text.
    pub fn record_schema(&self, collection: &str) -> Option<Bytes> {
        self.schemas.get(collection).cloned()
    }

    /// Compares a record with its lexicon.
    ///
    /// # Errors
    /// The first complaints.
    pub fn check_record(&self, collection: &str, record: &Value) -> Result<(), Mismatch> {
        self.documents.check(collection, record)
    }

    fn new(lexicons: impl IntoIterator<Item = Lexicon>) -> Self {
        let by_nsid: HashMap<Box<str>, Arc<Lexicon>> =
            lexicons.into_iter().map(|l| (l.id.as_str().into(), Arc::new(l))).collect();
        let mut tracked: Vec<Nsid> =
            by_nsid.values().filter(|l| l.kind == LexiconKind::Record).map(|l| l.id.clone()).collect();
        tracked.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        Self { by_nsid, tracked: tracked.into(), ..Self::default() }
    }
}

/// Holds the current snapshot and tells who follows when the set of indexed collections changes.
#[derive(Debug)]
pub struct Registry {
    current: ArcSwap<Snapshot>,
    tracked: watch::Sender<Arc<[Nsid]>>,
    /// Reloads happen one after the other, so that an older read never replaces a newer one.
    reloading: Mutex<()>,
}

impl Default for Registry {
    fn default() -> Self {
        Self {
            current: ArcSwap::default(),
            tracked: watch::Sender::new(Arc::default()),
            reloading: Mutex::default(),
        }
    }
}

impl Registry {
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// The lexicon of one NSID, without holding on to the rest of the snapshot.
    pub fn get(&self, nsid: &str) -> Option<Arc<Lexicon>> {
        self.current.load().get(nsid).cloned()
    }

    /// Follows the indexed collections; the stream narrows its subscription to them.
    pub fn subscribe(&self) -> watch::Receiver<Arc<[Nsid]>> {
        self.tracked.subscribe()
    }

    /// Takes over what the store has now.
    ///
    /// # Errors
    /// When the store can't be read; the old snapshot stays.
    pub async fn reload(&self, db: &Db) -> Result<(), StoreError> {
        let _one_at_a_time = self.reloading.lock().await;
        let rows = store::lexicons::list(db).await?;
        let schemas =
            rows.iter().filter_map(|row| Some((row.id.as_str().into(), schema::for_scripts(row)?))).collect();
        let documents = Schemas::new(rows.iter().map(|row| row.lexicon_json.as_str()));
        let lexicons = rows.into_iter().filter_map(|row| {
            let Ok(id) = Nsid::try_from(row.id.as_str()) else {
                tracing::error!(id = row.id, "a stored lexicon has no NSID as its id and is left out");
                return None;
            };
            Some(Lexicon {
                id,
                kind: LexiconKind::from_name(&row.lexicon_type),
                target_collection: row.target_collection.and_then(|c| Nsid::try_from(c.as_str()).ok()),
                action: row.action.as_deref().and_then(Action::from_name),
                token_cost: row.token_cost.and_then(|cost| u32::try_from(cost).ok()),
            })
        });
        self.replace(Snapshot { schemas, documents, ..Snapshot::new(lexicons) });
        Ok(())
    }

    fn replace(&self, snapshot: Snapshot) {
        let tracked = Arc::clone(&snapshot.tracked);
        self.current.store(Arc::new(snapshot));
        self.tracked.send_if_modified(|old| {
            let changed = *old != tracked;
            *old = tracked;
            changed
        });
    }

    /// A registry with these lexicons and no store behind it.
    #[cfg(test)]
    pub fn with(lexicons: impl IntoIterator<Item = Lexicon>) -> Self {
        let registry = Self::default();
        registry.replace(Snapshot::new(lexicons));
        registry
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lexicon(id: &str, kind: LexiconKind) -> Lexicon {
        Lexicon {
            id: Nsid::try_from(id).unwrap(),
            kind,
            target_collection: None,
            action: None,
            token_cost: None,
        }
    }

    #[test]
    fn only_record_lexicons_are_tracked_and_in_order() {
        let registry = Registry::with([
            lexicon("com.example.note", LexiconKind::Record),
            lexicon("com.example.list", LexiconKind::Query),
            lexicon("com.example.like", LexiconKind::Record),
        ]);
        let snapshot = registry.snapshot();
        let tracked: Vec<&str> = snapshot.tracked().iter().map(Nsid::as_str).collect();
        assert_eq!(tracked, ["com.example.like", "com.example.note"]);
        assert!(snapshot.is_tracked("com.example.note"));
        assert!(!snapshot.is_tracked("com.example.list"));
        assert!(registry.get("com.example.list").is_some());
        assert!(registry.get("com.example.other").is_none());
    }

    #[test]
    fn followers_hear_of_collections_only_when_they_change() {
        let registry = Registry::with([lexicon("com.example.note", LexiconKind::Record)]);
        let mut follower = registry.subscribe();
        follower.mark_unchanged();
        registry.replace(Snapshot::new([
            lexicon("com.example.note", LexiconKind::Record),
            lexicon("com.example.list", LexiconKind::Query),
        ]));
        assert!(!follower.has_changed().unwrap());
        registry.replace(Snapshot::default());
        assert!(follower.has_changed().unwrap());
        assert!(follower.borrow().is_empty());
    }
}
