use data_encoding::BASE64_NOPAD;
use proptest::prelude::*;
use serde_json::{Value, json};
use shrike::cbor::json::{Integers, json_slice_to_drisl};

use super::refs::MAX_PATHS;
use super::*;
use belvedere_standins::vectors;

fn cid(json: &str) -> Result<Cid, Unencodable> {
    inspect(json.as_bytes()).unwrap().cid
}

fn cbor(json: &str) -> Vec<u8> {
    to_cbor(json.as_bytes()).unwrap().unwrap()
}

#[test]
fn data_model_fixtures_have_their_cbor_and_cid() {
    let Some(text) = vectors::read("data-model/data-model-fixtures.json") else { return };
    for case in serde_json::from_str::<Vec<Value>>(&text).unwrap() {
        let record = case["json"].to_string();
        let expected = case["cbor_base64"].as_str().unwrap().trim_end_matches('=');
        assert_eq!(BASE64_NOPAD.encode(&cbor(&record)), expected);
        assert_eq!(cid(&record).unwrap().to_string(), case["cid"].as_str().unwrap());
    }
}

#[test]
fn valid_data_has_a_cid_and_invalid_has_none() {
    let Some(text) = vectors::read("data-model/data-model-valid.json") else { return };
    for case in serde_json::from_str::<Vec<Value>>(&text).unwrap() {
        assert!(cid(&case["json"].to_string()).is_ok(), "{}", case["note"]);
    }
    let text = vectors::read("data-model/data-model-invalid.json").unwrap();
    for case in serde_json::from_str::<Vec<Value>>(&text).unwrap() {
        let result = inspect(case["json"].to_string().as_bytes());
        assert!(!matches!(result, Ok(Inspection { cid: Ok(_), .. })), "{}", case["note"]);
    }
}

#[test]
fn says_why_a_record_has_no_cid() {
    for (json, why) in [
        (r#"{"a":1.5}"#, Unencodable::Number),
        (r#"{"a":9223372036854775808}"#, Unencodable::Number),
        (r#"{"a":-9223372036854775809}"#, Unencodable::Number),
        (r#"{"a":1e300}"#, Unencodable::Number),
        (r#"{"a":{"$link":"x"}}"#, Unencodable::Link),
        (r#"{"$link":"bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a"}"#, Unencodable::Link),
        (r#"{"a":{"$bytes":"%"}}"#, Unencodable::Bytes),
        (r#"{"$bytes":"aGk"}"#, Unencodable::Bytes),
        (r#"{"a":{"$type":""}}"#, Unencodable::Type),
        (r#"{"a":{"$type":"blob"}}"#, Unencodable::Blob),
    ] {
        assert_eq!(cid(json), Err(why), "{json}");
    }
}

#[test]
fn numbers_are_integers_by_value() {
    let plain = cbor(r#"{"a":1000}"#);
    for same in [r#"{"a":1000.0}"#, r#"{"a":1e3}"#, r#"{"a":10000e-1}"#] {
        assert_eq!(cbor(same), plain, "{same}");
    }
    assert_eq!(cbor(r#"{"a":-0}"#), cbor(r#"{"a":0}"#));
    assert_eq!(cbor(r#"{"a":9223372036854775807}"#)[3..], [0x1b, 0x7f, 255, 255, 255, 255, 255, 255, 255]);
    assert_eq!(cbor(r#"{"a":-9223372036854775808}"#)[3..], [0x3b, 0x7f, 255, 255, 255, 255, 255, 255, 255]);
}

#[test]
fn bytes_may_be_padded_or_not() {
    assert_eq!(cbor(r#"{"a":{"$bytes":"aGk="}}"#), cbor(r#"{"a":{"$bytes":"aGk"}}"#));
    assert_eq!(cbor(r#"{"a":{"$bytes":""}}"#)[3..], [0x40]);
}

#[test]
fn the_canonical_text_is_what_a_repo_returns() {
    const BASE32: &str = "bafkreiccldh766hwcnuxnf2wh6jgzepf2nlu2lvcllt63eww5p6chi4ity";
    let base58 = format!("z{}", base58(&BASE32.parse::<Cid>().unwrap().to_bytes()));
    for (written, canonical) in [
        (r#"{"a":[1.0,1e3,-0,-0.0,-2.50e1,10e-1]}"#.to_owned(), r#"{"a":[1,1000,0,0,-25,1]}"#.to_owned()),
        (r#"{"b":{"c":1.0},"a":"1.0"}"#.to_owned(), r#"{"a":"1.0","b":{"c":1}}"#.to_owned()),
        (r#"{"a":{"$bytes":"aGk="}}"#.to_owned(), r#"{"a":{"$bytes":"aGk"}}"#.to_owned()),
        (r#"{"a":{"$bytes":"aGl"}}"#.to_owned(), r#"{"a":{"$bytes":"aGk"}}"#.to_owned()),
        (format!(r#"{{"a":{{"$link":"{base58}"}}}}"#), format!(r#"{{"a":{{"$link":"{BASE32}"}}}}"#)),
    ] {
        let inspected = inspect(written.as_bytes()).unwrap();
        assert_eq!(inspected.canonical.as_deref(), Some(canonical.as_bytes()), "{written}");
        let again = inspect(canonical.as_bytes()).unwrap();
        assert_eq!((again.cid, again.canonical), (inspected.cid, None), "{canonical}");
    }
    // Order, spaces and escapes are no difference, and a record without a CID is in no repo.
    for text in [r#"{ "b": [1, -1, 0], "a": "\u0041" }"#, r#"{"a":1.5,"b":1.0}"#, r#"{"a":1e300}"#] {
        assert_eq!(inspect(text.as_bytes()).unwrap().canonical, None, "{text}");
    }
}

/// Base58 (Bitcoin's alphabet) of bytes that don't begin with zeros.
fn base58(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
    let mut digits: Vec<u32> = Vec::new();
    for &byte in bytes {
        let mut carry = u32::from(byte);
        for digit in &mut digits {
            carry += *digit << 8;
            *digit = carry % 58;
            carry /= 58;
        }
        while carry > 0 {
            digits.push(carry % 58);
            carry /= 58;
        }
    }
    digits.iter().rev().map(|&digit| char::from(ALPHABET[digit as usize])).collect()
}

#[test]
fn rejects_what_is_not_a_record() {
    let deep = |n: usize| format!("{}1{}", r#"{"a":"#.repeat(n), "}".repeat(n));
    assert!(inspect(deep(MAX_DEPTH).as_bytes()).is_ok());
    let large = format!(r#"{{"a":"{}"}}"#, "x".repeat(MAX_RECORD_BYTES));
    let wide = format!(r#"{{"a":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    for (json, why) in [
        (deep(MAX_DEPTH + 1).as_str(), InvalidRecord::TooDeep),
        (&wide, InvalidRecord::TooDeep),
        (&large, InvalidRecord::TooLarge),
        ("[]", InvalidRecord::NotObject),
        ("\"a\"", InvalidRecord::NotObject),
        (" null ", InvalidRecord::NotObject),
        ("", InvalidRecord::Malformed),
        ("{", InvalidRecord::Malformed),
        ("{} {}", InvalidRecord::Malformed),
        (r#"{"a":1,}"#, InvalidRecord::Malformed),
        (r#"{"a" 1}"#, InvalidRecord::Malformed),
        (r"{a:1}", InvalidRecord::Malformed),
        (r#"{"a":01}"#, InvalidRecord::Malformed),
        (r#"{"a":+1}"#, InvalidRecord::Malformed),
        (r#"{"a":1.}"#, InvalidRecord::Malformed),
        (r#"{"a":nul}"#, InvalidRecord::Malformed),
        (r#"{"a":"\ud800"}"#, InvalidRecord::Malformed),
        ("{\"a\":\"\n\"}", InvalidRecord::Malformed),
        (r#"{"a":1e400}"#, InvalidRecord::NumberOutOfRange),
        (r#"{"a":[-1.5E+309]}"#, InvalidRecord::NumberOutOfRange),
        (&format!(r#"{{"a":{}}}"#, "9".repeat(310)), InvalidRecord::NumberOutOfRange),
        (r#"{"a":1,"b":2,"a":3}"#, InvalidRecord::DuplicateKey),
        (r#"{"a":1,"\u0061":3}"#, InvalidRecord::DuplicateKey),
        (r#"{"a":{"b":1,"b":2},"c":3}"#, InvalidRecord::DuplicateKey),
        (r#"{"$link":"x","$link":"y"}"#, InvalidRecord::DuplicateKey),
        // Malformed JSON takes precedence over a duplicate key.
        (r#"{"a":1,"a":2}x"#, InvalidRecord::Malformed),
        (r#"{"a":1,"a":2}{}"#, InvalidRecord::Malformed),
        (r#"{"a":{"b":1,"b":2},"c":nul}"#, InvalidRecord::Malformed),
        (r#"[{"a":1,"a":2}]"#, InvalidRecord::NotObject),
    ] {
        assert_eq!(inspect(json.as_bytes()), Err(why), "{}", &json[..json.len().min(60)]);
    }
    assert_eq!(inspect(b"{\"a\":\"\xff\"}"), Err(InvalidRecord::Malformed));
}

#[test]
fn finds_references_at_any_depth() {
    let record = json!({
        "subject": {"uri": "at://did:plc:b/x.y.z/2", "cid": "bafy"},
        "list": ["at://did:plc:a/x.y.z/1", ["at://did:plc:a/x.y.z/1"], "see at://did:plc:c/x.y.z/3"],
        "at://did:plc:key/x.y.z/4": 1,
        "loose": "at:// anything",
        "nul": "at://a\0b",
        // A public record can name one in a space. Only the address is stored.
        "shared": "at://did:plc:a/space/com.example.group/main/did:plc:b/x.y.z/5",
        "long": format!("at://{}", "x".repeat(MAX_REF_BYTES)),
        "other": "https://example.com",
    });
    let expected = [
        ("at:// anything", "loose"),
        ("at://did:plc:a/space/com.example.group/main/did:plc:b/x.y.z/5", "shared"),
        ("at://did:plc:a/x.y.z/1", "list[] list[][]"),
        ("at://did:plc:b/x.y.z/2", "subject.uri"),
    ];
    assert_eq!(refs(&record.to_string()), expected.map(owned));
    assert_eq!(refs(r#"{"a":"\u0061t:\/\/did:plc:a"}"#), [owned(("at://did:plc:a", "a"))]);
    // A record without a CID still has references.
    let float = inspect(br#"{"a":1.5,"b":"at://x"}"#).unwrap();
    let expected = vec![Ref { target: "at://x".into(), paths: "b".into() }];
    assert_eq!((float.cid, float.refs), (Err(Unencodable::Number), expected));
}

fn refs(json: &str) -> Vec<(String, String)> {
    inspect(json.as_bytes()).unwrap().refs.into_iter().map(|r| (r.target, r.paths)).collect()
}

fn owned((target, paths): (&str, &str)) -> (String, String) {
    (target.to_owned(), paths.to_owned())
}

#[test]
fn dids_are_references() {
    let record = json!({
        "subject": "did:plc:a", "web": "did:web:example.com", "text": "did:plc:a is here", "none": "did:", "method": "did:PLC:a",
        "facets": [{ "features": [{ "did": "did:plc:b" }] }, { "features": [{ "did": "did:plc:b" }, { "did": "did:plc:c" }] }],
    });
    let path = "facets[].features[].did";
    let expected =
        [("did:plc:a", "subject"), ("did:plc:b", path), ("did:plc:c", path), ("did:web:example.com", "web")];
    assert_eq!(refs(&record.to_string()), expected.map(owned));
}

#[test]
fn a_reference_has_each_of_its_paths_once() {
    let reply = json!({ "reply": { "root": { "uri": "at://r" }, "parent": { "uri": "at://r", "cid": "c" } }, "b": ["at://r"] });
    assert_eq!(refs(&reply.to_string()), [owned(("at://r", "b[] reply.parent.uri reply.root.uri"))]);
    // A key that is no name gives no path, nor does one that is too long or too deep.
    let strange = json!({ "a b": "at://1", "": { "c": "at://2" }, "x".repeat(300): "at://3", "ü": "at://4", "a.b": "at://5" });
    assert_eq!(
        refs(&strange.to_string()),
        ["1", "2", "3", "4", "5"].map(|n| owned((&format!("at://{n}"), "")))
    );
    let keys: serde_json::Map<_, _> =
        (0..=255_u8).map(|n| (char::from(n).to_string(), json!(format!("at://{n}")))).collect();
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-$ ".contains(c);
    assert!(refs(&Value::from(keys).to_string()).iter().all(|(_, paths)| paths.chars().all(plain)));
    // A record with long paths to many targets keeps a part of them.
    let (name, targets) = ("x".repeat(250), (0..10_000).map(|n| format!("at://{n}")).collect::<Vec<_>>());
    let long = refs(&json!({ name: targets }).to_string());
    assert_eq!(long.len(), 10_000);
    assert!(long.iter().map(|(_, paths)| paths.len()).sum::<usize>() <= 256 << 10);
    let many: serde_json::Map<_, _> = (0..1_000).map(|n| (format!("k{n}"), json!("at://same"))).collect();
    let [(_, paths)] = refs(&Value::from(many).to_string()).try_into().unwrap();
    assert_eq!(paths.split(' ').count(), MAX_PATHS);
}

#[test]
fn many_members_and_items_get_long_heads() {
    for n in [23, 24, 255, 256, 70_000] {
        let items = vec!["0"; n].join(",");
        let members: Vec<_> = (0..n).map(|i| format!(r#""k{i}":0"#)).collect();
        let json = format!(r#"{{"list":[{items}],"map":{{{}}}}}"#, members.join(","));
        assert_eq!(cbor(&json), json_slice_to_drisl(json.as_bytes(), Integers::Any).unwrap(), "{n}");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-300i64..300).prop_map(Value::from),
        ".{0,40}".prop_map(Value::from),
        "at://[a-z:/]{0,20}".prop_map(Value::from),
        Just(json!({"$bytes": "aGk="})),
        Just(json!({"$link": "bafkreiccldh766hwcnuxnf2wh6jgzepf2nlu2lvcllt63eww5p6chi4ity"})),
    ];
    leaf.prop_recursive(5, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            prop::collection::btree_map("[a-zé\"\\\\]{0,6}", inner, 0..8)
                .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn encodes_as_the_reference_does(value in any_json(), pretty in any::<bool>()) {
        let record = json!({"value": value});
        let text = if pretty { serde_json::to_string_pretty(&record) } else { serde_json::to_string(&record) }.unwrap();
        let expected = json_slice_to_drisl(text.as_bytes(), Integers::Any).unwrap();
        prop_assert_eq!(to_cbor(text.as_bytes()).unwrap().unwrap(), expected.clone());
        prop_assert_eq!(inspect(text.as_bytes()).unwrap().cid.unwrap(), Cid::compute(Codec::Drisl, &expected));
    }

    #[test]
    fn accepts_the_json_that_serde_json_accepts(text in r#"\{("[a\\"]{0,2}"|[0-9.eE+-]{1,4}|[\[\]{}:, ]|true|null|"a":|"b":){0,12}\}"#) {
        let ours = inspect(text.as_bytes());
        // A number too large for a double is still JSON; serde_json accepts it only when it skips the value.
        let theirs = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
        match ours {
            Ok(_) | Err(InvalidRecord::DuplicateKey) => prop_assert!(theirs, "{}", text),
            Err(_) => prop_assert!(!theirs, "{}", text),
        }
    }

    #[test]
    fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = inspect(&bytes);
        let mut object = b"{\"a\":".to_vec();
        object.extend(bytes);
        let _ = inspect(&object);
    }
}
