//! The rows of a level of a view, with the values of its additions.

use std::sync::OnceLock;

use serde_json::Value;

use belvedere_protocol::atproto::Did;
use belvedere_storage::query::Path;
use belvedere_storage::query::group::{GroupKey, GroupRow, GroupValue};
use belvedere_storage::query::path::Step;
use belvedere_storage::store::labels::ActiveLabel;
use belvedere_storage::store::records::RecordRow;

use super::plan::Subject;

/// A record, an account with or without its profile's record, or a group of records.
#[derive(Debug)]
pub(super) struct Row {
    /// Empty for a group that is not by account.
    pub(super) did: String,
    /// The verified handle of a profile, if it is known.
    pub(super) handle: Option<String>,
    pub(super) record: Option<RecordRow>,
    pub(super) group: Option<Group>,
    /// The record, parsed when a path into it is needed.
    parsed: OnceLock<Value>,
}

/// The values of a group of records, and their number.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) count: u64,
    pub(super) indexed_at: Option<String>,
    fields: Vec<(Path, Value)>,
}

/// Rows, and the values of their additions.
#[derive(Debug, Default)]
pub(super) struct Level {
    pub(super) rows: Vec<Row>,
    /// In the order of the additions.
    pub(super) columns: Vec<Column>,
}

/// The values of an addition, one for each row.
#[derive(Debug)]
pub(super) enum Column {
    Counts(Vec<u64>),
    /// AT URIs.
    Uris(Vec<Option<String>>),
    /// The position of the joined row.
    One(Level, Vec<Option<usize>>),
    Many(Level, Vec<Vec<usize>>),
    /// Each with its subject.
    Labels(Vec<(String, Vec<ActiveLabel>)>),
}

impl Row {
    pub(super) fn of_record(row: RecordRow) -> Self {
        Self { did: row.did.clone(), handle: None, record: Some(row), group: None, parsed: OnceLock::new() }
    }

    pub(super) fn of_account(did: &Did, handle: Option<String>, record: Option<RecordRow>) -> Self {
        Self { did: did.to_string(), handle, record, group: None, parsed: OnceLock::new() }
    }

    pub(super) fn of_group(by: &[GroupKey], row: GroupRow) -> Self {
        let (mut did, mut group) = (String::new(), Group { count: row.count, ..Group::default() });
        for (key, value) in by.iter().zip(row.keys) {
            match (&key.value, value) {
                (GroupValue::Did, Some(Value::String(of))) => did = of,
                (GroupValue::IndexedAt(_), Some(Value::String(at))) => group.indexed_at = Some(at),
                (GroupValue::Field(path) | GroupValue::Time(path, _), Some(value)) => {
                    group.fields.push((path.clone(), value));
                }
                _ => {}
            }
        }
        Self { did, handle: None, record: None, group: Some(group), parsed: OnceLock::new() }
    }

    pub(super) fn uri(&self) -> Option<String> {
        self.record.as_ref().map(RecordRow::uri)
    }

    /// The value at a path into the record, or of a key of the group.
    pub(super) fn field(&self, path: &Path) -> Option<&Value> {
        if let Some(group) = &self.group {
            return group.fields.iter().find(|(of, _)| of == path).map(|(_, value)| value);
        }
        let record = self.record.as_ref()?;
        let parsed = self.parsed.get_or_init(|| serde_json::from_slice(&record.record).unwrap_or_default());
        let found = path.steps().iter().try_fold(parsed, |value, step| match step {
            Step::Key(key) => value.get(key),
            Step::Index(index) => value.get(*index as usize),
        });
        found.filter(|value| !value.is_null())
    }

    /// The AT URI or the DID that an addition is about.
    pub(super) fn subject(&self, subject: &Subject) -> Option<String> {
        match subject {
            Subject::Uri => self.uri(),
            Subject::Did => Some(self.did.clone()),
            Subject::Field(path) => self.reference(path),
        }
    }

    /// The text at a path, or the URI of the strong reference there.
    pub(super) fn reference(&self, path: &Path) -> Option<String> {
        let value = self.field(path)?;
        let text = value.as_str().or_else(|| value.get("uri")?.as_str())?;
        // No target has a U+0000, which PostgreSQL can't store.
        (!text.contains('\0')).then(|| text.to_owned())
    }
}
