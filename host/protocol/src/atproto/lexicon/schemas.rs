//! Validates records against their lexicons.

use bytes::Bytes;
use serde_json::Value;

use super::arrays;
use super::plan::Plan;
use super::validate::{first_unencodable, validate};
use crate::atproto::record;

/// The schemas of all lexicons, against which records are validated.
#[derive(Debug, Default)]
pub struct Schemas(Plan);

/// The errors of a record that does not match its lexicon, one message each.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("; "))]
pub struct SchemaErrors(Vec<String>);

impl Schemas {
    /// Reads documents that were checked when they were uploaded. A document that can't be read is left out: its
    /// records are then not validated here.
    pub fn new<'a>(documents: impl Iterator<Item = &'a str>) -> Self {
        Self(Plan::new(documents))
    }

    /// Validates the canonical DAG-CBOR of a record against its collection's lexicon. Values whose lexicon is missing here
    /// count as valid. The work is at most linear in the size of the record.
    ///
    /// # Errors
    /// The first errors, at most 10.
    pub fn validate(&self, collection: &str, cbor: &[u8]) -> Result<(), SchemaErrors> {
        let errors = validate(&self.0, collection, cbor);
        if errors.is_empty() { Ok(()) } else { Err(SchemaErrors(errors)) }
    }

    /// Like [`Self::validate`], for a record that may have no DAG-CBOR form.
    ///
    /// # Errors
    /// The first errors, at most 10; of a record that can't be encoded, the first value that the data model does not have.
    pub fn check(&self, collection: &str, record: &Value) -> Result<(), SchemaErrors> {
        if self.0.record(collection).is_none() {
            return Ok(());
        }
        let error = match record::to_cbor(record.to_string().as_bytes()) {
            Ok(Ok(cbor)) => return self.validate(collection, &cbor),
            Ok(Err(why)) => first_unencodable(record).unwrap_or_else(|| why.to_string()),
            Err(invalid) => invalid.to_string(),
        };
        Err(SchemaErrors(vec![error]))
    }

    /// The text of a record, in which `[]` replaces each `{}` that the collection's lexicon declares as an array.
    pub fn record_with_arrays(&self, collection: &str, text: Bytes) -> Bytes {
        arrays::mend(text, |text| arrays::of_record(&self.0, collection, text))
    }

    /// The same for the text of a query's or a procedure's output.
    pub fn output_with_arrays(&self, method: &str, text: Bytes) -> Bytes {
        arrays::mend(text, |text| arrays::of_output(&self.0, method, text))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schemas() -> Schemas {
        let note = json!({ "lexicon": 1, "id": "com.example.note", "defs": { "main": {
            "type": "record", "key": "tid", "record": { "type": "object", "required": ["text"], "properties": {
                "text": { "type": "string", "maxLength": 5 },
                "at": { "type": "string", "format": "datetime" },
                "other": { "type": "ref", "ref": "com.example.elsewhere#thing" } } } } } });
        Schemas::new([note.to_string().as_str(), "no lexicon"].into_iter())
    }

    #[test]
    fn errors_name_the_field() {
        let check = |mut record: Value| {
            record["$type"] = "com.example.note".into();
            schemas().check("com.example.note", &record).map_err(|e| e.to_string())
        };
        assert_eq!(check(json!({ "text": "short", "more": 1 })), Ok(()));
        let error = check(json!({ "text": "too long", "at": "yesterday" })).unwrap_err();
        let text = "at record.text: string too long: max 5 bytes, got 8";
        assert_eq!(error, format!("at record.at: invalid datetime: \"yesterday\"; {text}"));
        assert_eq!(check(json!({})).unwrap_err(), "at record.text: required field missing");
        let error = check(json!({ "text": "a", "more": [0.5] })).unwrap_err();
        assert_eq!(error, "at record.more[0]: a number is not a 64-bit integer");
    }

    #[test]
    fn values_without_a_lexicon_are_not_validated() {
        let with_ref = json!({ "$type": "com.example.note", "text": "a", "other": { "anything": 1 } });
        assert_eq!(schemas().check("com.example.note", &with_ref), Ok(()));
        assert_eq!(schemas().check("com.example.unknown", &json!({})), Ok(()));
    }
}
