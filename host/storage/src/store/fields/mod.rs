//! Tracks the record fields that queries filter, sort and search by: how often, at what cost, and which have indexes.
//!
//! [`FieldUsage`] is kept in memory: reads record their use of fields in it and look up indexes. [`table`] stores the
//! same in the database, [`build`] builds and drops indexes, and `jobs::field_indexes` decides which.

pub mod advice;
pub mod build;
mod error;
mod postgres;
pub(super) mod sqlite;
pub mod table;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::Duration;

pub use self::error::BuildError;
pub use super::select::IndexKind;
use super::{Db, StoreError, intern};
use crate::query::path::Path;
use belvedere_protocol::atproto::Nsid;

/// Cost that is recorded for a field whose index is requested: so much is worth an index.
const REQUESTED: Duration = Duration::from_secs(1);

/// Maximum number of fields recorded between two flushes; further ones are ignored. A script may take the path from its
/// caller.
const MAX_NOTED: usize = 512;

/// A field of a collection, with the purpose of its index.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IndexKey {
    pub collection_id: i64,
    pub path: Path,
    pub kind: IndexKind,
}

/// The use of a field since the last flush.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    pub calls: u64,
    /// Calls without an index, and their total duration.
    pub scans: u64,
    pub scan_time: Duration,
}

/// The fields of a database that are in use, and their indexes.
#[derive(Debug, Default)]
pub struct FieldUsage {
    /// The ids of the indexes that may be used; an id is part of the index's name.
    ready: RwLock<HashMap<IndexKey, i64>>,
    noted: Mutex<HashMap<IndexKey, Use>>,
}

impl FieldUsage {
    /// The id of a field's index.
    pub(super) fn index(&self, collection_id: i64, path: &Path, kind: IndexKind) -> Option<i64> {
        let ready = self.ready.read().unwrap_or_else(PoisonError::into_inner);
        if ready.is_empty() {
            return None;
        }
        ready.get(&IndexKey { collection_id, path: path.clone(), kind }).copied()
    }

    fn ready_of(&self, collection_id: i64) -> Vec<(Path, IndexKind)> {
        let ready = self.ready.read().unwrap_or_else(PoisonError::into_inner);
        let of = ready.keys().filter(|key| key.collection_id == collection_id);
        of.map(|key| (key.path.clone(), key.kind)).collect()
    }

    pub(super) fn any_ready(&self) -> bool {
        !self.ready.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Replaces the indexes that may be used.
    pub(super) fn set_ready(&self, ready: HashMap<IndexKey, i64>) {
        *self.ready.write().unwrap_or_else(PoisonError::into_inner) = ready;
    }

    /// Stops using an index until the next [`Self::set_ready`], for an index that is gone.
    pub(super) fn forget(&self, id: i64) {
        self.ready.write().unwrap_or_else(PoisonError::into_inner).retain(|_, ready| *ready != id);
    }

    /// Records a call, with its duration if it was a scan.
    pub(super) fn note(&self, key: IndexKey, scan: Option<Duration>) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.len() >= MAX_NOTED && !noted.contains_key(&key) {
            return;
        }
        let used = noted.entry(key).or_default();
        used.calls += 1;
        if let Some(took) = scan {
            used.scans += 1;
            used.scan_time += took;
        }
    }

    /// Takes what was recorded since the last call.
    pub(super) fn take(&self) -> HashMap<IndexKey, Use> {
        std::mem::take(&mut *self.noted.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The fields of a collection that have an index.
///
/// # Errors
/// When the collection can't be looked up.
pub async fn ready(db: &Db, collection: &Nsid) -> Result<Vec<(Path, IndexKind)>, StoreError> {
    let Some(collection) = intern::collection(db, collection).await? else { return Ok(Vec::new()) };
    Ok(db.fields().ready_of(collection.id))
}

/// Asks for the index of a field before a query needs it. The index of a collection without records is built once its
/// queries cost something.
///
/// # Errors
/// When the collection can't be looked up.
pub async fn request(db: &Db, collection: &Nsid, path: &Path, kind: IndexKind) -> Result<(), StoreError> {
    let Some(collection) = intern::collection(db, collection).await? else { return Ok(()) };
    if db.fields().index(collection.id, path, kind).is_none() {
        let key = IndexKey { collection_id: collection.id, path: path.clone(), kind };
        db.fields().note(key, Some(REQUESTED));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(path: &str) -> IndexKey {
        IndexKey { collection_id: 1, path: Path::parse(path).unwrap(), kind: IndexKind::Filter }
    }

    #[test]
    fn notes_are_counted_once_and_bounded() {
        let fields = FieldUsage::default();
        fields.note(key("a"), Some(Duration::from_millis(2)));
        fields.note(key("a"), None);
        for n in 0..2 * MAX_NOTED {
            fields.note(key(&format!("other{n}")), None);
        }
        fields.note(key("a"), Some(Duration::from_millis(3)));
        let noted = fields.take();
        assert_eq!(noted.len(), MAX_NOTED);
        assert_eq!(noted[&key("a")], Use { calls: 3, scans: 2, scan_time: Duration::from_millis(5) });
        assert!(fields.take().is_empty());
    }

    #[test]
    fn an_index_is_used_until_it_is_forgotten() {
        let fields = FieldUsage::default();
        assert_eq!(fields.index(1, &key("a").path, IndexKind::Filter), None);
        fields.set_ready(HashMap::from([(key("a"), 7)]));
        assert_eq!(fields.index(1, &key("a").path, IndexKind::Filter), Some(7));
        assert_eq!(fields.index(1, &key("a").path, IndexKind::Sort), None);
        assert_eq!(fields.index(2, &key("a").path, IndexKind::Filter), None);
        fields.forget(7);
        assert_eq!(fields.index(1, &key("a").path, IndexKind::Filter), None);
    }
}
