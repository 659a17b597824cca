//! A second implementation of the lexicon language for comparison, written from the specification: it reads documents as
//! they are, and JSON instead of DAG-CBOR. Speed does not matter here.

use std::collections::BTreeMap;

use base64::Engine as _;
use serde_json::Value;
use unicode_segmentation::UnicodeSegmentation;

/// Texts with the formats that they have.
pub(super) const TEXTS: &[(&str, &[&str])] = &[
    ("", &[]),
    ("a", &["record-key"]),
    ("a b", &[]),
    ("self", &["record-key"]),
    ("en", &["language", "record-key"]),
    ("de-AT", &["language", "record-key"]),
    ("2026-01-01T00:00:00Z", &["datetime", "record-key"]),
    ("2024-02-29T12:30:00.5+02:00", &["datetime"]),
    ("2026-02-30T00:00:00Z", &["record-key"]),
    ("2016-12-31T23:59:60Z", &["record-key"]),
    ("did:plc:abc", &["did", "at-identifier", "uri", "record-key"]),
    ("did:web:localhost%3A2583", &["did", "at-identifier", "uri"]),
    ("alice.example.com", &["handle", "at-identifier", "nsid", "record-key"]),
    ("at://did:plc:abc/com.example.note/a", &["at-uri", "uri"]),
    ("3jzfcijpj2z2a", &["tid", "record-key"]),
    ("https://example.com/a?b", &["uri"]),
    ("mailto:a@b.c", &["uri"]),
    (CID, &["cid", "record-key"]),
    ("äöü", &[]),
    ("e\u{301}e\u{301}e\u{301}", &[]),
    ("👩‍👩‍👧", &[]),
    ("a\r\nb", &[]),
];

pub(super) const CID: &str = "bafyreiat2a6lmxj2shvrvtt6fbb6bg7tedu5nr4xcwpyrtukh6v5rt5jnu";

/// The documents by NSID.
pub(super) type Documents = BTreeMap<String, Value>;

/// Whether a record of the data model matches the lexicon of its collection.
pub(super) fn is_valid(documents: &Documents, collection: &str, record: &Value) -> bool {
    let main = &documents[collection]["defs"]["main"];
    record["$type"] == collection && matches(documents, collection, &main["record"], record)
}

/// Whether a value matches a schema of the document `nsid`.
fn matches(documents: &Documents, nsid: &str, schema: &Value, value: &Value) -> bool {
    let is_within = |low: &str, high: &str, length: usize| {
        let limit = |name: &str| schema[name].as_u64();
        limit(low).is_none_or(|min| length as u64 >= min)
            && limit(high).is_none_or(|max| length as u64 <= max)
    };
    let is_allowed = |value: &Value| {
        let constant = schema.get("const").is_none_or(|constant| constant == value);
        constant && schema.get("enum").is_none_or(|list| list.as_array().unwrap().contains(value))
    };
    match schema["type"].as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean() && is_allowed(value),
        "integer" => value.as_i64().is_some_and(|n| {
            schema["minimum"].as_i64().is_none_or(|min| n >= min)
                && schema["maximum"].as_i64().is_none_or(|max| n <= max)
                && is_allowed(value)
        }),
        "string" => value.as_str().is_some_and(|text| {
            is_within("minLength", "maxLength", text.len())
                && is_within("minGraphemes", "maxGraphemes", text.graphemes(true).count())
                && schema["format"].as_str().is_none_or(|format| has_format(format, text))
                && is_allowed(value)
        }),
        "bytes" => bytes(value).is_some_and(|bytes| is_within("minLength", "maxLength", bytes.len())),
        "cid-link" => is_link(value),
        "blob" => is_blob(schema, value),
        "array" => value.as_array().is_some_and(|items| {
            is_within("minLength", "maxLength", items.len())
                && items.iter().all(|item| matches(documents, nsid, &schema["items"], item))
        }),
        "object" => is_map(value) && has_properties(documents, nsid, schema, value),
        "ref" => match resolve(documents, nsid, schema["ref"].as_str().unwrap()) {
            Some((nsid, name, target)) => is_named(documents, (&nsid, &name), target, value),
            None => !value.is_null(),
        },
        "union" => is_map(value) && is_variant(documents, nsid, schema, value),
        // The specification forbids links and bytes too, the reference implementation does not.
        "unknown" => value.is_object(),
        // A type that only definitions have, or one that is not known: says nothing.
        _ => !value.is_null(),
    }
}

/// Whether a value matches a definition to which a reference points.
fn is_named(documents: &Documents, (nsid, name): (&str, &str), target: &Value, value: &Value) -> bool {
    match target["type"].as_str().unwrap() {
        "token" => *value == full_name(nsid, name),
        "record" => {
            let is_kind = value.get("$type").is_none_or(|kind| *kind == nsid);
            is_map(value) && is_kind && has_properties(documents, nsid, &target["record"], value)
        }
        _ => matches(documents, nsid, target, value),
    }
}

fn has_properties(documents: &Documents, nsid: &str, schema: &Value, value: &Value) -> bool {
    let lists = |name: &str, property: &String| {
        schema[name].as_array().is_some_and(|names| names.iter().any(|name| name == property.as_str()))
    };
    let properties = schema["properties"].as_object();
    properties.into_iter().flatten().all(|(name, property)| match value.get(name) {
        None => !lists("required", name) || property.get("default").is_some(),
        Some(Value::Null) if lists("nullable", name) => true,
        Some(value) => matches(documents, nsid, property, value),
    })
}

fn is_variant(documents: &Documents, nsid: &str, schema: &Value, value: &Value) -> bool {
    let Some(kind) = value["$type"].as_str() else { return false };
    let (of, name) = match kind.split('#').collect::<Vec<_>>()[..] {
        [of] => (of, "main"),
        [of, name] if !of.is_empty() => (of, name),
        _ => return false,
    };
    let listed = schema["refs"].as_array().unwrap().iter().find(|target| {
        let (target_nsid, target_name) = split(nsid, target.as_str().unwrap());
        (target_nsid, target_name) == (of, name)
    });
    let Some(listed) = listed else { return schema["closed"] != true };
    let Some((nsid, _, target)) = resolve(documents, nsid, listed.as_str().unwrap()) else { return true };
    match target["type"].as_str().unwrap() {
        "object" => has_properties(documents, &nsid, target, value),
        "record" => has_properties(documents, &nsid, &target["record"], value),
        // The specification allows neither in a union: a definition that is not a type of values accepts every value,
        // the others accept none.
        other => !IS_VALUE.contains(&other),
    }
}

/// The types of values, but `object`.
const IS_VALUE: &[&str] =
    &["null", "boolean", "integer", "string", "bytes", "cid-link", "blob", "array", "union", "unknown"];

/// The definition that a reference names, through definitions that are references, with its document and name.
fn resolve<'a>(documents: &'a Documents, nsid: &str, target: &str) -> Option<(String, String, &'a Value)> {
    let (mut nsid, mut name) = owned(split(nsid, target));
    for _ in 0..16 {
        let found = documents.get(&nsid)?["defs"].get(&name)?;
        if found["type"] != "ref" {
            return Some((nsid, name, found));
        }
        (nsid, name) = owned(split(&nsid, found["ref"].as_str().unwrap()));
    }
    None
}

fn owned((nsid, name): (&str, &str)) -> (String, String) {
    (nsid.to_owned(), name.to_owned())
}

fn split<'a>(nsid: &'a str, target: &'a str) -> (&'a str, &'a str) {
    match target.split_once('#') {
        Some(("", name)) => (nsid, name),
        Some(parts) => parts,
        None => (target, "main"),
    }
}

fn full_name(nsid: &str, name: &str) -> String {
    if name == "main" { nsid.to_owned() } else { format!("{nsid}#{name}") }
}

fn has_format(format: &str, text: &str) -> bool {
    let known = TEXTS.iter().any(|(_, formats)| formats.contains(&format));
    let formats = TEXTS.iter().find(|(known, _)| *known == text).map(|(_, formats)| *formats);
    !known || formats.unwrap_or_else(|| panic!("{text:?} has no formats")).contains(&format)
}

fn bytes(value: &Value) -> Option<Vec<u8>> {
    let text = value.get("$bytes")?.as_str()?;
    base64::engine::general_purpose::STANDARD.decode(text).ok()
}

fn is_link(value: &Value) -> bool {
    value.get("$link").is_some()
}

/// Objects of JSON that the data model has as maps.
fn is_map(value: &Value) -> bool {
    value.is_object() && !is_link(value) && bytes(value).is_none()
}

fn is_blob(schema: &Value, value: &Value) -> bool {
    let Some(mime_type) = value["mimeType"].as_str().filter(|text| !text.is_empty()) else { return false };
    let is_today = || {
        let size = value["size"].as_u64();
        let fits = size.is_some_and(|size| schema["maxSize"].as_u64().is_none_or(|max| size <= max));
        value["$type"] == "blob" && is_link(&value["ref"]) && fits
    };
    let is_legacy =
        || value.get("$type").is_none() && value["cid"].as_str().is_some_and(|cid| has_format("cid", cid));
    let is_accepted = |pattern: &Value| {
        let pattern = pattern.as_str().unwrap();
        pattern == "*/*"
            || pattern == mime_type
            || pattern.strip_suffix("/*").is_some_and(|kind| mime_type.split('/').next() == Some(kind))
    };
    let accept = schema["accept"].as_array();
    is_map(value) && (is_today() || is_legacy()) && accept.is_none_or(|list| list.iter().any(is_accepted))
}
