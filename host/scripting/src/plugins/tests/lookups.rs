//! `lookup`: records of the index by a field.

use serde_json::{Value, json};

use super::{NOW, Stage};
use crate::plugins::calls::FaultCode;
use crate::plugins::limits;
use belvedere_protocol::atproto::{RecordUri, Tid, record};
use belvedere_storage::store::index::{self, Batch, Change, CheckedRecord, Validity};

/// A record of `did:plc:maker` in the index.
fn put(rkey: &str, record: &Value) -> Change {
    let text = record.to_string().into_bytes();
    let cid = record::inspect(&text).unwrap().cid.ok();
    let (text, validity) = (text.into(), Validity::Unchecked);
    Change {
        uri: RecordUri::parse(&format!("at://did:plc:maker/com.example.game/{rkey}")).unwrap(),
        rev: Tid::new(1_700_000_000_000_000, 0).unwrap(),
        record: Some(CheckedRecord { text, cid, cid_verified: true, refs: Vec::new(), validity }),
    }
}

#[tokio::test]
async fn a_record_is_found_by_a_field() {
    let stage = Stage::set().await;
    let game = |steam: Value| json!({"$type": "com.example.game", "ids": {"steam": steam}});
    let games = [("b", game(json!("440"))), ("a", game(json!("440"))), ("c", game(json!(7)))];
    for (at, (rkey, record)) in (0..).zip(&games) {
        let batch = Batch { changes: vec![put(rkey, record)], now: NOW.plus_seconds(at), ..Batch::default() };
        index::apply(&stage.db, &batch).await.unwrap();
    }
    let find = async |path: &str, value: Value| {
        stage.act("find", json!(["com.example.game", path, value])).await.unwrap()
    };
    let found = find("ids.steam", json!("440")).await;
    assert_eq!(found[0], "at://did:plc:maker/com.example.game/a", "the newest");
    assert!(found[1].as_str().unwrap().starts_with("bafy"), "{found}");
    assert_eq!(find("ids.steam", json!(7)).await[0], "at://did:plc:maker/com.example.game/c");
    assert_eq!(find("ids.steam", json!("7")).await, Value::Null);
    assert_eq!(find("ids.xbox", json!("440")).await, Value::Null);
    for (arg, code) in [
        (json!(["com.example.item", "ids.steam", "440"]), FaultCode::Forbidden),
        (json!(["no nsid", "ids.steam", "440"]), FaultCode::BadInput),
        (json!(["com.example.game", "a'b", "440"]), FaultCode::BadInput),
        (json!(["com.example.game", "ids.steam", "a\0b"]), FaultCode::BadInput),
        (json!(["com.example.game", "ids.steam", {"a": 1}]), FaultCode::BadInput),
        (json!(["com.example.game", "ids.steam", null]), FaultCode::BadInput),
        (json!(["com.example.game", "ids.steam", "x".repeat(20_000)]), FaultCode::BadInput),
    ] {
        assert_eq!(stage.fault("find", arg.clone()).await.0, code, "{arg}");
    }
}

#[tokio::test]
async fn lookups_are_bounded() {
    let stage = Stage::set().await;
    let arg = json!(["com.example.game", "ids.steam", "440", limits::LOOKUPS]);
    assert_eq!(stage.act("find", arg).await.unwrap(), Value::Null);
    let arg = json!(["com.example.game", "ids.steam", "440", limits::LOOKUPS + 1]);
    let (code, text) = stage.fault("find", arg).await;
    assert!(code == FaultCode::Quota && text.contains("200"), "{text}");
}
