//! Validates records against their lexicons.

use bytes::Bytes;
use serde_json::{Map, Value};

use super::format::Format;
use super::plan::{Plan, Type};
use super::validate::{first_unencodable, validate, validate_body, validate_params};
use super::{arrays, params};
use crate::atproto::record::{self, InvalidRecord, Unencodable};

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

    /// The parameters of a call of a method, as its lexicon declares them. `None` for a method without a lexicon here.
    ///
    /// # Errors
    /// The differences from the lexicon, at most 10.
    pub fn params(
        &self,
        method: &str,
        given: &[(String, String)],
    ) -> Result<Option<Map<String, Value>>, SchemaErrors> {
        let Some(method) = self.0.method(method) else { return Ok(None) };
        let read = params::read(&method.params, given);
        if method.params.is_empty() {
            return Ok(Some(read));
        }
        let text = serde_json::to_vec(&read).unwrap_or_default();
        check("params", record::to_cbor(&text), |cbor| validate_params(&self.0, &method.params, cbor))?;
        Ok(Some(read))
    }

    /// The format that a method's lexicon declares for a parameter, or for each value of one that is an array.
    pub fn param_format(&self, method: &str, name: &str) -> Option<Format> {
        let schema = &self.0.method(method)?.params.property(name)?.schema;
        let schema = if let Type::Array { items, .. } = schema { items } else { schema };
        if let Type::String(strings) = schema { strings.format } else { None }
    }

    /// The JSON text of a procedure's input, with the defaults of its lexicon for fields that are missing, and without optional ones
    /// that are null. Anything is right without a lexicon here, or if it names no schema.
    ///
    /// # Errors
    /// The differences from the lexicon, at most 10.
    pub fn input(&self, method: &str, text: Bytes) -> Result<Bytes, SchemaErrors> {
        let Some(schema) = self.0.method(method).and_then(|method| method.input.as_ref()) else {
            return Ok(text);
        };
        let text = match self.0.object(schema) {
            Some(object) => params::complete(object, text),
            None => text,
        };
        check("input", record::to_cbor(&text), |cbor| validate_body(&self.0, "input", schema, cbor))?;
        Ok(text)
    }

    /// Checks the JSON text of a method's output, as [`Self::input`] checks an input. Those above 1 MiB or 64 levels, which no record has,
    /// are not checked.
    ///
    /// # Errors
    /// The differences from the lexicon, at most 10.
    pub fn check_output(&self, method: &str, text: &[u8]) -> Result<(), SchemaErrors> {
        let Some(schema) = self.0.method(method).and_then(|method| method.output.as_ref()) else {
            return Ok(());
        };
        match record::to_cbor(text) {
            Err(InvalidRecord::TooLarge | InvalidRecord::TooDeep) => Ok(()),
            encoded => check("output", encoded, |cbor| validate_body(&self.0, "output", schema, cbor)),
        }
    }

    /// Whether the union of a subscription's messages names a type, by its full name.
    pub fn has_message(&self, method: &str, name: &str) -> bool {
        let message = self.0.method(method).and_then(|method| method.message.as_ref());
        let Some(Type::Union { members, .. }) = message else { return false };
        members.binary_search_by(|(member, _)| (**member).cmp(name)).is_ok()
    }

    /// Encodes a message of a subscription as DAG-CBOR and checks it against the union of its lexicon.
    ///
    /// # Errors
    /// The differences from the lexicon, at most 10.
    pub fn encode_message(&self, method: &str, text: &[u8]) -> Result<Vec<u8>, SchemaErrors> {
        let message = self.0.method(method).and_then(|method| method.message.as_ref());
        let errors = match record::to_cbor(text) {
            Ok(Ok(cbor)) => {
                let errors = message.map(|schema| validate_body(&self.0, "message", schema, &cbor));
                match errors.filter(|errors| !errors.is_empty()) {
                    Some(errors) => errors,
                    None => return Ok(cbor),
                }
            }
            Ok(Err(why)) => vec![format!("at message: {why}")],
            Err(invalid) => vec![format!("at message: {invalid}")],
        };
        Err(SchemaErrors(errors))
    }

    /// Whether a property of a definition is declared as a link to a CID, and not as its text.
    pub fn is_link(&self, definition: &str, property: &str) -> bool {
        let object = self.0.named(definition).and_then(|schema| self.0.object(schema));
        let declared = object.and_then(|object| object.property(property));
        declared.is_some_and(|declared| matches!(declared.schema, Type::Link))
    }

    /// Whether a definition requires a property. `None` when it does not declare it.
    pub fn requires(&self, definition: &str, property: &str) -> Option<bool> {
        let object = self.0.named(definition).and_then(|schema| self.0.object(schema))?;
        object.property(property).map(|declared| declared.is_required)
    }

    /// The subprotocol that the lexicon of a subscription names as its default.
    pub fn subprotocol(&self, method: &str) -> Option<&str> {
        self.0.method(method)?.subprotocol.as_deref()
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

/// The errors that `validate` finds in an encoded text, of which `name` is what it is.
fn check(
    name: &str,
    encoded: Result<Result<Vec<u8>, Unencodable>, InvalidRecord>,
    validate: impl FnOnce(&[u8]) -> Vec<String>,
) -> Result<(), SchemaErrors> {
    let errors = match encoded {
        Ok(Ok(cbor)) => validate(&cbor),
        Ok(Err(why)) => vec![format!("at {name}: {why}")],
        Err(invalid) => vec![format!("at {name}: {invalid}")],
    };
    if errors.is_empty() { Ok(()) } else { Err(SchemaErrors(errors)) }
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
    fn parameters_are_what_their_lexicon_declares() {
        let list = json!({ "lexicon": 1, "id": "com.example.list", "defs": { "main": { "type": "query",
            "parameters": { "type": "params", "required": ["actor"], "properties": {
                "actor": { "type": "string", "format": "at-identifier" },
                "limit": { "type": "integer", "minimum": 1, "maximum": 100, "default": 50 },
                "deep": { "type": "boolean" },
                "tags": { "type": "array", "maxLength": 2, "items": { "type": "string" } },
                "ids": { "type": "array", "items": { "type": "integer" } },
                "more": { "type": "unknown" } } } } } });
        let schemas = Schemas::new(std::iter::once(list.to_string().as_str()));
        let read = |query: &str| {
            let given: Vec<(String, String)> = query
                .split('&')
                .filter_map(|pair| pair.split_once('='))
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect();
            schemas
                .params("com.example.list", &given)
                .map(|params| params.map(Value::from))
                .map_err(|e| e.to_string())
        };
        let all =
            read("actor=a.test&limit=7&deep=1&tags=x&ids=1&tags=y&more=z&other=1&twice=1&twice=2").unwrap();
        assert_eq!(
            all,
            Some(
                json!({ "actor": "a.test", "limit": 7, "deep": true, "tags": ["x", "y"], "ids": [1], "more": "z",
                "other": "1", "twice": ["1", "2"] })
            )
        );
        assert_eq!(
            read("actor=did:plc:a&deep=false"),
            Ok(Some(json!({ "actor": "did:plc:a", "limit": 50, "deep": false })))
        );
        for (query, error) in [
            ("", "at params.actor: required field missing"),
            ("actor=-", "at params.actor: invalid at-identifier: \"-\""),
            ("actor=a.test&limit=101", "at params.limit: integer too large: max 100, got 101"),
            ("actor=a.test&limit=ten", "at params.limit: expected integer, got string"),
            ("actor=a.test&limit=1&limit=2", "at params.limit: expected integer, got array"),
            ("actor=a.test&deep=yes", "at params.deep: expected boolean, got string"),
            ("actor=a.test&ids=1&ids=b", "at params.ids[1]: expected integer, got string"),
            ("actor=a.test&tags=1&tags=2&tags=3", "at params.tags: array too long: max 2 items, got 3"),
        ] {
            assert_eq!(read(query).unwrap_err(), error, "{query}");
        }
        assert_eq!(schemas.params("com.example.other", &[]), Ok(None));
    }

    #[test]
    fn inputs_are_what_their_lexicon_declares() {
        let put = json!({ "lexicon": 1, "id": "com.example.put", "defs": { "main": { "type": "procedure",
            "input": { "encoding": "application/json", "schema": { "type": "object", "required": ["text"],
                "properties": { "text": { "type": "string", "maxLength": 5 },
                    "n": { "type": "integer", "default": 3 } } } },
            "output": { "encoding": "application/json", "schema": { "type": "ref", "ref": "#out" } } },
            "out": { "type": "object", "required": ["at"], "properties": { "at": { "type": "integer" } } } } });
        let schemas = Schemas::new(std::iter::once(put.to_string().as_str()));
        let read = |text: &'static str| {
            let read = schemas.input("com.example.put", Bytes::from_static(text.as_bytes()));
            read.map(|text| serde_json::from_slice(&text).unwrap()).map_err(|e| e.to_string())
        };
        assert_eq!(read(r#"{"text":"short","more":1}"#), Ok(json!({ "text": "short", "more": 1, "n": 3 })));
        assert_eq!(read(r#"{"text":"short","n":null}"#), Ok(json!({ "text": "short", "n": 3 })));
        assert_eq!(read(r#"{"text":null}"#).unwrap_err(), "at input.text: required field missing");
        assert_eq!(read("{}").unwrap_err(), "at input.text: required field missing");
        assert_eq!(read(r#"{"text":1}"#).unwrap_err(), "at input.text: expected string, got integer");
        assert_eq!(schemas.input("com.example.other", "7".into()), Ok("7".into()));

        let check =
            |text: &str| schemas.check_output("com.example.put", text.as_bytes()).map_err(|e| e.to_string());
        assert_eq!(check(r#"{"at":1}"#), Ok(()));
        assert_eq!(check("{}").unwrap_err(), "at output.at: required field missing");
        // Right answers of trees may nest deeper than records may.
        let deep = |levels: usize| format!(r#"{{"below":{}{}}}"#, "[".repeat(levels), "]".repeat(levels));
        assert_eq!(check(&deep(63)).unwrap_err(), "at output.at: required field missing");
        assert_eq!(check(&deep(64)), Ok(()));
        assert_eq!(check(&format!(r#"{{"more":"{}"}}"#, "a".repeat(1 << 20))), Ok(()));
    }

    #[test]
    fn values_without_a_lexicon_are_not_validated() {
        let with_ref = json!({ "$type": "com.example.note", "text": "a", "other": { "anything": 1 } });
        assert_eq!(schemas().check("com.example.note", &with_ref), Ok(()));
        assert_eq!(schemas().check("com.example.unknown", &json!({})), Ok(()));
    }
}
