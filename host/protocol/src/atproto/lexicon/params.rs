//! Reads the parameters of a method, which arrive as text, as the values that its lexicon declares, and adds defaults to inputs
//! (specs/xrpc, Lexicon HTTP Endpoints; specs/lexicon, `params`).

use bytes::Bytes;
use memchr::memmem;
use serde_json::{Map, Value};

use super::plan::{Object, Type};

/// The parameters as an object: those that the lexicon declares as values of their types, arrays from repeated names, and defaults for
/// what is missing. A text that is no value of its type stays a text, and so does what the lexicon does not declare, as an array if
/// it is repeated: the validation names what is wrong.
pub(super) fn read(params: &Object, given: &[(String, String)]) -> Map<String, Value> {
    let mut read = Map::new();
    for (name, text) in given {
        let schema = params.property(name).map(|property| &property.schema);
        match (schema, read.get_mut(name)) {
            (Some(Type::Array { items, .. }), Some(Value::Array(values))) => values.push(value(items, text)),
            (Some(Type::Array { items, .. }), _) => {
                read.insert(name.clone(), Value::Array(vec![value(items, text)]));
            }
            (_, Some(Value::Array(values))) => values.push(text.as_str().into()),
            (_, Some(first)) => {
                let first = first.take();
                read.insert(name.clone(), Value::Array(vec![first, text.as_str().into()]));
            }
            (schema, None) => {
                read.insert(
                    name.clone(),
                    schema.map_or_else(|| text.as_str().into(), |schema| value(schema, text)),
                );
            }
        }
    }
    for (name, default) in &params.defaults {
        if !read.contains_key(&**name) {
            read.insert(name.to_string(), default.clone());
        }
    }
    read
}

/// The JSON text of an object, with the defaults of its schema for fields that are missing. A null counts as missing, unless the schema
/// allows it: clients send it for what they leave out.
pub(super) fn complete(schema: &Object, text: Bytes) -> Bytes {
    if schema.defaults.is_empty() && memmem::find(&text, b"null").is_none() {
        return text;
    }
    let Ok(mut fields) = serde_json::from_slice::<Map<String, Value>>(&text) else { return text };
    let is_missing = |name: &str| schema.property(name).is_some_and(|property| !property.is_nullable);
    fields.retain(|name, value| !(value.is_null() && is_missing(name)));
    for (name, default) in &schema.defaults {
        fields.entry(&**name).or_insert_with(|| default.clone());
    }
    serde_json::to_vec(&fields).map_or(text, Bytes::from)
}

/// The value that a text has as a type.
fn value(schema: &Type, text: &str) -> Value {
    match (schema, text) {
        (Type::Boolean { .. }, "true" | "1") => true.into(),
        (Type::Boolean { .. }, "false" | "0") => false.into(),
        (Type::Integer(_), _) => text.parse::<i64>().map_or_else(|_| text.into(), Value::from),
        _ => text.into(),
    }
}
