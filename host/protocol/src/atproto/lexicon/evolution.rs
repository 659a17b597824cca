//! Compares two versions of a lexicon by the protocol's rules for changes: new fields must be optional, required ones
//! stay, types and constraints do not change so that a value of the old version becomes invalid.

use std::collections::HashSet;
use std::hash::{Hash, Hasher};

use serde_json::{Map, Value};

use super::steps;

/// The first reason why a new version of a lexicon breaks the old one; `None` when every record, parameter or answer
/// that was valid stays valid. Both must be documents that [`super::LexiconDoc::parse`] accepted, which bounds their
/// depth.
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

/// Whether a document has all definitions and properties that an old one has, and breaks none of them: what does not break
/// the new one does not break the old one either.
pub fn covers(old: &Value, new: &Value) -> bool {
    has_all_of(old, new) && breaking_change(old, new).is_none()
}

/// Definitions and properties are objects, and are inside objects only.
fn has_all_of(old: &Value, new: &Value) -> bool {
    let mut objects = object(Some(old)).into_iter().flatten().filter(|(_, inner)| inner.is_object());
    objects.all(|(name, inner)| new.get(name).is_some_and(|new| has_all_of(inner, new)))
}

fn definition<'a>(path: &str, old: &'a Value, new: &'a Value) -> Option<String> {
    let inner = |name: &str| match (old.get(name), new.get(name)) {
        (Some(old), Some(new)) => schema(&format!("{path}.{name}"), old, new),
        (Some(_), None) => Some(format!("{path}.{name} is removed")),
        (None, _) => None,
    };
    let body = |name: &str| {
        let part = |of: &'a Value, field: &str| of.get(name).and_then(|body| body.get(field));
        match (part(old, "schema"), part(new, "schema")) {
            (Some(old), Some(new)) => schema(&format!("{path}.{name}.schema"), old, new),
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
    let (old_properties, new_properties) = (object(old.get("properties")), object(new.get("properties")));
    let added = missing(list(new, "required"), list(old, "required")).find_map(Value::as_str);
    added
        .map(|name| format!("{path}.{name} becomes required"))
        .or_else(|| {
            let lost = missing(list(old, "required"), list(new, "required")).find_map(Value::as_str);
            lost.map(|name| format!("{path}.{name} is no longer required"))
        })
        .or_else(|| {
            let lost = missing(list(old, "nullable"), list(new, "nullable")).filter_map(Value::as_str);
            let mut stays = lost.filter(|name| new_properties.is_some_and(|new| new.contains_key(*name)));
            stays.next().map(|name| format!("{path}.{name} may no longer be null"))
        })
        .or_else(|| {
            old_properties.into_iter().flatten().find_map(|(name, old)| {
                let new = new_properties?.get(name)?;
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
    let has = |of: &Value| of.get(name).is_some_and(Value::is_array);
    match (has(old), has(new)) {
        (_, false) => false,
        (false, true) => true,
        (true, true) => missing(list(old, name), list(new, name)).next().is_some(),
    }
}

/// The values of `these` that are not in `others`. A publisher may fill a lexicon with one list, so comparing each value
/// with each would take minutes.
fn missing<'a>(these: &'a [Value], others: &'a [Value]) -> impl Iterator<Item = &'a Value> {
    let others: HashSet<Member<'_>> = others.iter().map(Member).collect();
    these.iter().filter(move |value| !others.contains(&Member(value)))
}

/// A value of a list.
struct Member<'a>(&'a Value);

impl Hash for Member<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl PartialEq for Member<'_> {
    fn eq(&self, other: &Self) -> bool {
        steps::count();
        self.0 == other.0
    }
}

impl Eq for Member<'_> {}

fn differs(path: &str, name: &str, old: &Value, new: &Value) -> Option<String> {
    let text = |of: &Value| of.get(name).and_then(Value::as_str).unwrap_or("absent").to_owned();
    let (old, new) = (text(old), text(new));
    (old != new).then(|| format!("{path}.{name} changes from {old} to {new}"))
}

fn list<'a>(of: &'a Value, name: &str) -> &'a [Value] {
    of.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
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
    fn long_lists_are_compared_in_linear_time() {
        const VALUES: usize = 40_000;
        let list = |kind: &str, name: &str, from: usize| {
            let values = (from..from + VALUES).rev().map(|n| match name {
                "enum" => json!(n),
                "accept" => json!(format!("image/{n}")),
                _ => json!(format!("#d{n}")),
            });
            json!({ "type": kind, "closed": true, name: values.collect::<Vec<_>>() })
        };
        for (kind, name) in [
            ("integer", "enum"),
            ("union", "refs"),
            ("blob", "accept"),
            ("object", "required"),
            ("object", "nullable"),
        ] {
            let [old, same, other] = [0, 0, 1].map(|from| note(&list(kind, name, from), &[]));
            let before = steps::counted();
            assert_eq!(breaking_change(&old, &same), None, "{name}");
            // That a property may be null is lost without a break together with the property, which is not here.
            assert_eq!(breaking_change(&old, &other).is_some(), name != "nullable", "{name}");
            let steps = steps::counted() - before;
            assert!(steps <= 20 * VALUES, "{name}: {steps} comparisons");
        }
    }

    #[test]
    fn a_document_covers_an_old_one_with_all_of_its_properties() {
        let old = note(&json!({ "type": "string", "maxLength": 10 }), &[]);
        let mut more = old.clone();
        more["defs"]["third"] = json!({ "type": "token" });
        more["defs"]["main"]["record"]["properties"]["more"] = json!({ "type": "string" });
        more["description"] = "better".into();
        assert!(covers(&old, &old) && covers(&old, &more) && !covers(&more, &old));
        let mut without = more.clone();
        without["defs"]["main"]["record"]["properties"].as_object_mut().unwrap().remove("more");
        assert!(breaking_change(&more, &without).is_none() && !covers(&more, &without));
        assert!(!covers(&old, &note(&json!({ "type": "string", "maxLength": 9 }), &[])));
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
