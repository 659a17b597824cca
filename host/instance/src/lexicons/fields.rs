//! The fields of the records of all collections, which columns, conditions and exports are made of.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::Value;

use belvedere_protocol::atproto::lexicon::{LexiconKind, RecordField, record_fields};
use belvedere_storage::store::lexicons::LexiconRow;

/// The fields of the records of a collection.
pub type RecordFields = Arc<[RecordField]>;

pub(super) type FieldsByCollection = HashMap<Box<str>, RecordFields>;

/// The fields of the records of each collection.
pub(super) fn of_collections(rows: &[LexiconRow]) -> FieldsByCollection {
    let documents = rows
        .iter()
        .filter_map(|row| Some((row.id.as_str(), serde_json::from_str::<Value>(&row.lexicon_json).ok()?)));
    let documents: BTreeMap<&str, Value> = documents.collect();
    let collections = rows.iter().filter(|row| row.lexicon_type == LexiconKind::Record.as_str());
    collections.map(|row| (row.id.as_str().into(), record_fields(&row.id, &documents).into())).collect()
}
