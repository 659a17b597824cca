//! Tests of empty arrays.

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
        (
            r#"{"tags":{},"meta":{},"any":{},"other":{}}"#,
            json!({ "tags": [], "meta": {}, "any": {}, "other": {} }),
        ),
        (r#"{"meta":{"langs":{},"more":{}}}"#, json!({ "meta": { "langs": [], "more": {} } })),
        (r#"{"grid":[{},["a"],{}]}"#, json!({ "grid": [[], ["a"], []] })),
        (r#"{"grid":{}}"#, json!({ "grid": [] })),
        (
            r#"{"near":{"items":{},"parts":[{"parts":{}}]}}"#,
            json!({ "near": { "items": [], "parts": [{ "parts": [] }] } }),
        ),
        (r#"{"far":{"values":{},"items":{}}}"#, json!({ "far": { "values": [], "items": {} } })),
        (
            r#"{"list":[{"values":{}}],"lost":{"values":{}}}"#,
            json!({ "list": [{ "values": [] }], "lost": { "values": {} } }),
        ),
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
        (r#"{"a\\":"\\\\{}","tags":{}}"#, json!({ "a\\": "\\\\{}", "tags": [] })),
        (r#"{"$type":{},"tags":{}}"#, json!({ "$type": {}, "tags": {} })),
        (r#"{"embed":{"$type":7,"values":{}}}"#, json!({ "embed": { "$type": 7, "values": {} } })),
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
    for text in [
        format!("{{\"near\":{part}}}"),
        "{\"tags\":{}".to_owned(),
        "{\"tags\":{}}}".to_owned(),
        "{}".to_owned(),
    ] {
        let mended = schemas().record_with_arrays("com.example.note", text.clone().into());
        assert_eq!(mended, text.as_bytes());
    }
    let many = format!("{{\"grid\":[{}{{}}]}}", "{},".repeat(super::MAX_EMPTY));
    assert_eq!(schemas().record_with_arrays("com.example.note", many.clone().into()), many.as_bytes());
    let invalid = b"{\"tags\":{},\"text\":\"\xff\"}";
    assert_eq!(schemas().record_with_arrays("com.example.note", invalid.to_vec().into()), invalid.as_slice());
}
