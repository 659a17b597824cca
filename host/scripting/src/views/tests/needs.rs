//! The indexes that views need.

use serde_json::{Value, json};

use super::compile;
use crate::views::needs::Needs;

/// The indexes that a view with these conditions and this order can use, and its parts that none serves.
fn needs(conditions: Value, order: Value) -> (Vec<String>, Vec<String>) {
    let document = json!({ "view": 1, "from": "com.example.post", "where": conditions, "order": order,
        "output": { "feed": ["@uri"] } });
    let view = compile(&document.to_string()).unwrap();
    let Needs { indexes, unserved } = Needs::of(&view);
    (indexes.iter().map(|index| format!("{} {}", index.kind.as_str(), index.path)).collect(), unserved)
}

#[test]
fn conditions_need_the_indexes_that_serve_them() {
    let none = json!([]);
    let mood = json!({ "mood": "glad" });
    for (conditions, order, indexes, unserved) in [
        (mood.clone(), json!(["-n"]), vec!["filter mood", "sort n"], vec![]),
        (json!({ "n": { "gte": 1, "lt": 5 } }), none.clone(), vec!["filter n"], vec![]),
        (json!({ "all": [mood, { "n": 1 }] }), none.clone(), vec!["filter mood", "filter n"], vec![]),
        (json!({ "any": [{ "all": [mood] }] }), none.clone(), vec!["filter mood"], vec![]),
        (json!({ "any": [mood, { "n": 1 }] }), none.clone(), vec![], vec!["any"]),
        (json!({ "n": { "missing": false } }), none.clone(), vec![], vec!["missing of n"]),
        (json!({ "n": { "contains": "a" } }), none.clone(), vec![], vec!["contains of n"]),
        (mood.clone(), json!(["n", "-mood"]), vec!["filter mood"], vec!["an order by several fields"]),
        (json!({ "did": "$actor", "n": 1 }), none.clone(), vec!["filter n"], vec![]),
        (json!({ "did": "$viewer", "n": 1 }), json!(["n"]), vec![], vec![]),
        (json!({ "did": { "in": ["$viewer", "$actor"] }, "n": 1 }), none, vec!["filter n"], vec![]),
    ] {
        let expected = (
            indexes.into_iter().map(str::to_owned).collect(),
            unserved.into_iter().map(str::to_owned).collect(),
        );
        assert_eq!(needs(conditions.clone(), order), expected, "{conditions}");
    }
}
