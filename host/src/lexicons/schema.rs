//! Summarizes a record lexicon for scripts.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::atproto::lexicon::{LexiconDoc, LexiconKind};
use crate::store::lexicons::LexiconRow;

/// `{key, required, defaults, record}` of a record lexicon as JSON text: its key type, the names of the fields that a
/// record must have, the fields that have a default, and the schema as it was uploaded.
pub(super) fn for_scripts(row: &LexiconRow) -> Option<Bytes> {
    if LexiconKind::from_name(&row.lexicon_type) != LexiconKind::Record {
        return None;
    }
    let document: Value = serde_json::from_str(&row.lexicon_json).ok()?;
    let lexicon = LexiconDoc::parse(&document).ok()?;
    let required: Vec<&str> = lexicon.required_fields().collect();
    let defaults: Map<String, Value> =
        lexicon.default_fields().map(|(name, value)| (name.to_owned(), value.clone())).collect();
    let schema = json!({
        "key": lexicon.key.as_deref().unwrap_or("any"),
        "required": required,
        "defaults": defaults,
        "record": lexicon.record_schema,
    });
    Some(schema.to_string().into())
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
            created_at: crate::clock::Timestamp(0),
            updated_at: crate::clock::Timestamp(0),
        }
    }

    #[test]
    fn summarizes_required_fields_and_defaults() {
        let record = json!({ "type": "object", "required": ["text"], "properties": {
            "text": { "type": "string" }, "lang": { "type": "string", "default": "en" } } });
        let document = json!({ "lexicon": 1, "id": "com.example.note",
            "defs": { "main": { "type": "record", "key": "tid", "record": record } } });
        let schema: Value = serde_json::from_slice(&for_scripts(&row("record", &document)).unwrap()).unwrap();
        let expected =
            json!({ "key": "tid", "required": ["text"], "defaults": { "lang": "en" }, "record": record });
        assert_eq!(schema, expected);
        assert_eq!(for_scripts(&row("query", &document)), None);
        assert_eq!(for_scripts(&row("record", &json!({}))), None);
    }
}
