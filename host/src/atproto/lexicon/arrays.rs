//! Finds the empty arrays that a script's JSON writes as `{}`: in Lua an empty table is both an empty array and an empty
//! object, and the lexicon knows which one is meant. References are followed to the lexicons that are known; values of
//! other types, and values that no lexicon describes, stay as they are.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

use bytes::Bytes;
use memchr::memmem::Finder;
use serde::Deserialize;
use serde_json::value::RawValue;
use shrike::lexicon::{Catalog, Def, FieldSchema, ObjectDef, Schema, split_ref};

/// An empty table, as the guest's encoder writes it.
const EMPTY: &str = "{}";

static FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(EMPTY));

/// How deep values are followed, twice as deep as a record may nest. Bounds the recursion, since lexicons may refer to
/// themselves.
const MAX_DEPTH: usize = 128;

/// Replaces `{}` by `[]` at the positions that `find` returns. It is called only for a text with `{}`.
pub(super) fn mend(text: Bytes, find: impl FnOnce(&str) -> Vec<usize>) -> Bytes {
    if FINDER.find(&text).is_none() {
        return text;
    }
    let found = std::str::from_utf8(&text).map(find).unwrap_or_default();
    if found.is_empty() {
        return text;
    }
    let mut bytes = Vec::from(text);
    for at in found {
        if let Some(empty) = bytes.get_mut(at..at + EMPTY.len()) {
            empty.copy_from_slice(b"[]");
        }
    }
    bytes.into()
}

/// The empty arrays in the text of a record.
pub(super) fn of_record(catalog: &Catalog, collection: &str, text: &str) -> Vec<usize> {
    find(catalog, collection, text, |main| match main {
        Def::Record(record) => Some(Shape::Object(&record.record)),
        _ => None,
    })
}

/// The empty arrays in the text of a method's output.
pub(super) fn of_output(catalog: &Catalog, method: &str, text: &str) -> Vec<usize> {
    find(catalog, method, text, |main| {
        let output = match main {
            Def::Query(query) => query.output.as_ref(),
            Def::Procedure(procedure) => procedure.output.as_ref(),
            _ => None,
        };
        output?.schema.as_ref().map(Shape::Field)
    })
}

fn find<'a>(
    catalog: &'a Catalog,
    nsid: &str,
    text: &'a str,
    shape: impl FnOnce(&'a Def) -> Option<Shape<'a>>,
) -> Vec<usize> {
    let mut search = Search { catalog, text, found: Vec::new() };
    if let Some(schema) = catalog.get(nsid)
        && let Some(shape) = schema.defs.get("main").and_then(shape)
    {
        search.value(text.trim(), schema, shape, 0);
    }
    search.found
}

/// What a lexicon says of a value.
#[derive(Clone, Copy)]
enum Shape<'a> {
    Field(&'a FieldSchema),
    Object(&'a ObjectDef),
    /// An array of such items.
    Array(&'a FieldSchema),
}

struct Search<'a> {
    catalog: &'a Catalog,
    text: &'a str,
    found: Vec<usize>,
}

impl<'a> Search<'a> {
    /// Searches a value, which is a part of the text. `schema` is the lexicon of its shape.
    fn value(&mut self, value: &'a str, schema: &'a Schema, shape: Shape<'a>, depth: usize) {
        if depth > MAX_DEPTH || FINDER.find(value.as_bytes()).is_none() {
            return;
        }
        match shape {
            Shape::Object(object) | Shape::Field(FieldSchema::Object(object)) => {
                for (name, member) in members(value) {
                    if let Some(field) = object.properties.get(&*name) {
                        self.value(member.get(), schema, Shape::Field(field), depth + 1);
                    }
                }
            }
            Shape::Field(FieldSchema::Array { items, .. }) => {
                self.value(value, schema, Shape::Array(items), depth);
            }
            Shape::Array(items) => {
                if value == EMPTY {
                    // A raw value is a slice of the text, so its address gives its position.
                    self.found.push(value.as_ptr().addr() - self.text.as_ptr().addr());
                } else if let Ok(list) = serde_json::from_str::<Vec<&RawValue>>(value) {
                    for item in list {
                        self.value(item.get(), schema, Shape::Field(items), depth + 1);
                    }
                }
            }
            Shape::Field(FieldSchema::Ref { reference, .. }) => self.referred(value, schema, reference, depth),
            Shape::Field(FieldSchema::Union { .. }) => {
                if let Ok(Typed { kind }) = serde_json::from_str(value) {
                    self.referred(value, schema, &kind, depth);
                }
            }
            Shape::Field(_) => {}
        }
    }

    /// Searches a value that the definition `reference` describes.
    fn referred(&mut self, value: &'a str, schema: &'a Schema, reference: &str, depth: usize) {
        let (nsid, name) = split_ref(&schema.id, reference);
        let Some(schema) = self.catalog.get(&nsid) else { return };
        let shape = match schema.defs.get(name) {
            Some(Def::Object(object)) => Shape::Object(object),
            Some(Def::Record(record)) => Shape::Object(&record.record),
            Some(Def::ArrayDef(array)) => Shape::Array(&array.items),
            _ => return,
        };
        self.value(value, schema, shape, depth + 1);
    }
}

/// The type of a value of a union.
#[derive(Deserialize)]
struct Typed<'a> {
    #[serde(rename = "$type", borrow)]
    kind: Cow<'a, str>,
}

/// The members of an object; none of another value.
fn members(value: &str) -> HashMap<Cow<'_, str>, &RawValue> {
    serde_json::from_str(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::Schemas;

    fn schemas() -> Schemas {
        let list = json!({ "type": "array", "items": { "type": "string" } });
        let note = json!({ "lexicon": 1, "id": "com.example.note", "defs": {
            "main": { "type": "record", "key": "tid", "record": { "type": "object", "properties": {
                "tags": list,
                "meta": { "type": "object", "properties": { "langs": list, "more": { "type": "unknown" } } },
                "grid": { "type": "array", "items": list },
                "near": { "type": "ref", "ref": "#part" },
                "far": { "type": "ref", "ref": "com.example.defs#part" },
                "list": { "type": "ref", "ref": "com.example.defs#list" },
                "lost": { "type": "ref", "ref": "com.example.lost#part" },
                "embed": { "type": "union", "refs": ["#part", "com.example.defs#part"] },
                "any": { "type": "unknown" } } } },
            "part": { "type": "object", "properties": {
                "items": list, "parts": { "type": "array", "items": { "type": "ref", "ref": "#part" } } } } } });
        let defs = json!({ "lexicon": 1, "id": "com.example.defs", "defs": {
            "list": { "type": "array", "items": { "type": "ref", "ref": "#part" } },
            "part": { "type": "object", "properties": { "values": list } } } });
        let query = json!({ "lexicon": 1, "id": "com.example.get", "defs": { "main": { "type": "query",
            "output": { "encoding": "application/json", "schema": { "type": "object", "properties": {
                "notes": { "type": "array", "items": { "type": "ref", "ref": "com.example.note" } } } } } } } });
        let procedure = json!({ "lexicon": 1, "id": "com.example.do", "defs": { "main": { "type": "procedure",
            "output": { "encoding": "application/json", "schema": { "type": "ref", "ref": "com.example.defs#list" } } } } });
        let texts = [note, defs, query, procedure].map(|document| document.to_string());
        Schemas::new(texts.iter().map(String::as_str))
    }

    fn record(text: &str) -> Value {
        let mended = schemas().record_with_arrays("com.example.note", text.to_owned().into());
        serde_json::from_slice(&mended).unwrap()
    }

    #[test]
    fn only_what_the_lexicon_declares_as_an_array_becomes_one() {
        for (text, expected) in [
            (r#"{"tags":{},"meta":{},"any":{},"other":{}}"#, json!({ "tags": [], "meta": {}, "any": {}, "other": {} })),
            (r#"{"meta":{"langs":{},"more":{}}}"#, json!({ "meta": { "langs": [], "more": {} } })),
            (r#"{"grid":[{},["a"],{}]}"#, json!({ "grid": [[], ["a"], []] })),
            (r#"{"grid":{}}"#, json!({ "grid": [] })),
            (r#"{"near":{"items":{},"parts":[{"parts":{}}]}}"#, json!({ "near": { "items": [], "parts": [{ "parts": [] }] } })),
            (r#"{"far":{"values":{},"items":{}}}"#, json!({ "far": { "values": [], "items": {} } })),
            (r#"{"list":[{"values":{}}],"lost":{"values":{}}}"#, json!({ "list": [{ "values": [] }], "lost": { "values": {} } })),
            (r#"{"list":{}}"#, json!({ "list": [] })),
            (
                r#"{"embed":{"values":{},"$type":"com.example.defs#part"}}"#,
                json!({ "embed": { "values": [], "$type": "com.example.defs#part" } }),
            ),
            (
                r#"{"embed":{"items":{},"$type":"com.example.note#part"}}"#,
                json!({ "embed": { "items": [], "$type": "com.example.note#part" } }),
            ),
            (r#"{"embed":{"values":{}}}"#, json!({ "embed": { "values": {} } })),
            (r#"{"tags":["{}","\"{}"],"t\u0061gs":{}}"#, json!({ "tags": [] })),
            (r#"{"tags":"{}","grid":[1,{}]}"#, json!({ "tags": "{}", "grid": [1, []] })),
        ] {
            assert_eq!(record(text), expected, "{text}");
        }
    }

    #[test]
    fn outputs_of_methods_follow_their_lexicons() {
        let output = |method: &str, text: &'static str| {
            String::from_utf8(schemas().output_with_arrays(method, text.into()).to_vec()).unwrap()
        };
        assert_eq!(output("com.example.get", r#"{"notes":{},"cursor":{}}"#), r#"{"notes":[],"cursor":{}}"#);
        assert_eq!(output("com.example.get", r#"{"notes":[{"tags":{}},{}]}"#), r#"{"notes":[{"tags":[]},{}]}"#);
        assert_eq!(output("com.example.do", "{}"), "[]");
        for method in ["com.example.note", "com.example.defs", "com.example.unknown"] {
            assert_eq!(output(method, r#"{"notes":{},"tags":{}}"#), r#"{"notes":{},"tags":{}}"#, "{method}");
        }
    }

    #[test]
    fn deep_and_broken_texts_stay_as_they_are() {
        let part = (0..2000).fold("{\"items\":{}}".to_owned(), |part, _| format!("{{\"parts\":[{part}]}}"));
        for text in [format!("{{\"near\":{part}}}"), "{\"tags\":{}".to_owned(), "{\"tags\":{}}}".to_owned(), "{}".to_owned()] {
            let mended = schemas().record_with_arrays("com.example.note", text.clone().into());
            assert_eq!(mended, text.as_bytes());
        }
        let invalid = b"{\"tags\":{},\"text\":\"\xff\"}";
        assert_eq!(schemas().record_with_arrays("com.example.note", invalid.to_vec().into()), invalid.as_slice());
    }
}
