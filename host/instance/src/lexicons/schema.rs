//! The parts of a record lexicon that are looked up for every write and every indexed record.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use belvedere_protocol::atproto::lexicon::{KeyType, LexiconDoc, LexiconKind};
use belvedere_storage::store::lexicons::LexiconRow;

/// A record lexicon.
#[derive(Debug)]
pub(super) struct RecordSchema {
    /// `{key, required, defaults, record}` as JSON text, for scripts: the key type, the names of the fields that a record
    /// must have, the fields that have a default, and the schema as it was uploaded.
    pub(super) summary: Bytes,
    pub(super) key: KeyType,
}

/// Reads a stored lexicon; `None` for one of another kind.
pub(super) fn read(row: &LexiconRow) -> Option<RecordSchema> {
    if LexiconKind::from_name(&row.lexicon_type) != LexiconKind::Record {
        return None;
    }
    let document: Value = serde_json::from_str(&row.lexicon_json).ok()?;
    let lexicon = LexiconDoc::parse(&document).ok()?;
    let required: Vec<&str> = lexicon.required_fields().collect();
    let defaults: Map<String, Value> =
        lexicon.default_fields().map(|(name, value)| (name.to_owned(), value.clone())).collect();
    let summary = json!({
        "key": lexicon.key.as_deref().unwrap_or("any"),
        "required": required,
        "defaults": defaults,
        "record": lexicon.record_schema,
    });
    let key = lexicon.key.as_deref().and_then(KeyType::parse).unwrap_or_default();
    Some(RecordSchema { summary: summary.to_string().into(), key })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kind: &str, document: &Value) -> LexiconRow {
        LexiconRow {
            id: "com.example.note".to_owned(),
            revision: 1,
            lexicon_json: document.to_string(),
            lexicon_type: kind.to_owned(),
            backfill: false,
            action: None,
            target_collection: None,
            source: "manual".to_owned(),
            authority_did: None,
            last_fetched_at: None,
            token_cost: None,
            created_at: belvedere_base::clock::Timestamp(0),
            updated_at: belvedere_base::clock::Timestamp(0),
        }
    }

    #[test]
    fn summarizes_required_fields_and_defaults() {
        let record = json!({ "type": "object", "required": ["text"], "properties": {
            "text": { "type": "string" }, "lang": { "type": "string", "default": "en" } } });
        let document = json!({ "lexicon": 1, "id": "com.example.note",
            "defs": { "main": { "type": "record", "key": "tid", "record": record } } });
        let schema = read(&row("record", &document)).unwrap();
        let expected =
            json!({ "key": "tid", "required": ["text"], "defaults": { "lang": "en" }, "record": record });
        assert_eq!(serde_json::from_slice::<Value>(&schema.summary).unwrap(), expected);
        assert_eq!(schema.key, KeyType::Tid);
        assert!(read(&row("query", &document)).is_none());
        assert!(read(&row("record", &json!({}))).is_none());
    }
}
