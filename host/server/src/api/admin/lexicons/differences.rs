//! The places at which two versions of a document differ.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

/// Differences in an answer: more than a person reads. The rest is counted.
const MAX_DIFFERENCES: usize = 200;

/// Bytes of a value in a line for people.
const MAX_SHOWN_BYTES: usize = 100;

/// One place. A value is absent where only the other document has the path.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct LexiconDifference {
    /// A JSON pointer (RFC 6901).
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<Value>,
}

impl fmt::Display for LexiconDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: &Option<Value>| {
            let mut text = value.as_ref().map_or_else(|| "(absent)".to_owned(), Value::to_string);
            if text.len() > MAX_SHOWN_BYTES {
                text.truncate(text.floor_char_boundary(MAX_SHOWN_BYTES));
                text.push('…');
            }
            text
        };
        write!(f, "{}: {} → {}", self.path, shown(&self.before), shown(&self.after))
    }
}

/// The first differences in the order of the paths, and how many more there are. Documents that were parsed as lexicons,
/// which bounds their depth.
pub(crate) fn of(old: &Value, new: &Value) -> (Vec<LexiconDifference>, usize) {
    let mut found = Vec::new();
    walk("", Some(old), Some(new), &mut found);
    let left_out = found.len().saturating_sub(MAX_DIFFERENCES);
    found.truncate(MAX_DIFFERENCES);
    (found, left_out)
}

fn walk(path: &str, old: Option<&Value>, new: Option<&Value>, found: &mut Vec<LexiconDifference>) {
    match (old, new) {
        (old, new) if old == new => {}
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            for name in names(old, new) {
                walk(&format!("{path}/{}", escape(name)), old.get(name), new.get(name), found);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) if old.len() == new.len() => {
            for (at, (old, new)) in old.iter().zip(new).enumerate() {
                walk(&format!("{path}/{at}"), Some(old), Some(new), found);
            }
        }
        (before, after) => {
            found.push(LexiconDifference {
                path: path.to_owned(),
                before: before.cloned(),
                after: after.cloned(),
            });
        }
    }
}

/// The names of both objects, sorted, each once.
fn names<'a>(old: &'a Map<String, Value>, new: &'a Map<String, Value>) -> Vec<&'a String> {
    let mut names: Vec<&String> = old.keys().chain(new.keys()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_each_place_with_both_values() {
        let old = json!({ "a": { "x/y": 1, "same": [1] }, "list": [1, 2], "gone": true });
        let new = json!({ "a": { "x/y": 2, "same": [1] }, "list": [1, 3], "more": null });
        let (found, left_out) = of(&old, &new);
        let json = serde_json::to_value(&found).unwrap();
        let expected = json!([
            { "path": "/a/x~1y", "before": 1, "after": 2 },
            { "path": "/gone", "before": true },
            { "path": "/list/1", "before": 2, "after": 3 },
            { "path": "/more", "after": null },
        ]);
        assert_eq!((json, left_out), (expected, 0));
        assert_eq!(of(&new, &new), (vec![], 0));
        let many: Map<String, Value> = (0..300).map(|n| (format!("{n}"), json!(n))).collect();
        let (found, left_out) = of(&json!({}), &Value::Object(many));
        assert_eq!((found.len(), left_out), (MAX_DIFFERENCES, 100));
    }
}
