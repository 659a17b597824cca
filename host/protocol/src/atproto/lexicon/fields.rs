//! Lists the fields of a collection's records, as its lexicon declares them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Objects within objects that are opened. Deeper ones are one field each.
const MAX_LEVELS: usize = 4;

/// Fields of a collection. More make no table.
const MAX_FIELDS: usize = 200;

/// The definition that most lexicons refer to. It is the protocol's own, and seldom uploaded.
const STRONG_REF: &str = "com.atproto.repo.strongRef";

/// A field with a value of its own: no object whose properties are fields themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordField {
    /// The names of the properties, from the record down.
    pub path: Vec<String>,
    pub kind: FieldKind,
    /// The format of a text.
    pub format: Option<String>,
    /// The values that the lexicon lists or proposes.
    pub values: Vec<String>,
    /// Whether each record has it.
    pub is_required: bool,
}

/// The kind of a field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    Text,
    Integer,
    Boolean,
    List,
    /// A blob, a link, a union, or anything else that is an object or unknown.
    Object,
}

/// The fields of the records of a collection: required ones first, as the lexicon lists them, then the others by name. The
/// properties of an object stand in its place.
pub fn record_fields(collection: &str, documents: &BTreeMap<&str, Value>) -> Vec<RecordField> {
    let mut walk = Walk { documents, fields: Vec::new(), within: Vec::new() };
    if let Some(record) = documents.get(collection).and_then(|document| document.pointer("/defs/main/record"))
    {
        walk.properties(record, collection, &[], true);
    }
    walk.fields
}

struct Walk<'a> {
    documents: &'a BTreeMap<&'a str, Value>,
    fields: Vec<RecordField>,
    /// The definitions that the walk is in, so that it does not go in a circle.
    within: Vec<(String, String)>,
}

impl Walk<'_> {
    fn properties(&mut self, object: &Value, lexicon: &str, path: &[String], is_required: bool) {
        let none = Map::new();
        let properties = object["properties"].as_object().unwrap_or(&none);
        let required: Vec<&str> =
            object["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let others = properties.keys().map(String::as_str).filter(|name| !required.contains(name));
        for (name, is_required) in
            required.iter().map(|name| (*name, is_required)).chain(others.map(|name| (name, false)))
        {
            let Some(schema) = properties.get(name) else { continue };
            let path: Vec<String> = path.iter().cloned().chain([name.to_owned()]).collect();
            self.field(schema, lexicon, path, is_required);
        }
    }

    fn field(&mut self, schema: &Value, lexicon: &str, path: Vec<String>, is_required: bool) {
        if self.fields.len() >= MAX_FIELDS {
            return;
        }
        let kind = match schema["type"].as_str().unwrap_or_default() {
            "ref" => return self.reference(schema, lexicon, path, is_required),
            "object" if is_open(schema, &path) => {
                return self.properties(schema, lexicon, &path, is_required);
            }
            "string" => FieldKind::Text,
            "integer" => FieldKind::Integer,
            "boolean" => FieldKind::Boolean,
            "array" => FieldKind::List,
            _ => FieldKind::Object,
        };
        let values = ["enum", "knownValues"].into_iter().filter_map(|name| schema[name].as_array());
        let values = values.flatten().filter_map(|value| match value {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        });
        let format = schema["format"].as_str().map(str::to_owned);
        self.fields.push(RecordField { path, kind, format, values: values.collect(), is_required });
    }

    fn reference(&mut self, schema: &Value, lexicon: &str, path: Vec<String>, is_required: bool) {
        let reference = schema["ref"].as_str().unwrap_or_default();
        let reference = reference.strip_prefix("lex:").unwrap_or(reference);
        let (target, name) = reference.split_once('#').unwrap_or((reference, "main"));
        let target = if target.is_empty() { lexicon } else { target };
        let place = (target.to_owned(), name.to_owned());
        let documents = self.documents;
        let strong_ref;
        let found = match documents.get(target) {
            Some(document) => &document["defs"][name],
            None if (target, name) == (STRONG_REF, "main") => {
                strong_ref = serde_json::json!({ "type": "object", "required": ["uri", "cid"], "properties": {
                    "uri": { "type": "string", "format": "at-uri" },
                    "cid": { "type": "string", "format": "cid" },
                } });
                &strong_ref
            }
            None => &Value::Null,
        };
        if self.within.contains(&place) {
            return self.field(&Value::Null, target, path, is_required);
        }
        self.within.push(place);
        self.field(found, target, path, is_required);
        self.within.pop();
    }
}

/// Whether an object's properties are fields.
fn is_open(object: &Value, path: &[String]) -> bool {
    path.len() < MAX_LEVELS
        && object["properties"].as_object().is_some_and(|properties| !properties.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn paths(fields: &[RecordField]) -> Vec<String> {
        fields.iter().map(|field| field.path.join(".")).collect()
    }

    #[test]
    fn objects_are_opened_and_references_followed() {
        let post = json!({ "lexicon": 1, "id": "com.example.post", "defs": {
            "main": { "type": "record", "record": { "type": "object", "required": ["text", "mood", "absent"], "properties": {
                "size": { "type": "object", "required": ["width"], "properties": {
                    "width": { "type": "integer" }, "unit": { "type": "string" } } },
                "subject": { "type": "ref", "ref": "lex:com.atproto.repo.strongRef" },
                "tags": { "type": "array", "items": { "type": "string" } },
                "parent": { "type": "ref", "ref": "#parent" },
                "missing": { "type": "ref", "ref": "com.example.other#x" },
                "empty": { "type": "object" },
                "mood": { "type": "string", "knownValues": ["good", "bad"] },
                "text": { "type": "string", "format": "language" },
            } } },
            "parent": { "type": "object", "properties": {
                "open": { "type": "boolean" }, "parent": { "type": "ref", "ref": "com.example.post#parent" } } },
        } });
        let documents = BTreeMap::from([("com.example.post", post)]);
        let fields = record_fields("com.example.post", &documents);
        assert_eq!(
            paths(&fields),
            [
                "text",
                "mood",
                "empty",
                "missing",
                "parent.open",
                "parent.parent",
                "size.width",
                "size.unit",
                "subject.uri",
                "subject.cid",
                "tags"
            ]
        );
        let of = |path: &str| fields.iter().find(|field| field.path.join(".") == path).unwrap();
        assert_eq!((of("text").kind, of("text").format.as_deref()), (FieldKind::Text, Some("language")));
        assert_eq!(of("mood").values, ["good", "bad"]);
        assert!(of("mood").is_required && !of("size.width").is_required && !of("tags").is_required);
        assert_eq!(of("parent.parent").kind, FieldKind::Object);
        assert_eq!(of("parent.open").kind, FieldKind::Boolean);
        assert_eq!((of("tags").kind, of("size.width").kind), (FieldKind::List, FieldKind::Integer));
        assert!(record_fields("com.example.other", &documents).is_empty());
    }

    #[test]
    fn the_number_of_fields_is_bounded() {
        let mut defs = json!({ "main": { "type": "record", "record": { "type": "ref", "ref": "#a0" } } });
        let names = ["a0", "a1", "a2", "a3"];
        for (n, name) in names.iter().enumerate() {
            let next = names.get(n + 1).map_or(
                json!({ "type": "string" }),
                |next| json!({ "type": "ref", "ref": format!("#{next}") }),
            );
            let properties: Map<String, Value> = (0..30).map(|n| (format!("p{n}"), next.clone())).collect();
            defs[*name] = json!({ "type": "object", "properties": properties });
        }
        defs["main"]["record"] = defs["a0"].clone();
        let documents = BTreeMap::from([("com.example.big", json!({ "defs": defs }))]);
        assert_eq!(record_fields("com.example.big", &documents).len(), MAX_FIELDS);
    }
}
