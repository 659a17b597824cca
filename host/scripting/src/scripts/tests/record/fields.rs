//! Tests of which fields of a record are sent, and in which form.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{ALICE, NOTE, Stage, on_both};
use crate::scripts::failure::FaultCode;
use crate::scripts::services::LogLevel;
use belvedere_instance::keys::attestation::Attestation;
use belvedere_protocol::crypto::{Algorithm, PrivateKey};

const LOOSE: &str = "com.example.loose";

/// The records that the PDS was sent, without their `$type`.
fn sent(stage: &Stage) -> Vec<Value> {
    let mut records = Vec::new();
    for (_, body) in stage.pds.asked() {
        match body["writes"].as_array() {
            Some(writes) => records.extend(writes.iter().map(|write| write["value"].clone())),
            None => records.push(body["record"].clone()),
        }
    }
    for record in &mut records {
        record.as_object_mut().unwrap().remove("$type").unwrap();
    }
    records
}

on_both!(
    a_new_record_sends_what_its_lexicon_declares,
    a_loaded_record_keeps_the_fields_that_it_had,
    open_records_and_those_without_declarations_send_everything,
    an_empty_table_is_an_array_where_the_lexicon_says_so
);

async fn a_new_record_sends_what_its_lexicon_declares(stage: Stage) {
    let answer = stage.run(&format!(
        "local function note(text)
               return Record('{NOTE}', {{ text = text, status = 'draft', delete = true, secretNote = 's', uri = 'x' }})
             end
             local r = note('a'):save()
             r.text, r.later = 'b', 1
             r:save()
             Record.save_all({{ note('c'):set_rkey('c'), note('d'):set_rkey('d') }})
             local here = note('e'):set_rkey('e'):save_local()
             return {{ r.secretNote, db.get(here._uri) }}"
    )).await;
    let note = |text: &str| json!({ "text": text, "lang": "en", "tags": ["none"] });
    assert_eq!(sent(&stage), [note("a"), note("b"), note("c"), note("d")]);
    let mut here = note("e");
    (here["$type"], here["uri"]) = (json!(NOTE), json!(format!("at://{ALICE}/{NOTE}/e")));
    assert_eq!(answer, json!(["s", here]), "the object keeps its fields");
}

async fn a_loaded_record_keeps_the_fields_that_it_had(stage: Stage) {
    let uri = format!("at://{ALICE}/{NOTE}/old");
    let old = json!({ "$type": NOTE, "text": "old", "extra": { "a": 1 }, "save": 1, "gone": true });
    stage.event(&uri, &old, 1_600_000_000_000_000).await;
    stage
        .run(&format!(
            "local r = Record.load('{uri}')
             r.text, r.extra, r.gone, r.secret = 'new', {{ a = 2, b = {{ }} }}, nil, 1
             r:save()
             r = Record.load_all({{ '{uri}' }}, {{ open = true }})[1]
             r.secret = 2
             r:save()
             return 1"
        ))
        .await;
    let kept = json!({ "text": "new", "extra": { "a": 2, "b": {} }, "save": 1 });
    let mut open = kept.clone();
    open["secret"] = json!(2);
    assert_eq!(sent(&stage), [kept, open]);
}

async fn open_records_and_those_without_declarations_send_everything(stage: Stage) {
    stage
        .run(&format!(
            "Record('{NOTE}', {{ text = 'x', more = {{ n = 1 }} }}, {{ open = true }}):save()
             Record.new('{NOTE}', {{ text = 'x', more = 1 }}, {{ open = false }}):save()
             Record('com.example.free', {{ any = 1 }}):save()
             Record('{LOOSE}', {{ any = 1 }}):save()
             return 1"
        ))
        .await;
    let note = json!({ "text": "x", "lang": "en", "tags": ["none"] });
    let mut open = note.clone();
    open["more"] = json!({ "n": 1 });
    assert_eq!(sent(&stage), [open, note, json!({ "any": 1 }), json!({ "any": 1 })]);
    for (call, message) in [
        (
            "Record('com.example.note', {}, { opne = true })",
            "Record: options: unknown option \"opne\"; did you mean \"open\"?",
        ),
        (
            "Record('com.example.note', {}, { open = 'yes' })",
            "Record: options: open: boolean expected, got string",
        ),
        ("Record('com.example.note', {}, true)", "Record: options: table expected, got boolean"),
        (
            "Record.load('at://did:plc:alice/com.example.note/a', { closed = true })",
            "unknown option \"closed\"; the options are open",
        ),
        // A field that is left out is missing for the check of required fields too.
        ("Record('com.example.note', { Text = 'x' }):save()", "text: required field missing"),
    ] {
        let failure = stage.failure(call).await;
        assert_eq!(failure.fault, Some(FaultCode::BadInput), "{call}: {failure}");
        assert!(failure.message.contains(message), "{call}: {failure}");
    }
}

async fn an_empty_table_is_an_array_where_the_lexicon_says_so(stage: Stage) {
    let answer = stage.run(&format!(
        "local r = Record('{NOTE}', {{ text = 'x', tags = {{}}, also = {{}} }}, {{ open = true }}):set_rkey('k'):save()
             local here = Record('{NOTE}', {{ text = 'x', tags = {{}} }}):set_rkey('h'):save_local()
             return {{ db.get(r._uri), db.get(here._uri).tags }}"
    )).await;
    assert_eq!(sent(&stage), [json!({ "text": "x", "lang": "en", "tags": [], "also": {} })]);
    let uri = format!("at://{ALICE}/{NOTE}/k");
    let row = json!({ "$type": NOTE, "text": "x", "lang": "en", "tags": [], "also": {}, "uri": uri });
    assert_eq!(answer, json!([row, []]));
}

#[tokio::test]
async fn fields_that_are_left_out_are_logged_once() {
    let stage = Stage::sqlite().await;
    stage
        .run(&format!(
            "for i = 1, 3 do
               Record('{NOTE}', {{ text = 'x', secretNote = 'content', ['$type'] = 'y' }}):set_rkey('k' .. i):save()
             end
             Record('{NOTE}', {{ text = 'x', secretNote = 1, other = 2 }}):set_rkey('k'):save_local()
             Record('com.example.free', {{ any = 1 }}):save()
             return 1"
        ))
        .await;
    let lines = stage.base.lines.0.lock().unwrap().clone();
    let seen: Vec<_> = lines.iter().map(|line| (line.level, line.message.as_str())).collect();
    let text =
        |name| format!("Record: fields that the lexicon {NOTE} does not declare were left out: {name}");
    assert_eq!(
        seen,
        [(LogLevel::Debug, text("secretNote").as_str()), (LogLevel::Debug, text("other").as_str())],
        "names, and nothing of the contents"
    );
}

#[tokio::test]
async fn a_signature_is_over_the_fields_that_are_sent() {
    let mut stage = Stage::sqlite().await;
    let key = PrivateKey::from_bytes(Algorithm::Es256k, &[9; 32]).unwrap();
    let attestation =
        Attestation::new(key, "did:web:x.test#attestation".to_owned(), "com.example.sig".to_owned());
    stage.base.services.attestation = Some(Arc::new(attestation));
    let answer = stage
        .run(&format!(
            "local r = Record('{NOTE}', {{ text = 'x', tags = {{}}, secretNote = 's' }}):set_rkey('k')
             local signature = atproto.sign(r)
             r:save()
             return atproto.verify_signature(Record.load(r._uri), signature, caller_did)"
        ))
        .await;
    assert_eq!(answer, json!(true));
}
