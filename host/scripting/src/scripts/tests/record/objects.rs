//! Tests of record objects: their fields, and that scripts can't set their internals.

use std::sync::Arc;

use serde_json::json;

use super::{ALICE, BOB, NOTE, Stage};
use crate::scripts::FailureKind;
use crate::scripts::failure::FaultCode;
use belvedere_instance::keys::attestation::Attestation;
use belvedere_protocol::crypto::{Algorithm, PrivateKey};

#[tokio::test]
async fn a_new_record_has_its_fields_and_the_schemas_defaults() {
    let stage = Stage::sqlite().await;
    let answer = stage
        .run(
            "local a, b = Record('com.example.note', { text = 'a', lang = 'de' }), Record.new('com.example.note')
             a.tags[1] = 'changed'
             local names = toarray({})
             for name in pairs(a) do table.insert(names, name) end
             table.sort(names)
             return { a = a, b = b, names = names, shown = tostring(a), none = b._uri == nil and b._cid == nil and b.text == nil,
                collection = a._collection, key = a._key_type, required = a._schema.required, kind = type(a._schema),
                free = Record('com.example.unknown', { n = 1 }), unknown = Record('com.example.unknown')._schema == nil }",
        )
        .await;
    assert_eq!(
        answer,
        json!({
            "a": { "text": "a", "lang": "de", "tags": ["changed"] },
            "b": { "lang": "en", "tags": ["none"] },
            "names": ["lang", "tags", "text"],
            "shown": "Record(com.example.note) [unsaved]",
            "none": true, "collection": NOTE, "key": "any", "required": ["text"], "kind": "table",
            "free": { "n": 1 }, "unknown": true,
        })
    );
}

#[tokio::test]
async fn internals_can_be_read_and_never_set() {
    let stage = Stage::sqlite().await;
    let bobs = format!("at://{BOB}/{NOTE}/his");
    stage.event(&bobs, &json!({ "$type": NOTE, "text": "Bob's" }), 1_600_000_000_000_000).await;
    // Not through the constructor, an assignment, `rawset` or a metatable.
    for set in [
        format!(
            "local r = Record('{NOTE}', {{ text = 'x', _uri = '{bobs}', _repo = '{BOB}', _collection = 'com.example.other' }})"
        ),
        format!(
            "local r = Record('{NOTE}', {{ text = 'x' }}) rawset(r, '_uri', '{bobs}') rawset(r, '_repo', '{BOB}')"
        ),
        format!("local r = Record('{NOTE}', {{ text = 'x' }}) pcall(function() r._uri = '{bobs}' end)"),
        format!(
            "local r = Record('{NOTE}', {{ text = 'x' }}) pcall(setmetatable, r, {{ __index = {{ _uri = '{bobs}' }} }})"
        ),
    ] {
        let answer = stage
            .run(&format!("{set} r:set_rkey('mine') r:save_local() return {{ pcall(getmetatable, r) }}"))
            .await;
        assert_eq!(answer, json!([true, false]), "{set}");
        assert_eq!(stage.value(&bobs).await.unwrap()["text"], "Bob's", "{set}");
        assert_eq!(stage.value(&format!("at://{ALICE}/{NOTE}/mine")).await.unwrap()["text"], "x", "{set}");
    }
    for name in ["_uri", "_cid", "_collection", "_schema", "_key_type", "_rkey", "_repo", "save", "delete"] {
        let failure = stage.failure(&format!("local r = Record('{NOTE}') r['{name}'] = 'x'")).await;
        assert_eq!((failure.fault, failure.line), (Some(FaultCode::BadInput), Some(1)), "{name}: {failure}");
        assert!(failure.message.contains("can't be set"), "{failure}");
    }
}

#[tokio::test]
async fn fields_named_like_ours_are_kept_and_hide_nothing() {
    let stage = Stage::sqlite().await;
    let uri = format!("at://{ALICE}/{NOTE}/odd");
    let record = json!({ "$type": NOTE, "text": "x", "_uri": "at://evil", "save": 7, "uri": "https://x.test",
        "extra": { "a": [1, 2] } });
    stage.event(&uri, &record, 1_600_000_000_000_000).await;
    let answer = stage
        .run(&format!(
            "local r = Record.load('{uri}')
             local before = {{ r._uri, r.uri, type(r.save), r['$type'] == nil }}
             r.text = 'new'
             r:save_local()
             return {{ before = before, json = r }}"
        ))
        .await;
    assert_eq!(answer["before"], json!([uri, "https://x.test", "function", true]));
    assert_eq!(
        answer["json"],
        json!({ "text": "new", "extra": { "a": [1, 2] }, "_uri": "at://evil", "save": 7, "uri": uri })
    );
    let mut expected = record;
    expected["text"] = json!("new");
    assert_eq!(stage.value(&uri).await.unwrap(), expected, "nothing is lost");
}

#[tokio::test]
async fn the_json_form_is_the_fields_and_the_uri_wherever_it_stands() {
    let stage = Stage::sqlite().await;
    let uri = format!("at://{ALICE}/{NOTE}/one");
    stage.event(&uri, &json!({ "$type": NOTE, "text": "x" }), 1_600_000_000_000_000).await;
    let answer = stage
        .run(&format!(
            "local r = Record.load('{uri}')
             return {{ nested = {{ {{ r }} }}, text = json.decode(json.encode(r)), empty = json.encode(Record('com.example.free')),
                mixed = pcall(function() local other = Record('com.example.free') other[1] = 2 return json.encode(other) end) }}"
        ))
        .await;
    let shown = json!({ "text": "x", "uri": uri });
    assert_eq!(answer, json!({ "nested": [[shown]], "text": shown, "empty": "{}", "mixed": false }));
}

#[tokio::test]
async fn keys_follow_the_key_type() {
    let stage = Stage::sqlite().await;
    let answer = stage
        .run(
            "local function keys(collection, set)
               local r = Record(collection)
               if set then r:set_key_type(set) end
               return r:generate_rkey(), r._rkey
             end
             local a, b = keys('com.example.note')
             return { a == b and #a == 13, { keys('com.example.profile') }, { keys('com.example.free', 'literal:x') },
                #keys('com.example.free', 'any'), Record('com.example.note'):set_rkey('a.b_c~d:e-F')._rkey }",
        )
        .await;
    assert_eq!(answer, json!([true, ["self", "self"], ["x", "x"], 13, "a.b_c~d:e-F"]));
    for (call, message) in [
        ("Record('com.example.feature'):generate_rkey()", "use set_rkey()"),
        ("Record('com.example.free'):generate_rkey()", "key type is not known"),
        ("Record('com.example.note'):set_rkey('')", "not a record key"),
        ("Record('com.example.note'):set_rkey('..')", "not a record key"),
        ("Record('com.example.note'):set_rkey('a/b')", "not a record key"),
        ("Record('com.example.note'):set_rkey(('x'):rep(513))", "not a record key"),
        ("Record('com.example.note'):set_rkey(7)", "string expected, got number"),
        ("Record('com.example.note'):set_key_type('uuid')", "expected"),
        ("Record('com.example.note'):set_key_type('literal:')", "not a record key"),
        ("Record('com.example.note'):set_repo('alice.test')", "not a DID"),
        ("Record('nonsense')", "is not an NSID"),
        ("Record()", "collection: string expected, got nil"),
        ("Record('com.example.note', 7)", "fields: table expected"),
        ("Record('com.example.note', { 1, 2 })", "a name must be a string"),
        ("Record('com.example.note').save()", "a record expected, got nil"),
        ("Record('com.example.note').save({ text = 'x' })", "a record expected, got table"),
        ("Record.load()", "uri: string expected"),
        ("Record.load('nonsense')", "not the AT URI of a record"),
        ("Record.load_all({ 'at://did:plc:a/space/a.b.c/main' })", "4 segments instead of 7"),
        ("Record('com.example.note'):set_space()", "set_space: string expected"),
        ("Record('com.example.note'):set_space('x'):save_local()", "not in the index, use save()"),
        (
            "Record.delete_local('at://did:plc:a/space/a.b.c/main/did:plc:alice/a.b.d/1')",
            "it is an address in a space",
        ),
        ("Record.load_all('x')", "table expected, got string"),
        ("Record.load_all({ 1 })", "uri 1: string expected"),
        ("Record.save_all({ {} })", "record 1: a record expected"),
        ("Record.save_all(Record('com.example.note'))", "an array of records expected"),
        ("Record('com.example.note'):save()", "text: required field missing"),
        ("Record('com.example.note'):save_local()", "text: required field missing"),
        ("Record('com.example.feature', { text = '' }):save()", "use set_rkey()"),
        ("Record('com.example.note'):delete()", "not saved"),
        ("Record('com.example.note'):delete_local()", "not saved"),
        ("Record('com.example.note', { text = print }):save()", "text: a function can't be JSON"),
        ("Record('com.example.free', { n = 0.5 }):save()", "not a 64-bit integer"),
        ("Record('com.example.note', { text = ('x'):rep(1 << 20) }):save()", "larger than 1 MiB"),
    ] {
        let failure = stage.failure(call).await;
        assert_eq!(
            (failure.kind, failure.fault),
            (FailureKind::Runtime, Some(FaultCode::BadInput)),
            "{call}: {failure}"
        );
        assert!(failure.message.contains(message), "{call}: {failure}");
        assert!(failure.message.starts_with(&format!("{}:1: ", super::PROCEDURE)), "{call}: {failure}");
    }
    assert!(stage.pds.asked().is_empty(), "nothing was sent");
}

#[tokio::test]
async fn a_signature_is_over_what_the_repo_will_hold() {
    let mut stage = Stage::sqlite().await;
    let key = PrivateKey::from_bytes(Algorithm::Es256k, &[9; 32]).unwrap();
    let attestation =
        Attestation::new(key, "did:web:x.test#attestation".to_owned(), "com.example.sig".to_owned());
    stage.base.services.attestation = Some(Arc::new(attestation));
    let answer = stage
        .run(
            "local r = Record('com.example.note', { text = 'signed' }, { open = true }):set_rkey('k')
             r.signatures = { atproto.sign(r) }
             r:save()
             local stored, plain = Record.load(r._uri), { ['$type'] = 'com.example.note', text = 'signed', lang = 'en', tags = { 'none' } }
             local function holds(record) return atproto.verify_signature(record, stored.signatures[1], caller_did) end
             local same, as_table = holds(stored), holds(plain)
             stored.text = 'changed'
             return { same, as_table, holds(stored) }",
        )
        .await;
    assert_eq!(answer, json!([true, true, false]));
}
