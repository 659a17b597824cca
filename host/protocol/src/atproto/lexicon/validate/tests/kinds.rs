//! Each kind of definition, reached through a reference, with values that match it and values that don't.
//! `docs/validation.md` explains the unclear cases.

use serde_json::{Value, json};

use super::super::super::Schemas;
use super::model::CID;

const NOTE: &str = "com.example.note";

/// The errors of a record whose `value` is a reference to a definition.
fn errors(definition: &Value, value: &Value) -> Option<String> {
    let main = json!({ "type": "record", "key": "any", "record": { "type": "object", "properties": {
        "value": { "type": "ref", "ref": "com.example.defs#it" } } } });
    let defs = json!({ "it": definition,
        "part": { "type": "object", "required": ["n"], "properties": { "n": { "type": "integer" } } },
        "circle": { "type": "ref", "ref": "#circle" }, "token": { "type": "token" },
        "list": { "type": "array", "items": { "type": "integer" } } });
    let other = json!({ "type": "record", "key": "any", "record": {
        "type": "object", "properties": { "n": { "type": "integer" } } } });
    let document = |id: &str, defs: Value| json!({ "lexicon": 1, "id": id, "defs": defs }).to_string();
    let documents = [
        document(NOTE, json!({ "main": main })),
        document("com.example.defs", defs),
        document("com.example.other", json!({ "main": other })),
    ];
    let schemas = Schemas::new(documents.iter().map(String::as_str));
    schemas.check(NOTE, &json!({ "$type": NOTE, "value": value })).err().map(|errors| errors.to_string())
}

fn assert_values(definition: &Value, valid: &[Value], invalid: &[(Value, &str)]) {
    for value in valid {
        assert_eq!(errors(definition, value), None, "{definition} {value}");
    }
    for (value, error) in invalid {
        let found = errors(definition, value).unwrap_or_else(|| panic!("{definition} accepts {value}"));
        assert_eq!(found, format!("at record.value{error}"), "{definition} {value}");
    }
}

#[test]
fn scalars() {
    assert_values(&json!({ "type": "null" }), &[json!(null)], &[(json!(1), ": expected null, got integer")]);
    assert_values(
        &json!({ "type": "boolean", "const": true }),
        &[json!(true)],
        &[(json!(false), ": expected true, got false"), (json!("a"), ": expected boolean, got string")],
    );
    assert_values(
        &json!({ "type": "integer", "minimum": 2, "maximum": 4, "enum": [3, 4, 7] }),
        &[json!(3), json!(4.0)],
        &[
            (json!(2), ": value not in enum: 2"),
            (json!(7), ": integer too large: max 4, got 7"),
            (json!(null), ": expected integer, got null"),
        ],
    );
    assert_values(
        &json!({ "type": "string", "maxGraphemes": 2, "maxLength": 40 }),
        &[json!("ab"), json!("👩‍👩‍👧👩‍👩‍👧")],
        &[
            (json!("abc"), ": string too long: max 2 graphemes, got 3"),
            (json!(["a"]), ": expected string, got array"),
        ],
    );
    assert_values(
        &json!({ "type": "string", "format": "datetime", "knownValues": ["x"] }),
        &[json!("2024-02-29T00:00:00Z")],
        &[(json!("2026-02-30T00:00:00Z"), ": invalid datetime: \"2026-02-30T00:00:00Z\"")],
    );
    assert_values(
        &json!({ "type": "string", "enum": ["b", "a"] }),
        &[json!("a"), json!("b")],
        &[(json!("c"), ": value not in enum: \"c\"")],
    );
    assert_values(
        &json!({ "type": "bytes", "minLength": 3, "maxLength": 3 }),
        &[json!({ "$bytes": "AAAA" })],
        &[
            (json!({ "$bytes": "" }), ": bytes too short: min 3 bytes, got 0"),
            (json!("AAAA"), ": expected bytes, got string"),
        ],
    );
    assert_values(
        &json!({ "type": "cid-link" }),
        &[json!({ "$link": CID })],
        &[(json!(CID), ": expected link, got string")],
    );
    assert_values(
        &json!({ "type": "token" }),
        &[json!("com.example.defs#it")],
        &[(json!("#it"), ": expected \"com.example.defs#it\", got \"#it\"")],
    );
}

#[test]
fn blobs() {
    let blob = |kind: &str, size: i64| json!({ "$type": "blob", "ref": { "$link": CID }, "mimeType": kind, "size": size });
    let mut with_more = blob("image/png", 5);
    with_more["url"] = "https://example.com".into();
    let not_a_blob = ": expected blob, got an object without $type \"blob\", ref, mimeType and size";
    assert_values(
        &json!({ "type": "blob", "accept": ["text/plain", "image/*", "a/b"], "maxSize": 1000 }),
        &[blob("image/png", 1000), with_more, json!({ "cid": CID, "mimeType": "image/png" })],
        &[
            (blob("image/png", 1001), ": blob too large: max 1000 bytes, got 1001"),
            (blob("video/mp4", 1), ": the mimeType \"video/mp4\" of the blob is not accepted"),
            (blob("", 1), ": the mimeType of the blob is empty"),
            (json!({ "cid": "nothing", "mimeType": "image/png" }), not_a_blob),
            (json!({ "ref": { "$link": CID }, "mimeType": "image/png", "size": 1 }), not_a_blob),
            (json!("x"), ": expected blob, got string"),
        ],
    );
}

#[test]
fn containers() {
    assert_values(
        &json!({ "type": "array", "maxLength": 2, "items": { "type": "integer" } }),
        &[json!([]), json!([1, 2])],
        &[
            (json!([1, "a"]), "[1]: expected integer, got string"),
            (json!([1, 2, 3]), ": array too long: max 2 items, got 3"),
            (json!({}), ": expected array, got object"),
        ],
    );
    assert_values(
        &json!({ "type": "object", "required": ["a", "b"], "nullable": ["b"], "properties": {
            "a": { "type": "integer" }, "b": { "type": "integer" }, "c": { "type": "ref", "ref": "#list" } } }),
        &[json!({ "a": 1, "b": null, "z": null }), json!({ "a": 1, "b": 2, "c": [3] })],
        &[
            (json!({ "b": 1 }), ".a: required field missing"),
            (json!({ "a": null, "b": 1 }), ".a: expected integer, got null"),
            (json!({ "a": 1, "b": 1, "c": [true] }), ".c[0]: expected integer, got boolean"),
            (json!({ "$link": CID }), ": expected object, got link"),
        ],
    );
    assert_values(
        &json!({ "type": "unknown" }),
        &[json!({}), json!({ "a": [1, null] }), json!({ "$link": CID }), json!({ "$bytes": "" })],
        &[(json!([]), ": expected object, got array"), (json!("a"), ": expected object, got string")],
    );
}

#[test]
fn references_and_unions() {
    assert_values(
        &json!({ "type": "ref", "ref": "#list" }),
        &[json!([1])],
        &[(json!(["a"]), "[0]: expected integer, got string")],
    );
    for nowhere in ["#missing", "com.example.missing", "#circle"] {
        let reference = json!({ "type": "ref", "ref": nowhere });
        assert_values(&reference, &[json!(1), json!({})], &[(json!(null), ": expected a value, got null")]);
    }
    assert_values(
        &json!({ "type": "ref", "ref": "com.example.other" }),
        &[json!({ "n": 1 }), json!({ "$type": "com.example.other" })],
        &[(
            json!({ "$type": "com.example.note" }),
            ".$type: expected com.example.other, got \"com.example.note\"",
        )],
    );
    let refs = json!(["#part", "com.example.other", "#token", "#missing", "#list"]);
    let part = |n: Value| json!({ "$type": "com.example.defs#part", "n": n });
    let of = |kind: &str| json!({ "$type": kind });
    let wrong = [
        (part(json!("a")), ".n: expected integer, got string"),
        (json!({ "n": 1 }), ".$type: a value of a union must have it, as a string"),
        (of("#part"), ".$type: \"#part\" is not an NSID, or an NSID with #name"),
        (of("a.b.c#d#e"), ".$type: \"a.b.c#d#e\" is not an NSID, or an NSID with #name"),
        (of("com.example.defs#list"), ": com.example.defs#list is array, which no value of a union can be"),
        (json!([]), ": expected object of a union, got array"),
    ];
    let right = [
        part(json!(1)),
        of("com.example.other"),
        of("com.example.other#main"),
        of("com.example.defs#token"),
        of("com.example.defs#missing"),
    ];
    let open = json!({ "type": "union", "refs": refs });
    assert_values(&open, &right, &wrong);
    assert_values(&open, &[of("com.example.else")], &[]);
    let closed = json!({ "type": "union", "refs": refs, "closed": true });
    assert_values(&closed, &right, &wrong);
    let error = ".$type: \"com.example.else\" is not one of the types of the closed union";
    assert_values(&closed, &[], &[(of("com.example.else"), error)]);
}

#[test]
fn records_name_their_collection_and_what_is_no_type_of_values_says_nothing() {
    let main = json!({ "type": "record", "key": "any", "record": { "type": "object", "properties": {
        "a": { "type": "ref", "ref": "com.example.query" }, "b": { "type": "ref", "ref": "#later" } } } });
    let note = json!({ "lexicon": 1, "id": NOTE, "defs": { "main": main, "later": { "type": "later" } } });
    let query = json!({ "lexicon": 1, "id": "com.example.query", "defs": { "main": { "type": "query" } } });
    let documents = [note.to_string(), query.to_string()];
    let schemas = Schemas::new(documents.iter().map(String::as_str));
    let check = |record: Value| schemas.check(NOTE, &record).map_err(|errors| errors.to_string());
    assert_eq!(check(json!({ "$type": NOTE, "a": 1, "b": [] })), Ok(()));
    assert_eq!(check(json!({})), Err("at record.$type: required field missing".to_owned()));
    for other in ["com.example.query", "com.example.note#main"] {
        let error = format!("at record.$type: expected {NOTE}, got {other:?}");
        assert_eq!(check(json!({ "$type": other })), Err(error));
    }
    assert_eq!(schemas.check("com.example.query", &json!({})), Ok(()));
}

#[test]
fn at_most_ten_errors_are_named() {
    let list = json!({ "type": "array", "items": { "type": "integer" } });
    let wrong: Vec<&str> = vec!["a"; 1000];
    let found = errors(&list, &json!(wrong)).unwrap();
    assert_eq!(found.matches("expected integer").count(), 10);
}
