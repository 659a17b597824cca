//! The forms of trees.

use serde_json::{Value, json};

use super::{METHOD, check, compile, documents};

#[test]
fn a_tree_has_the_form_of_its_records() {
    let tree = |output: Value| {
        json!({ "view": 1, "output": output,
            "from": { "tree": "$uri", "collection": "com.example.post", "path": "reply.parent.uri" } })
    };
    let good = json!({ "thread": { "uri": "@uri", "replies": "@children" } });
    assert!(compile(&tree(good).to_string()).is_ok());
    let without = compile(&tree(json!({ "thread": "@uri" })).to_string()).unwrap_err().to_string();
    assert!(without.contains("one field with the value @children"), "{without}");
    let in_brackets = json!({ "thread": { "uri": "@uri", "replies": ["@children"] } });
    let in_brackets = compile(&tree(in_brackets).to_string()).unwrap_err().to_string();
    assert!(in_brackets.contains("write it without brackets"), "{in_brackets}");
}

/// The mistakes of a tree's form, with these definitions in the lexicon of its method.
fn offences_of_tree(node: &Value, defs: &Value) -> String {
    let mut documents = documents();
    let lexicon = documents.get_mut(METHOD).unwrap();
    for (name, definition) in defs.as_object().unwrap() {
        lexicon["defs"][name] = definition.clone();
    }
    let main = &mut lexicon["defs"]["main"];
    main["parameters"]["properties"]["uri"] = json!({ "type": "string" });
    let root = json!({ "type": "object", "properties": { "thread": { "type": "ref", "ref": "#node" } } });
    main["output"]["schema"] = root;
    let document = json!({ "view": 1, "output": { "thread": node },
        "from": { "tree": "$uri", "collection": "com.example.post", "path": "reply.parent.uri" } });
    let compared = compile(&document.to_string()).and_then(|view| check(&view, METHOD, &documents));
    compared.err().map(|offences| offences.to_string()).unwrap_or_default()
}

#[test]
fn children_have_the_form_of_the_elements() {
    let string = json!({ "type": "string" });
    let node = |items: Value| {
        json!({ "type": "object", "nullable": ["uri"], "properties": { "uri": string,
            "replies": { "type": "array", "items": items } } })
    };
    let itself = json!({ "node": node(json!({ "type": "ref", "ref": "#node" })) });
    let form = json!({ "uri": "@uri", "replies": "@children" });
    assert_eq!(offences_of_tree(&form, &itself), "");
    assert_eq!(offences_of_tree(&json!({ "uri": null, "replies": "@children" }), &itself), "");
    let more = json!({ "url": "@uri", "replies": "@children" });
    assert_eq!(
        offences_of_tree(&more, &itself),
        "output.thread.url: the lexicon's output has no such property",
        "each mistake is listed once"
    );

    let union = json!({ "node": node(json!({ "type": "union", "refs": ["#node", "#main"] })) });
    assert_eq!(
        offences_of_tree(&form, &union),
        "output.thread.replies[]: the lexicon declares a union: add a $type that names one of its variants"
    );
    for name in ["#node", "com.example.getFeed#node"] {
        let typed = json!({ "$type": name, "uri": "@uri", "replies": "@children" });
        assert_eq!(offences_of_tree(&typed, &union), "", "{name}");
    }

    let other = json!({ "node": node(json!({ "type": "ref", "ref": "#below" })),
        "below": { "type": "object", "required": ["cid"], "properties": { "uri": string } } });
    let found = offences_of_tree(&form, &other);
    assert!(found.contains("output.thread.replies[].replies: the lexicon's output has no such"), "{found}");
    assert!(found.contains("output.thread.replies[]: it lacks cid"), "{found}");
}
