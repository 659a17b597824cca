//! Whether a record is what its lexicon says.

use std::fmt;

use serde_json::Value;
use shrike::lexicon::{Catalog, ValidationError, ValidationErrorKind, validate_record};

/// Complaints that are named at once: enough to repair a form, few enough to read.
const MOST: usize = 10;

/// The documents of all lexicons, to compare records with.
#[derive(Default)]
pub struct Schemas(Catalog);

/// What is wrong with a record, one complaint after the other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("; "))]
pub struct Mismatch(Vec<String>);

impl Schemas {
    /// Of documents that were checked when they were uploaded. One that can't be read here is left out: its records are
    /// then compared with nothing, and their PDS has the last word on all of them anyway.
    pub fn new<'a>(documents: impl Iterator<Item = &'a str>) -> Self {
        let mut catalog = Catalog::new();
        for document in documents {
            if let Err(error) = catalog.add_schema(document.as_bytes()) {
                tracing::warn!(%error, "records can't be compared with a lexicon");
            }
        }
        Self(catalog)
    }

    /// Compares a record with its collection's lexicon. What that refers to and is not here counts as right.
    ///
    /// # Errors
    /// The first complaints.
    pub fn check(&self, collection: &str, record: &Value) -> Result<(), Mismatch> {
        let Err(error) = validate_record(&self.0, collection, record) else { return Ok(()) };
        let mut complaints = Vec::new();
        gather(error, &mut complaints);
        complaints.truncate(MOST);
        if complaints.is_empty() { Ok(()) } else { Err(Mismatch(complaints)) }
    }
}

fn gather(error: ValidationError, complaints: &mut Vec<String>) {
    match error {
        ValidationError::Multiple(errors) => errors.into_iter().for_each(|error| gather(error, complaints)),
        ValidationError::UnknownCollection(_) | ValidationError::Schema(_) => {}
        ValidationError::Field { kind: ValidationErrorKind::Other(text), .. }
            if text.starts_with("unresolved") => {}
        field @ ValidationError::Field { .. } => complaints.push(field.to_string()),
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
    fn complaints_name_the_field() {
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
    fn what_is_not_here_is_not_judged() {
        let with_ref = json!({ "text": "a", "other": { "anything": 1 } });
        assert_eq!(schemas().check("com.example.note", &with_ref), Ok(()));
        assert_eq!(schemas().check("com.example.unknown", &json!({})), Ok(()));
    }
}
