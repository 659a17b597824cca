//! Compares two versions of a lexicon by the protocol's rules for changes: new fields must be optional, required ones
//! stay, types and constraints do not change so that a value of the old version becomes invalid.

use serde_json::{Map, Value};

/// Why a new version of a lexicon breaks the old one; `None` when every record, parameter or answer that was valid stays
/// valid. Both must be documents that [`super::LexiconDoc::parse`] accepted, which bounds their depth.
pub fn breaking_change(old: &Value, new: &Value) -> Option<String> {
    let (old, new) = (object(old.get("defs")), object(new.get("defs")));
    old.into_iter().flatten().find_map(|(name, old)| {
        let path = format!("defs.{name}");
        match new.and_then(|new| new.get(name)) {
            None => Some(format!("{path} is removed")),
            Some(new) => definition(&path, old, new),
        }
    })
}

fn definition(path: &str, old: &Value, new: &Value) -> Option<String> {
    let inner = |name: &str| match (old.get(name), new.get(name)) {
        (Some(old), Some(new)) => schema(&format!("{path}.{name}"), old, new),
        (Some(_), None) => Some(format!("{path}.{name} is removed")),
        (None, _) => None,
    };
    let body = |name: &str| {
        let part = |of: &Value, field: &str| of.get(name).and_then(|body| body.get(field)).cloned();
        match (part(old, "schema"), part(new, "schema")) {
            (Some(old), Some(new)) => schema(&format!("{path}.{name}.schema"), &old, &new),
            (Some(_), None) => Some(format!("{path}.{name}.schema is removed")),
            (None, _) => None,
        }
        .or_else(|| {
            let (old, new) = (part(old, "encoding"), part(new, "encoding"));
            (old.is_some() && old != new).then(|| format!("{path}.{name}.encoding changes"))
        })
    };
    differs(path, "type", old, new).or_else(|| match old.get("type").and_then(Value::as_str) {
        Some("record") => differs(path, "key", old, new).or_else(|| inner("record")),
        Some("query" | "procedure" | "subscription") => {
            parameters(path, old, new).or_else(|| body("input")).or_else(|| body("output"))
        }
        _ => schema(path, old, new),
    })
}

/// Parameters have no `type` that would have to be the same, and may be added when there were none.
fn parameters(path: &str, old: &Value, new: &Value) -> Option<String> {
    let none = Value::Null;
    let (old, new) = (old.get("parameters").unwrap_or(&none), new.get("parameters").unwrap_or(&none));
    fields(&format!("{path}.parameters"), old, new)
}

/// The schema of one value.
fn schema(path: &str, old: &Value, new: &Value) -> Option<String> {
    let same = |name| differs(path, name, old, new);
    same("type").or_else(|| match old.get("type").and_then(Value::as_str)? {
        "object" => fields(path, old, new),
        "array" => limits(path, old, new).or_else(|| match (old.get("items"), new.get("items")) {
            (Some(old), Some(new)) => schema(&format!("{path}.items"), old, new),
            _ => None,
        }),
        "ref" => same("ref"),
        "union" => {
            let closed = |of: &Value| of.get("closed").and_then(Value::as_bool).unwrap_or_default();
            let narrows = closed(new) && (!closed(old) || loses(old, new, "refs"));
            narrows.then(|| format!("{path} accepts fewer types"))
        }
        "blob" => {
            let narrows = lower(old, new, "maxSize") || loses(old, new, "accept");
            narrows.then(|| format!("{path} accepts fewer files"))
        }
        _ => limits(path, old, new).or_else(|| {
            let adds = |name| new.get(name).is_some() && old.get(name) != new.get(name);
            let narrows = adds("const") || adds("format") || loses(old, new, "enum");
            narrows.then(|| format!("{path} accepts fewer values"))
        }),
    })
}

/// `properties`, `required` and `nullable` of an object.
fn fields(path: &str, old: &Value, new: &Value) -> Option<String> {
    let properties =
        |of: &'_ Value| of.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let (old_properties, new_properties): (Map<_, _>, Map<_, _>) = (properties(old), properties(new));
    let (was, is) = (strings(old, "required"), strings(new, "required"));
    let newly =
        is.iter().find(|name| !was.contains(name)).map(|name| format!("{path}.{name} becomes required"));
    newly
        .or_else(|| {
            let lost = was.iter().find(|name| !is.contains(name));
            lost.map(|name| format!("{path}.{name} is no longer required"))
        })
        .or_else(|| {
            let (was, is) = (strings(old, "nullable"), strings(new, "nullable"));
            let lost = was.iter().find(|name| new_properties.contains_key(**name) && !is.contains(name));
            lost.map(|name| format!("{path}.{name} may no longer be null"))
        })
        .or_else(|| {
            old_properties.iter().find_map(|(name, old)| {
                let new = new_properties.get(name)?;
                schema(&format!("{path}.{name}"), old, new)
            })
        })
}

/// Limits of lengths and values that exclude more than before.
fn limits(path: &str, old: &Value, new: &Value) -> Option<String> {
    let lower = ["maxLength", "maxGraphemes", "maximum"].into_iter().find(|name| lower(old, new, name));
    let higher = || ["minLength", "minGraphemes", "minimum"].into_iter().find(|name| higher(old, new, name));
    lower.or_else(higher).map(|name| format!("{path}.{name} excludes more"))
}

fn lower(old: &Value, new: &Value, name: &str) -> bool {
    let limit = |of: &Value| of.get(name).and_then(Value::as_i64);
    limit(new).is_some_and(|new| limit(old).is_none_or(|old| new < old))
}

fn higher(old: &Value, new: &Value, name: &str) -> bool {
    let limit = |of: &Value| of.get(name).and_then(Value::as_i64);
    limit(new).is_some_and(|new| limit(old).is_none_or(|old| new > old))
}

/// Whether the list excludes a value that it did not exclude before.
fn loses(old: &Value, new: &Value, name: &str) -> bool {
    let list = |of: &Value| of.get(name).and_then(Value::as_array).cloned();
    match (list(old), list(new)) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(old), Some(new)) => old.iter().any(|value| !new.contains(value)),
    }
}

fn differs(path: &str, name: &str, old: &Value, new: &Value) -> Option<String> {
    let text = |of: &Value| of.get(name).and_then(Value::as_str).unwrap_or("absent").to_owned();
    let (old, new) = (text(old), text(new));
    (old != new).then(|| format!("{path}.{name} changes from {old} to {new}"))
}

fn strings<'a>(of: &'a Value, name: &str) -> Vec<&'a str> {
    of.get(name).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

fn object(value: Option<&Value>) -> Option<&Map<String, Value>> {
    value.and_then(Value::as_object)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A record lexicon whose `text` has this schema.
    fn note(text: &Value, required: &[&str]) -> Value {
        json!({ "lexicon": 1, "id": "com.example.note", "defs": {
            "main": { "type": "record", "key": "tid", "record": { "type": "object", "required": required,
                "properties": { "text": text } } },
            "other": { "type": "object", "properties": { "n": { "type": "integer", "maximum": 5 } } } } })
    }

    #[test]
    fn what_stays_valid_is_no_break() {
        let old = note(&json!({ "type": "string", "maxLength": 10, "knownValues": ["a"] }), &["text"]);
        assert_eq!(breaking_change(&old, &old), None);
        let mut new = note(&json!({ "type": "string", "maxLength": 20, "knownValues": ["b"] }), &["text"]);
        new["defs"]["main"]["record"]["properties"]["more"] = json!({ "type": "string" });
        new["defs"]["third"] = json!({ "type": "token" });
        new["description"] = "better".into();
        assert_eq!(breaking_change(&old, &new), None);
        let query = json!({ "defs": { "main": { "type": "query" } } });
        let with = json!({ "defs": { "main": { "type": "query", "parameters": { "type": "params",
            "properties": { "q": { "type": "string" } } } } } });
        assert_eq!(breaking_change(&query, &with), None);
    }

    #[test]
    fn what_becomes_invalid_is_named() {
        let string = json!({ "type": "string", "maxLength": 10, "enum": ["a", "b"] });
        let old = note(&string, &[]);
        let change = |path: &str, value: Value| {
            let mut new = old.clone();
            *new.pointer_mut(path).unwrap() = value;
            breaking_change(&old, &new).unwrap_or_else(|| panic!("{path} is no break"))
        };
        let text = "/defs/main/record/properties/text";
        for (path, value, reason) in [
            ("/defs/main/type", json!("query"), "defs.main.type changes from record to query"),
            ("/defs/main/key", json!("any"), "defs.main.key changes from tid to any"),
            ("/defs/main/record/required", json!(["text"]), "defs.main.record.text becomes required"),
            (text, json!({ "type": "integer" }), "defs.main.record.text.type changes from string to integer"),
            (
                text,
                json!({ "type": "string", "maxLength": 9 }),
                "defs.main.record.text.maxLength excludes more",
            ),
            (text, json!({ "type": "string", "minLength": 1, "maxLength": 10 }), ".minLength excludes more"),
            (text, json!({ "type": "string", "maxLength": 10, "enum": ["a"] }), "accepts fewer values"),
            (text, json!({ "type": "string", "maxLength": 10, "format": "uri" }), "accepts fewer values"),
            ("/defs/other/properties/n/maximum", json!(4), "defs.other.n.maximum excludes more"),
            ("/defs", json!({ "main": old["defs"]["main"] }), "defs.other is removed"),
        ] {
            assert!(change(path, value).contains(reason), "{reason}");
        }
        let required = note(&string, &["text"]);
        assert!(breaking_change(&required, &old).unwrap().contains("no longer required"));
    }

    #[test]
    fn unions_lists_and_bodies_are_compared() {
        let with = |schema: Value| {
            json!({ "defs": { "main": { "type": "procedure",
                "input": { "encoding": "application/json", "schema": schema } } } })
        };
        let list = |items: Value| json!({ "type": "object", "properties": { "list": { "type": "array", "items": items } } });
        let breaks = |old: Value, new: Value| breaking_change(&with(list(old)), &with(list(new))).is_some();
        let union = |refs: &[&str], closed| json!({ "type": "union", "refs": refs, "closed": closed });
        assert!(!breaks(union(&["#a"], false), union(&["#b"], false)));
        assert!(breaks(union(&["#a"], false), union(&["#a"], true)));
        assert!(breaks(union(&["#a", "#b"], true), union(&["#a"], true)));
        assert!(!breaks(union(&["#a"], true), union(&["#a", "#b"], true)));
        assert!(breaks(json!({ "type": "ref", "ref": "#a" }), json!({ "type": "ref", "ref": "#b" })));
        let mut other = with(json!({ "type": "object" }));
        other["defs"]["main"]["input"]["encoding"] = "*/*".into();
        assert!(breaking_change(&with(json!({ "type": "object" })), &other).unwrap().contains("encoding"));
    }
}
