use proptest::prelude::*;
use serde_json::json;

use super::*;

fn note() -> Value {
    json!({
        "lexicon": 1,
        "id": "com.example.note",
        "description": "A note.",
        "defs": {
            "main": {
                "type": "record",
                "key": "tid",
                "record": {
                    "type": "object",
                    "required": ["text", "createdAt"],
                    "nullable": ["mood"],
                    "properties": {
                        "text": {"type": "string", "maxLength": 3000, "maxGraphemes": 300},
                        "createdAt": {"type": "string", "format": "datetime"},
                        "mood": {"type": "string", "knownValues": ["#happy"], "default": "calm"},
                        "stars": {"type": "integer", "minimum": -1, "maximum": 5, "default": 0},
                        "image": {"type": "blob", "accept": ["image/*"], "maxSize": 1_000_000},
                        "tags": {"type": "array", "items": {"type": "string"}, "maxLength": 8},
                        "embed": {"type": "union", "refs": ["#card", "com.example.embed", "a.b.c#d"], "closed": false},
                        "reply": {"type": "ref", "ref": "com.atproto.repo.strongRef"},
                        "raw": {"type": "bytes", "maxLength": 20},
                        "link": {"type": "cid-link"},
                        "extra": {"type": "unknown"}
                    }
                }
            },
            "card": {"type": "object", "properties": {"title": {"type": "string"}}},
            "happy": {"type": "token", "description": "In a good mood."},
            "future": {"type": "something-new", "whatever": [1]}
        }
    })
}

fn with(path: &str, value: Value) -> Value {
    let mut doc = note();
    *doc.pointer_mut(path).unwrap() = value;
    doc
}

#[test]
fn reads_a_record_lexicon() {
    let doc = LexiconDoc::parse(&note()).unwrap();
    assert_eq!(
        (doc.id.as_str(), doc.kind, doc.key.as_deref()),
        ("com.example.note", LexiconKind::Record, Some("tid"))
    );
    assert_eq!(doc.required_fields().collect::<Vec<_>>(), ["text", "createdAt"]);
    let mut defaults: Vec<_> = doc.default_fields().collect();
    defaults.sort_unstable_by_key(|(name, _)| *name);
    assert_eq!(defaults, [("mood", &json!("calm")), ("stars", &json!(0))]);
}

#[test]
fn the_main_definition_decides_the_kind() {
    let parse = |main: Value| {
        LexiconDoc::parse(&json!({"lexicon": 1, "id": "com.example.x", "defs": {"main": main}}))
            .map(|doc| doc.kind)
    };
    let params = json!({"type": "params", "required": ["q"], "properties": {
        "q": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}, "limit": {"type": "integer", "default": 20}
    }});
    let body = json!({"encoding": "application/json", "schema": {"type": "object", "properties": {}}});
    for (main, kind) in [
        (json!({"type": "query"}), LexiconKind::Query),
        (json!({"type": "query", "parameters": params, "output": body}), LexiconKind::Query),
        (
            json!({"type": "procedure", "input": body, "output": {"encoding": "*/*"}, "errors": [{"name": "Bad"}]}),
            LexiconKind::Procedure,
        ),
        (
            json!({"type": "space", "key": "any", "name": "Forum", "collections": ["com.example.post"]}),
            LexiconKind::Space,
        ),
        (
            json!({"type": "space", "key": "any", "name": "ä".repeat(64), "name:lang": {"fr": "x"}, "collections": []}),
            LexiconKind::Space,
        ),
        (json!({"type": "record", "record": {"type": "object"}}), LexiconKind::Record),
        (
            json!({"type": "subscription", "message": {"schema": {"type": "union", "refs": []}}}),
            LexiconKind::Subscription,
        ),
        (json!({"type": "permission-set", "permissions": []}), LexiconKind::Definitions),
        (json!({"type": "object", "properties": {}}), LexiconKind::Definitions),
    ] {
        assert_eq!(parse(main.clone()), Ok(kind), "{main}");
    }
    let none = LexiconDoc::parse(&json!({"lexicon": 1, "id": "com.example.defs", "defs": {}})).unwrap();
    assert_eq!(none.kind, LexiconKind::Definitions);
}

#[test]
fn errors_have_a_path_and_a_reason() {
    let main = |main: Value| json!({"lexicon": 1, "id": "com.example.x", "defs": {"main": main}});
    let props = "/defs/main/record/properties";
    for (doc, path, reason) in [
        (json!([]), "document", "must be an object"),
        (json!({"id": "com.example.x", "defs": {}}), "lexicon", "is missing"),
        (with("/lexicon", json!(2)), "lexicon", "must be 1"),
        (with("/lexicon", json!("1")), "lexicon", "must be 1"),
        (json!({"lexicon": 1, "defs": {}}), "id", "is missing"),
        (with("/id", json!("")), "id", "valid NSID"),
        (with("/id", json!("note")), "id", "valid NSID"),
        (with("/id", json!(7)), "id", "must be a string"),
        (with("/description", json!(7)), "description", "must be a string"),
        (json!({"lexicon": 1, "id": "com.example.x"}), "defs", "is missing"),
        (with("/defs", json!([])), "defs", "must be an object"),
        (with("/defs/main", json!("record")), "defs.main", "must be an object"),
        (with("/defs/main", json!({})), "defs.main.type", "is missing"),
        (with("/defs/main/type", json!(1)), "defs.main.type", "must be a string"),
        (with("/defs/main/key", json!("uuid")), "defs.main.key", "literal:"),
        (with("/defs/main/key", json!("literal:a/b")), "defs.main.key", "literal:"),
        (main(json!({"type": "record", "key": "tid"})), "defs.main.record", "is missing"),
        (with("/defs/main/record", json!({"properties": {}})), "defs.main.record.type", "is missing"),
        (with("/defs/main/record/type", json!("string")), "defs.main.record.type", "must be object"),
        (with("/defs/main/record/required", json!(["nope"])), "defs.main.record.required[0]", "not among"),
        (with("/defs/main/record/required", json!("text")), "defs.main.record.required", "must be an array"),
        (with("/defs/main/record/nullable", json!([1])), "defs.main.record.nullable[0]", "must be a string"),
        (with(props, json!([])), "defs.main.record.properties", "must be an object"),
        (with(&format!("{props}/text"), json!({})), "defs.main.record.properties.text.type", "is missing"),
        (
            with(&format!("{props}/text/type"), json!("float")),
            "defs.main.record.properties.text.type",
            "\"float\" is not a type",
        ),
        (
            with(&format!("{props}/text/maxLength"), json!(-1)),
            "defs.main.record.properties.text.maxLength",
            "0 or more",
        ),
        (
            with(&format!("{props}/stars/minimum"), json!(9)),
            "defs.main.record.properties.stars",
            "minimum is above maximum",
        ),
        (
            with(&format!("{props}/stars/default"), json!("0")),
            "defs.main.record.properties.stars.default",
            "must be an integer",
        ),
        (
            with(&format!("{props}/tags/items"), json!({"type": "x"})),
            "defs.main.record.properties.tags.items.type",
            "not a type",
        ),
        (
            with(&format!("{props}/embed/refs"), json!(["#card", "nope"])),
            "defs.main.record.properties.embed.refs[1]",
            "must be #name",
        ),
        (
            with(&format!("{props}/reply/ref"), json!("a.b.c#d#e")),
            "defs.main.record.properties.reply.ref",
            "must be",
        ),
        (with(&format!("{props}/reply/ref"), json!("")), "defs.main.record.properties.reply.ref", "must be"),
        (with("/defs/card", json!({"type": "query"})), "defs.card.type", "must be the main definition"),
        (
            main(json!({"type": "query", "parameters": {"type": "object"}})),
            "defs.main.parameters.type",
            "params",
        ),
        (
            main(
                json!({"type": "query", "parameters": {"type": "params", "properties": {"a": {"type": "object"}}}}),
            ),
            "defs.main.parameters.properties.a.type",
            "a parameter is",
        ),
        (main(json!({"type": "query", "output": {}})), "defs.main.output.encoding", "is missing"),
        (main(json!({"type": "procedure", "input": []})), "defs.main.input", "must be an object"),
        (main(json!({"type": "procedure", "errors": [{}]})), "defs.main.errors[0].name", "is missing"),
        (main(json!({"type": "space", "name": "x", "collections": []})), "defs.main.key", "is missing"),
        (
            main(json!({"type": "space", "key": 7, "name": "x", "collections": []})),
            "defs.main.key",
            "must be a string",
        ),
        (main(json!({"type": "space", "key": "any", "collections": []})), "defs.main.name", "is missing"),
        (main(json!({"type": "space", "key": "any", "name": "x"})), "defs.main.collections", "is missing"),
        (
            main(json!({"type": "space", "key": "any", "name": "x", "collections": "a.b.c"})),
            "defs.main.collections",
            "must be an array",
        ),
        (
            main(json!({"type": "space", "key": "any", "name": "", "collections": []})),
            "defs.main.name",
            "1 to 64",
        ),
        (
            main(json!({"type": "space", "key": "any", "name": "x".repeat(65), "collections": []})),
            "defs.main.name",
            "1 to 64",
        ),
        (
            main(json!({"type": "space", "key": "any", "name": "x", "collections": [1]})),
            "defs.main.collections[0]",
            "must be a string",
        ),
    ] {
        let error = LexiconDoc::parse(&doc).unwrap_err();
        assert_eq!(error.path, path, "{error}");
        assert!(error.reason.contains(reason), "{error}");
    }
}

#[test]
fn deep_schemas_are_rejected() {
    let mut items = json!({"type": "string"});
    for _ in 0..500 {
        items = json!({"type": "array", "items": items});
    }
    let doc = with("/defs/card", items);
    assert_eq!(LexiconDoc::parse(&doc).unwrap_err().reason, "nests too deep");
}

/// The note lexicon with one value replaced by another.
fn damaged() -> impl Strategy<Value = Value> {
    let junk = prop_oneof![
        Just(Value::Null),
        Just(json!(-1)),
        Just(json!("")),
        Just(json!([null])),
        Just(json!({"type": "array"})),
        Just(json!({"type": {"type": "object"}}))
    ];
    (any::<prop::sample::Index>(), junk).prop_map(|(at, junk)| {
        fn pointers(value: &Value, here: &str, out: &mut Vec<String>) {
            out.push(here.to_owned());
            match value {
                Value::Object(map) => map.iter().for_each(|(k, v)| pointers(v, &format!("{here}/{k}"), out)),
                Value::Array(items) => {
                    items.iter().enumerate().for_each(|(i, v)| pointers(v, &format!("{here}/{i}"), out));
                }
                _ => {}
            }
        }
        let mut doc = note();
        let mut all = Vec::new();
        pointers(&doc, "", &mut all);
        let at: &String = at.get(&all);
        *doc.pointer_mut(at).unwrap() = junk;
        doc
    })
}

proptest! {
    #[test]
    fn never_panics_and_names_a_path_that_exists(doc in damaged()) {
        if let Err(error) = LexiconDoc::parse(&doc) {
            prop_assert!(!error.path.is_empty() && !error.reason.is_empty());
        }
    }
}
