//! Finds the value that keeps a record from being encoded.

use serde_json::{Map, Value, json};

use super::errors::Place;
use crate::atproto::record::{self, Unencodable};

/// The first value that the data model does not have, with its place; `None` if there is none, or it is the record.
pub(in super::super) fn first_unencodable(record: &Value) -> Option<String> {
    find(record, &Place::Root("record"))
}

fn find(value: &Value, place: &Place<'_>) -> Option<String> {
    let inside = match value {
        Value::Array(items) => {
            (0..).zip(items).find_map(|(index, item)| find(item, &Place::Item(place, index)))
        }
        Value::Object(members) => {
            members.iter().find_map(|(name, value)| find(value, &Place::Field(place, name)))
        }
        _ => None,
    };
    inside.or_else(|| reason(value).map(|why| format!("at {place}: {why}")))
}

/// The reason why a value can't be encoded although all in it can.
fn reason(value: &Value) -> Option<Unencodable> {
    let value = match value {
        // A record may have half a million of them.
        Value::Number(n) if n.is_i64() || n.as_f64().is_some_and(record::is_integer) => return None,
        Value::Number(_) => value.clone(),
        Value::Object(members) if members.keys().any(|name| name.starts_with('$')) => without_depth(members),
        _ => return None,
    };
    record::to_cbor(json!({ "value": value }).to_string().as_bytes()).ok()?.err()
}

/// An object with `$` keys, of which only the types of its members matter, and the link in a blob.
fn without_depth(members: &Map<String, Value>) -> Value {
    let member = |(name, value): (&String, &Value)| {
        let is_link = value.as_object().is_some_and(|inner| inner.contains_key("$link"));
        let kept =
            if is_link || !(value.is_array() || value.is_object()) { value.clone() } else { Value::Null };
        (name.clone(), kept)
    };
    Value::Object(members.iter().map(member).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_value() {
        for (record, error) in [
            (
                json!({ "a": [1, -1, 2.0, u64::MAX] }),
                Some("at record.a[3]: a number is not a 64-bit integer"),
            ),
            (json!({ "a": [1, { "b": 1.5 }] }), Some("at record.a[1].b: a number is not a 64-bit integer")),
            (
                json!({ "a": { "$link": "x" } }),
                Some("at record.a: a $link is not a CID, or its object has other keys"),
            ),
            (
                json!({ "a": { "$bytes": [1] } }),
                Some("at record.a: a $bytes is not base64, or its object has other keys"),
            ),
            (
                json!({ "a": { "$type": "blob", "mimeType": "a/b", "size": 1 } }),
                Some("at record.a: a blob lacks its ref, mimeType or size, or has one of the wrong type"),
            ),
            (json!({ "$type": "", "a": 1 }), Some("at record: a $type is not a non-empty string")),
            (json!({ "$type": "a.b.c", "a": { "$type": "d.e.f", "n": [1, 2.0] } }), None),
        ] {
            assert_eq!(first_unencodable(&record).as_deref(), error, "{record}");
        }
    }
}
