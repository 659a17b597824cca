//! Makes the schemas of the types that handlers take and return.

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::comments::plain;
use crate::api::types::Types;

/// Makes schemas: a request is what is read, an answer what is written.
pub(super) struct Schemas {
    requests: SchemaGenerator,
    answers: SchemaGenerator,
}

impl Schemas {
    pub fn new() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
        });
        Self {
            requests: settings.clone().for_deserialize().into_generator(),
            answers: settings.for_serialize().into_generator(),
        }
    }

    /// The parameters of the query.
    pub fn parameters(&mut self, types: &Types) -> Vec<Value> {
        let Some(query) = (types.query)(&mut self.requests) else { return Vec::new() };
        let query = tidied(query.to_value(), Null::Absent);
        let required = query["required"].as_array().cloned().unwrap_or_default();
        let fields = query["properties"].as_object().into_iter().flatten();
        let parameters = fields.map(|(name, schema)| {
            let mut schema = schema.clone();
            let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
            let is_required = required.iter().any(|field| field == name);
            let mut parameter =
                json!({ "name": name, "in": "query", "required": is_required, "schema": schema });
            if let Some(description) = description {
                parameter["description"] = description;
            }
            parameter
        });
        parameters.collect()
    }

    /// The content of the body.
    pub fn body(&mut self, types: &Types) -> Option<Value> {
        let (media, schema) = (types.body)(&mut self.requests)?;
        Some(json!({ media: { "schema": tidied(schema.to_value(), Null::Same) } }))
    }

    /// The statuses with their content.
    pub fn answers(&mut self, types: &Types) -> Vec<(u16, Option<Value>)> {
        let kinds = (types.answers)(&mut self.answers).into_iter();
        let content = |(media, schema): (&str, schemars::Schema)| json!({ media: { "schema": tidied(schema.to_value(), Null::Absent) } });
        kinds.map(|(status, kind)| (status, kind.map(content))).collect()
    }

    /// All types that have a name.
    pub fn named(mut self) -> Map<String, Value> {
        let mut all = Map::new();
        let requests = self.requests.take_definitions(false).into_iter().map(|named| (named, Null::Same));
        let answers = self.answers.take_definitions(false).into_iter().map(|named| (named, Null::Absent));
        for ((name, schema), null) in requests.chain(answers) {
            assert!(!name.ends_with(|c: char| c.is_ascii_digit()), "there is another type like {name}");
            let schema = tidied(schema, null);
            let before = all.insert(name.clone(), schema.clone());
            assert!(before.is_none_or(|before| before == schema), "two types are called {name}");
        }
        all
    }
}

/// The meaning of null in a field that may be absent.
#[derive(Clone, Copy, PartialEq)]
enum Null {
    /// The same (admin-api.md §1.1).
    Same,
    /// The field is never null: it is absent instead.
    Absent,
}

/// A schema without what only Rust knows: the widths of numbers, defaults, and links in descriptions. Objects have no
/// further fields.
fn tidied(schema: Value, null: Null) -> Value {
    let Value::Object(mut fields) = schema else {
        return if schema == true { json!({}) } else { schema };
    };
    fields.remove("default");
    if fields
        .get("type")
        .is_some_and(|kind| kind.to_string().contains("integer") || kind.to_string().contains("number"))
    {
        fields.remove("format");
    }
    if fields.get("type").is_some_and(|kind| kind == "object") {
        fields.entry("additionalProperties").or_insert(false.into());
    }
    if let Some(Value::String(description)) = fields.get_mut("description") {
        *description = plain(description);
    }
    let required: Vec<Value> = fields.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    for (name, inner) in &mut fields {
        match (name.as_str(), inner) {
            ("properties", Value::Object(properties)) => {
                for (name, property) in properties {
                    *property = tidied(property.take(), null);
                    if !required.iter().any(|field| field == name) {
                        match null {
                            Null::Same => allow_null(property),
                            Null::Absent => forbid_null(property),
                        }
                    }
                }
            }
            ("items" | "additionalProperties", inner) if *inner != false => {
                *inner = tidied(inner.take(), null);
            }
            ("anyOf" | "oneOf", Value::Array(kinds)) => {
                for kind in kinds {
                    *kind = tidied(kind.take(), null);
                }
            }
            _ => {}
        }
    }
    fields.into()
}

fn allow_null(schema: &mut Value) {
    if schema.get("$ref").is_some() {
        *schema = json!({ "anyOf": [schema.take(), { "type": "null" }] });
    } else if let Some(kind) = schema["type"].as_str() {
        schema["type"] = json!([kind, "null"]);
    }
}

fn forbid_null(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    let only = |kinds: &mut Value, is_null: fn(&Value) -> bool| {
        let kinds = kinds.as_array_mut()?;
        kinds.retain(|kind| !is_null(kind));
        (kinds.len() == 1).then(|| kinds.remove(0))
    };
    if let Some(kind) = fields.get_mut("type").and_then(|kinds| only(kinds, |kind| kind == "null")) {
        fields.insert("type".to_owned(), kind);
    }
    let kind = fields.get_mut("anyOf").and_then(|kinds| only(kinds, |kind| kind["type"] == "null"));
    if let Some(Value::Object(kind)) = kind {
        fields.remove("anyOf");
        fields.extend(kind);
    }
}
