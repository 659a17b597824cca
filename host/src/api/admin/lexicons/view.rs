//! How the admin API shows a lexicon.

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::clock::Timestamp;
use crate::store::lexicons::LexiconRow;

/// A list item; the single answer adds the document.
#[derive(Debug, Serialize)]
pub(super) struct LexiconView {
    id: String,
    revision: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    lexicon_json: Option<Box<RawValue>>,
    lexicon_type: String,
    backfill: bool,
    action: Option<String>,
    target_collection: Option<String>,
    source: String,
    authority_did: Option<String>,
    last_fetched_at: Option<Timestamp>,
    created_at: Timestamp,
    updated_at: Timestamp,
    token_cost: Option<i64>,
    /// `main.record` of a record lexicon, in lists only.
    #[serde(skip_serializing_if = "Option::is_none")]
    record_schema: Option<Value>,
}

impl LexiconView {
    pub(super) fn item(row: LexiconRow) -> Self {
        let record_schema = (row.lexicon_type == "record")
            .then(|| serde_json::from_str::<Value>(&row.lexicon_json).ok())
            .flatten()
            .and_then(|mut document| document.pointer_mut("/defs/main/record").map(Value::take));
        Self { record_schema, ..Self::without_document(row) }
    }

    pub(super) fn full(row: LexiconRow) -> Self {
        let lexicon_json = RawValue::from_string(row.lexicon_json.clone()).ok();
        Self { lexicon_json, ..Self::without_document(row) }
    }

    fn without_document(row: LexiconRow) -> Self {
        Self {
            id: row.id,
            revision: row.revision,
            lexicon_json: None,
            lexicon_type: row.lexicon_type,
            backfill: row.backfill,
            action: row.action,
            target_collection: row.target_collection,
            source: row.source,
            authority_did: row.authority_did,
            last_fetched_at: row.last_fetched_at,
            created_at: row.created_at,
            updated_at: row.updated_at,
            token_cost: row.token_cost,
            record_schema: None,
        }
    }
}
