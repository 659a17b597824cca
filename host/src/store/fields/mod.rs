//! Fields that queries filter, sort and search by: what is asked for, what it costs, and which indexes answer it.
//!
//! Kept in memory beside the connections: reads note what they did here and look up which index they may use.
//! [`table`] is what lasts, [`build`] makes and drops the indexes, and `jobs::field_indexes` decides.

pub mod build;
pub mod table;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::Duration;

use crate::query::path::Path;

/// Fields noted between two flushes. A script may take the path from whoever calls it: what comes after that many is
/// not noted.
const MAX_NOTED: usize = 512;

/// What an index of a field is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Equality and ranges of `db.query`, newest first.
    Filter = 0,
    /// The order of `db.query`.
    Sort = 1,
    /// `db.search`.
    Search = 2,
}

impl Kind {
    /// As admins see it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Sort => "sort",
            Self::Search => "search",
        }
    }

    fn from_number(number: i64) -> Option<Self> {
        [Self::Filter, Self::Sort, Self::Search].into_iter().find(|kind| *kind as i64 == number)
    }
}

/// A field of a collection and a use of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    pub collection_id: i64,
    pub path: Path,
    pub kind: Kind,
}

/// What was asked of a field since the last flush.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    pub calls: u64,
    /// Calls that no index answered, and what they took together.
    pub scans: u64,
    pub scan_time: Duration,
}

/// The memory of a database about its fields.
#[derive(Debug, Default)]
pub struct Fields {
    /// Indexes that may be used, by the id in their name.
    ready: RwLock<HashMap<Key, i64>>,
    noted: Mutex<HashMap<Key, Use>>,
}

impl Fields {
    /// The index for a use of a field.
    pub(super) fn index(&self, collection_id: i64, path: &Path, kind: Kind) -> Option<i64> {
        let ready = self.ready.read().unwrap_or_else(PoisonError::into_inner);
        if ready.is_empty() {
            return None;
        }
        ready.get(&Key { collection_id, path: path.clone(), kind }).copied()
    }

    pub(super) fn any_ready(&self) -> bool {
        !self.ready.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// From now on these indexes are used and no others.
    pub(super) fn set_ready(&self, ready: HashMap<Key, i64>) {
        *self.ready.write().unwrap_or_else(PoisonError::into_inner) = ready;
    }

    /// An index that a statement did not find is not used again until [`Self::set_ready`] says so.
    pub(super) fn forget(&self, id: i64) {
        self.ready.write().unwrap_or_else(PoisonError::into_inner).retain(|_, ready| *ready != id);
    }

    /// Notes a call, and what it took when it had to scan.
    pub(super) fn note(&self, key: Key, scan: Option<Duration>) {
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

    /// What was noted since the last time.
    pub(super) fn take(&self) -> HashMap<Key, Use> {
        std::mem::take(&mut *self.noted.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(path: &str) -> Key {
        Key { collection_id: 1, path: Path::parse(path).unwrap(), kind: Kind::Filter }
    }

    #[test]
    fn notes_are_counted_once_and_bounded() {
        let fields = Fields::default();
        fields.note(key("a"), Some(Duration::from_millis(2)));
        fields.note(key("a"), None);
        for n in 0..2 * MAX_NOTED {
            fields.note(key(&format!("stranger{n}")), None);
        }
        fields.note(key("a"), Some(Duration::from_millis(3)));
        let noted = fields.take();
        assert_eq!(noted.len(), MAX_NOTED);
        assert_eq!(noted[&key("a")], Use { calls: 3, scans: 2, scan_time: Duration::from_millis(5) });
        assert!(fields.take().is_empty());
    }

    #[test]
    fn an_index_is_used_until_it_is_forgotten() {
        let fields = Fields::default();
        assert_eq!(fields.index(1, &key("a").path, Kind::Filter), None);
        fields.set_ready(HashMap::from([(key("a"), 7)]));
        assert_eq!(fields.index(1, &key("a").path, Kind::Filter), Some(7));
        assert_eq!(fields.index(1, &key("a").path, Kind::Sort), None);
        assert_eq!(fields.index(2, &key("a").path, Kind::Filter), None);
        fields.forget(7);
        assert_eq!(fields.index(1, &key("a").path, Kind::Filter), None);
    }
}
