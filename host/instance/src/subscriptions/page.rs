//! The differences between two answers of a query, as messages that turn the first into the second (ADR 169).

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use serde::Deserialize;
use serde_json::value::RawValue;

/// An answer whose members are kept as their texts.
type Body<'a> = BTreeMap<String, &'a RawValue>;

/// Differences of one answer. More are replaced by the answer, because the queue of a connection has a bounded number of messages.
const MAX_DIFFERENCES: usize = 64;

/// A row is recognised by its URI. Others are recognised by their whole text.
#[derive(Deserialize)]
struct Row<'a> {
    #[serde(borrow)]
    uri: Option<Cow<'a, str>>,
}

/// The identity of a row: its URI or its text, and how many rows before it have the same.
type Identity<'a> = (Cow<'a, str>, usize);

/// One difference: the name of its message, and its fields as JSON text without braces.
pub(super) type Difference = (&'static str, String);

/// The message that has the whole answer.
pub(super) fn whole(body: &str) -> Difference {
    ("page", format!(r#""page":{body}"#))
}

/// The messages that turn `old` into `new`, in order; none if both are the same. They are never larger than the answer: then it
/// is the only message.
pub(super) fn differences(old: &str, new: &str) -> Vec<Difference> {
    if old == new {
        return Vec::new();
    }
    let found = match (serde_json::from_str(old), serde_json::from_str(new)) {
        (Ok(old), Ok(new)) => Some(between(&old, &new)),
        _ => None,
    };
    let is_smaller = |found: &Vec<Difference>| {
        let size: usize = found.iter().map(|(name, fields)| name.len() + fields.len()).sum();
        found.len() <= MAX_DIFFERENCES && size < new.len()
    };
    found.filter(is_smaller).unwrap_or_else(|| vec![whole(new)])
}

/// The differences of two objects. A list that both have differs by its rows, and another member as a whole.
fn between(old: &Body<'_>, new: &Body<'_>) -> Vec<Difference> {
    let (mut differences, mut fields) = (Vec::new(), Vec::new());
    for (name, value) in new {
        let (earlier, value) = (old.get(name).map(|value| value.get()), value.get());
        if earlier == Some(value) {
            continue;
        }
        match (earlier.and_then(rows), rows(value)) {
            (Some(earlier), Some(later)) => list(&mut differences, name, &earlier, &later),
            _ => fields.push(format!("{}:{value}", quoted(name))),
        }
    }
    let absent = old.keys().filter(|name| !new.contains_key(*name)).map(|name| quoted(name));
    let (fields, absent) = (fields.join(","), absent.collect::<Vec<_>>().join(","));
    if !(fields.is_empty() && absent.is_empty()) {
        differences.push(("fields", format!(r#""fields":{{{fields}}},"absent":[{absent}]"#)));
    }
    differences
}

/// The rows of a list; `None` for another value.
fn rows(value: &str) -> Option<Vec<&str>> {
    let rows: Vec<&RawValue> = serde_json::from_str(value).ok()?;
    Some(rows.into_iter().map(RawValue::get).collect())
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn identities<'a>(rows: &[&'a str]) -> Vec<Identity<'a>> {
    let mut counts: HashMap<Cow<'a, str>, usize> = HashMap::new();
    let identify = |row: &'a str| {
        let uri = serde_json::from_str::<Row<'a>>(row).ok().and_then(|row| row.uri);
        let name = uri.unwrap_or(Cow::Borrowed(row));
        let count = counts.entry(name.clone()).or_default();
        *count += 1;
        (name, *count)
    };
    rows.iter().copied().map(identify).collect()
}

/// First the rows that are gone are removed, the last one first. Then each place gets its row, beginning with the first.
fn list(differences: &mut Vec<Difference>, name: &str, old: &[&str], new: &[&str]) {
    let name = quoted(name);
    let (before, after) = (identities(old), identities(new));
    let wanted: HashSet<&Identity<'_>> = after.iter().collect();
    for at in (0..old.len()).rev().filter(|at| !wanted.contains(&before[*at])) {
        differences.push(("removed", format!(r#""list":{name},"index":{at}"#)));
    }
    let kept = before.iter().zip(old).filter(|(identity, _)| wanted.contains(identity));
    // The rows that the client has at and after the place that is looked at.
    let mut rest: VecDeque<(&Identity<'_>, &str)> = kept.map(|(identity, row)| (identity, *row)).collect();
    for (at, (identity, row)) in after.iter().zip(new).enumerate() {
        let Some(ahead) = rest.iter().position(|(other, _)| *other == identity) else {
            differences.push(("added", format!(r#""list":{name},"index":{at},"row":{row}"#)));
            continue;
        };
        if ahead > 0 {
            let from = at + ahead;
            differences.push(("position", format!(r#""list":{name},"from":{from},"index":{at}"#)));
        }
        if rest.remove(ahead).is_some_and(|(_, earlier)| earlier != *row) {
            differences.push(("changed", format!(r#""list":{name},"index":{at},"row":{row}"#)));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    /// Does what the documentation tells clients to do.
    fn apply(page: &mut Value, (name, fields): &Difference) {
        let mut message: Value = serde_json::from_str(&format!("{{{fields}}}")).unwrap();
        let index = |message: &Value, name: &str| message[name].as_u64().unwrap() as usize;
        if *name == "page" {
            *page = message["page"].take();
            return;
        }
        if *name == "fields" {
            for name in message["absent"].as_array().unwrap() {
                page.as_object_mut().unwrap().remove(name.as_str().unwrap());
            }
            for (name, value) in message["fields"].as_object().unwrap() {
                page[name] = value.clone();
            }
            return;
        }
        let list = page[message["list"].as_str().unwrap()].as_array_mut().unwrap();
        let at = index(&message, "index");
        match *name {
            "removed" => drop(list.remove(at)),
            "added" => list.insert(at, message["row"].take()),
            "changed" => list[at] = message["row"].take(),
            "position" => {
                let row = list.remove(index(&message, "from"));
                list.insert(at, row);
            }
            other => panic!("{other}"),
        }
    }

    fn body(rows: &[(u8, u8)], cursor: Option<u8>) -> Value {
        let rows: Vec<Value> = rows
            .iter()
            .map(|(uri, text)| match uri {
                0 => json!({ "text": text }),
                1 => json!(text),
                _ => json!({ "uri": format!("at://{uri}"), "text": format!("{text} {}", "é".repeat(30)) }),
            })
            .collect();
        let mut body = json!({ "records": rows });
        if let Some(cursor) = cursor {
            body["cursor"] = json!(cursor.to_string());
        }
        body
    }

    proptest! {
        #[test]
        fn the_differences_lead_to_the_new_answer(
            old in prop::collection::vec((0..12_u8, 0..3_u8), 0..12),
            new in prop::collection::vec((0..12_u8, 0..3_u8), 0..12),
            cursors in (prop::option::of(0..3_u8), prop::option::of(0..3_u8)),
        ) {
            let (old, new) = (body(&old, cursors.0), body(&new, cursors.1));
            let found = differences(&old.to_string(), &new.to_string());
            let mut page = old.clone();
            for difference in &found {
                apply(&mut page, difference);
            }
            prop_assert_eq!(&page, &new);
            let size: usize = found.iter().map(|(name, fields)| name.len() + fields.len()).sum();
            prop_assert!(size <= new.to_string().len() + 32);
        }
    }

    #[test]
    fn a_difference_has_the_row_that_it_is_about() {
        let old = body(&[(2, 0), (3, 0), (4, 0), (5, 0)], Some(1)).to_string();
        let new = body(&[(6, 0), (4, 0), (2, 1)], Some(2)).to_string();
        let names: Vec<&str> = differences(&old, &new).iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["page"], "a page of small rows is shorter than its differences");
        let long = "x".repeat(500);
        let old =
            format!(r#"{{"a":[{{"uri":"1","t":"{long}"}},{{"uri":"2","t":"{long}"}},{{"uri":"3"}}],"n":1}}"#);
        let new =
            format!(r#"{{"a":[{{"uri":"2","t":"{long}"}},{{"uri":"1","t":"{long}"}},{{"uri":"4"}}],"n":2}}"#);
        let expected = [
            ("removed", r#""list":"a","index":2"#),
            ("position", r#""list":"a","from":1,"index":0"#),
            ("added", r#""list":"a","index":2,"row":{"uri":"4"}"#),
            ("fields", r#""fields":{"n":2},"absent":[]"#),
        ];
        let found = differences(&old, &new);
        assert_eq!(found.iter().map(|(name, fields)| (*name, &**fields)).collect::<Vec<_>>(), expected);
        assert_eq!(differences(&new, &new), []);
        assert_eq!(differences("[1]", r#"{"a":[]}"#)[0].0, "page");
    }
}
