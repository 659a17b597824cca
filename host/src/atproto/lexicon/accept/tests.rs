use proptest::prelude::*;
use serde_json::{Value, json};
use shrike::lexicon::Catalog;

use super::accepts;
use crate::atproto::lexicon::Schemas;
use crate::atproto::record;

const NOTE: &str = "com.example.note";

fn documents() -> [String; 2] {
    let main = json!({ "type": "record", "key": "tid", "record": { "type": "object",
        "required": ["text", "n"], "nullable": ["maybe"], "properties": {
            "text": { "type": "string", "maxLength": 20, "minLength": 1, "maxGraphemes": 8 },
            "n": { "type": "integer", "minimum": 0, "maximum": 9, "default": 4 },
            "kind": { "type": "string", "enum": ["a", "b"] },
            "flag": { "type": "boolean", "const": true },
            "at": { "type": "string", "format": "datetime" },
            "who": { "type": "string", "format": "did" },
            "site": { "type": "string", "format": "uri" },
            "list": { "type": "array", "maxLength": 2, "items": { "type": "ref", "ref": "#part" } },
            "blob": { "type": "blob", "accept": ["image/*", "text/plain"], "maxSize": 1000 },
            "raw": { "type": "bytes", "maxLength": 4 },
            "link": { "type": "cid-link" },
            "any": { "type": "unknown" },
            "maybe": { "type": "integer" },
            "elsewhere": { "type": "ref", "ref": "com.example.missing#x" },
            "open": { "type": "union", "refs": ["#part", "com.example.defs#other"] },
            "closed": { "type": "union", "closed": true, "refs": ["#part", "com.example.defs"] } } } });
    let part = json!({ "type": "object", "required": ["x"], "properties": {
        "x": { "type": "integer" }, "deep": { "type": "ref", "ref": "#part" } } });
    let other = json!({ "type": "object", "properties": { "y": { "type": "string" } } });
    let defs = json!({ "main": { "type": "object", "required": ["z"], "properties": { "z": { "type": "string" } } },
        "other": other });
    [
        json!({ "lexicon": 1, "id": NOTE, "defs": { "main": main, "part": part } }).to_string(),
        json!({ "lexicon": 1, "id": "com.example.defs", "defs": defs }).to_string(),
    ]
}

fn catalog() -> Catalog {
    let mut catalog = Catalog::new();
    for document in documents() {
        catalog.add_schema(document.as_bytes()).unwrap();
    }
    catalog
}

fn is_accepted(catalog: &Catalog, record: &Value) -> bool {
    let cbor = record::to_cbor(record.to_string().as_bytes()).unwrap();
    cbor.is_ok_and(|cbor| accepts(catalog, NOTE, &cbor))
}

const CID: &str = "bafyreiat2a6lmxj2shvrvtt6fbb6bg7tedu5nr4xcwpyrtukh6v5rt5jnu";

#[test]
fn ordinary_records_are_accepted() {
    let catalog = catalog();
    let blob = json!({ "$type": "blob", "ref": { "$link": CID }, "mimeType": "image/png", "size": 5 });
    let with = |more: Value| {
        let mut record = json!({ "$type": NOTE, "text": "hällo", "n": 1 });
        record.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        record
    };
    for more in [
        json!({}),
        json!({ "undeclared": { "deep": [1, null] }, "kind": "b", "flag": true, "maybe": null }),
        json!({ "at": "2026-01-01T00:00:00.000Z", "who": "did:plc:abc", "site": "https://example.com/a?b" }),
        json!({ "list": [{ "x": 1 }, { "x": -5, "deep": { "x": 2 } }], "raw": { "$bytes": "AAAA" } }),
        json!({ "blob": blob, "link": { "$link": CID }, "any": { "a": 1 } }),
        json!({ "open": { "$type": "com.example.unknown", "a": [] } }),
        json!({ "open": { "$type": "com.example.defs#other", "y": "y" } }),
        json!({ "closed": { "$type": "com.example.defs", "z": "z" } }),
        json!({ "closed": { "$type": "com.example.note#part", "x": 1 } }),
    ] {
        assert!(is_accepted(&catalog, &with(more.clone())), "{more}");
    }
}

/// Values that are often, but not always, right for one of the fields.
fn value() -> impl Strategy<Value = Value> {
    let blob = |kind: &str, size: i64| json!({ "$type": "blob", "ref": { "$link": CID }, "mimeType": kind, "size": size });
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        (-3_i64..12).prop_map(Value::from),
        "[a-z]{0,3}|[äöü]{0,12}|(e\u{301}){0,12}".prop_map(Value::from),
        Just(json!(1.5)),
        proptest::sample::select(vec![
            json!("2026-01-01T00:00:00Z"),
            json!("2026-13-01T00:00:00Z"),
            json!("did:plc:abc"),
            json!("did:x"),
            json!("https://a.b/c"),
            json!("https:///c"),
            json!("mailto:a@b.c"),
            json!("a b"),
            json!("a"),
            json!("b"),
            json!({ "$link": CID }),
            json!({ "$bytes": "AAAA" }),
            json!({ "$bytes": "AAAAAAAA" }),
            blob("image/png", 1),
            blob("image/png", 2000),
            blob("video/mp4", 1),
            blob("", 1),
            json!({ "$type": "blob", "ref": { "$link": CID }, "mimeType": "text/plain" }),
        ]),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let kinds = proptest::sample::select(vec![
            "com.example.note#part",
            "com.example.defs",
            "com.example.defs#other",
            "com.example.defs#main",
            "com.example.else",
            "com.example.defs#other#x",
            "",
        ]);
        let names = "x|y|z|deep|[a-c]";
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(names, inner.clone(), 0..3)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
            (kinds, proptest::collection::btree_map(names, inner, 0..3)).prop_map(|(kind, members)| {
                let mut object: serde_json::Map<String, Value> = members.into_iter().collect();
                object.insert("$type".to_owned(), kind.into());
                Value::Object(object)
            }),
        ]
    })
}

const FIELDS: &str =
    "text|n|kind|flag|at|who|site|list|blob|raw|link|any|maybe|elsewhere|open|closed|other|\\$type";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn what_is_accepted_is_valid(members in proptest::collection::btree_map(FIELDS, value(), 0..4), whole in any::<bool>()) {
        let mut record: serde_json::Map<String, Value> = members.into_iter().collect();
        if whole {
            record.entry("text").or_insert("short".into());
            record.entry("n").or_insert(1.into());
            record.insert("$type".to_owned(), NOTE.into());
        }
        let record = Value::Object(record);
        if is_accepted(&catalog(), &record) {
            let documents = documents();
            let schemas = Schemas::new(documents.iter().map(String::as_str));
            prop_assert_eq!(schemas.check(NOTE, &record), Ok(()));
        }
    }

    #[test]
    fn never_panics(cbor in proptest::collection::vec(any::<u8>(), 0..40)) {
        accepts(&catalog(), NOTE, &cbor);
    }
}
