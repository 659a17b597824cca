//! Validates records against their lexicons.

use std::fmt;

use bytes::Bytes;
use serde_json::Value;
use shrike::lexicon::{Catalog, ValidationError, ValidationErrorKind, validate_record};

use super::{accept, arrays};

/// The errors that are reported at once: enough to repair a form, few enough to read.
const MAX_ERRORS: usize = 10;

/// The schemas of all lexicons, against which records are validated.
#[derive(Default)]
pub struct Schemas(Catalog);

/// Why a record does not match its lexicon: one message for each error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("; "))]
pub struct SchemaErrors(Vec<String>);

impl Schemas {
    /// Reads documents that were checked when they were uploaded. A document that can't be read is left out: its
    /// records are then not validated here. Their PDS validates every record anyway.
    pub fn new<'a>(documents: impl Iterator<Item = &'a str>) -> Self {
        let mut catalog = Catalog::new();
        for document in documents {
            if let Err(error) = catalog.add_schema(document.as_bytes()) {
                tracing::warn!(%error, "a lexicon can't be read: its records are not validated");
            }
        }
        Self(catalog)
    }

    /// As [`Self::check`], for the text of a record and its canonical DAG-CBOR, of which only the latter is read unless the
    /// record looks invalid.
    ///
    /// # Errors
    /// The first errors, at most 10.
    pub fn validate(&self, collection: &str, text: &[u8], cbor: &[u8]) -> Result<(), SchemaErrors> {
        if accept::accepts(&self.0, collection, cbor) {
            return Ok(());
        }
        match serde_json::from_slice(text) {
            Ok(record) => self.check(collection, &record),
            Err(error) => Err(SchemaErrors(vec![error.to_string()])),
        }
    }

    /// Validates a record against its collection's lexicon. Values whose lexicon is missing here count as valid.
    ///
    /// # Errors
    /// The first errors, at most 10.
    pub fn check(&self, collection: &str, record: &Value) -> Result<(), SchemaErrors> {
        let Err(error) = validate_record(&self.0, collection, record) else { return Ok(()) };
        let mut messages = Vec::new();
        gather(error, &mut messages);
        messages.truncate(MAX_ERRORS);
        if messages.is_empty() { Ok(()) } else { Err(SchemaErrors(messages)) }
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

fn gather(error: ValidationError, messages: &mut Vec<String>) {
    match error {
        ValidationError::Multiple(errors) => errors.into_iter().for_each(|error| gather(error, messages)),
        ValidationError::UnknownCollection(_) | ValidationError::Schema(_) => {}
        ValidationError::Field { kind: ValidationErrorKind::Other(text), .. }
            if text.starts_with("unresolved") => {}
        field @ ValidationError::Field { .. } => messages.push(field.to_string()),
    }
}

impl fmt::Debug for Schemas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Schemas")
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
        let check = |record: Value| schemas().check("com.example.note", &record).map_err(|e| e.to_string());
        assert_eq!(check(json!({ "text": "short", "more": 1 })), Ok(()));
        let error = check(json!({ "text": "too long", "at": "yesterday" })).unwrap_err();
        assert!(
            error.contains("record.text: string too long") && error.contains("record.at: invalid"),
            "{error}"
        );
        assert_eq!(error.matches("; ").count(), 1, "{error}");
        let missing = check(json!({})).unwrap_err();
        assert!(missing.contains("text: required field missing"), "{missing}");
    }

    #[test]
    fn values_without_a_lexicon_are_not_validated() {
        let with_ref = json!({ "text": "a", "other": { "anything": 1 } });
        assert_eq!(schemas().check("com.example.note", &with_ref), Ok(()));
        assert_eq!(schemas().check("com.example.unknown", &json!({})), Ok(()));
    }
}
