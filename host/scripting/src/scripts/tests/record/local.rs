//! Tests of loading records from the index, and of local rows in it.

use super::Stage;
use serde_json::json;

use super::{ALICE, BOB, NOTE, PROCEDURE, on_both};
use crate::scripts::failure::FaultCode;

fn uri(did: &str, rkey: &str) -> String {
    format!("at://{did}/{NOTE}/{rkey}")
}

on_both!(
    records_are_loaded_one_by_one_and_many_at_once,
    a_local_row_is_replaced_by_a_newer_event,
    the_row_of_another_account_is_never_changed,
    the_bytes_of_record_writes_are_bounded
);

async fn records_are_loaded_one_by_one_and_many_at_once(stage: Stage) {
    for n in 0..100 {
        let note = json!({ "$type": NOTE, "text": format!("note {n}") });
        stage
            .event(&uri(if n % 2 == 0 { ALICE } else { BOB }, &format!("n{n}")), &note, 1_600_000_000_000_000)
            .await;
    }
    let first = uri(ALICE, "n0");
    let cid = stage.row(&first).await.unwrap().row.cid.unwrap().to_string();
    let answer = stage
        .run(&format!(
            "local r = Record.load('{first}')
             return {{ r, r._uri, r._cid, r._rkey, r._collection, tostring(r), r._key_type,
                Record.load('{missing}') == nil, Record.load('at://{ALICE}/com.example.never/x') == nil }}",
            missing = uri(ALICE, "missing")
        ))
        .await;
    let shown = format!("Record({NOTE}) [uri={first}]");
    assert_eq!(
        answer,
        json!([{ "text": "note 0", "uri": first }, first, cid, "n0", NOTE, shown, "any", true, true])
    );

    let script = format!(
        "local uris = {{}}
             for n = 0, 99 do uris[n + 1] = 'at://' .. (n % 2 == 0 and '{ALICE}' or '{BOB}') .. '/{NOTE}/n' .. n end
             uris[3] = '{missing}'
             uris[4] = uris[1]
             local all, texts = Record.load_all(uris), toarray({{}})
             for i, r in ipairs(all) do texts[i] = r and r.text end
             return {{ texts, #Record.load_all({{}}), all[1] ~= all[4] }}",
        missing = uri(BOB, "missing")
    );
    let answer = stage.run(&script).await;
    let mut texts: Vec<_> = (0..100).map(|n| json!(format!("note {n}"))).collect();
    (texts[2], texts[3]) = (json!(false), json!("note 0"));
    assert_eq!(answer, json!([texts, 0, true]));
    let failure = stage
        .failure(&format!(
            "local uris = {{}} for i = 1, 101 do uris[i] = '{first}' end Record.load_all(uris)"
        ))
        .await;
    assert_eq!(failure.fault, Some(FaultCode::Limit), "{failure}");
}

async fn a_local_row_is_replaced_by_a_newer_event(stage: Stage) {
    let mine = uri(ALICE, "mine");
    stage.event(&mine, &json!({ "$type": NOTE, "text": "from the network" }), 1_600_000_000_000_000).await;
    let answer = stage
        .run(&format!(
            "local r = Record.load('{mine}')
             for i = 1, 3 do r.text = 'local ' .. i r:save_local() end
             return {{ r._uri, r._cid == nil, db.get('{mine}').text, db.count('{NOTE}') }}"
        ))
        .await;
    assert_eq!(answer, json!([mine, true, "local 3", 1]));
    assert_eq!(stage.row(&mine).await.unwrap().row.cid, None);
    stage.event(&mine, &json!({ "$type": NOTE, "text": "newer" }), 1_600_000_000_000_001).await;
    assert_eq!(stage.value(&mine).await.unwrap()["text"], "newer");

    // A new row, which the tombstone of a deleted one does not keep out.
    let answer = stage
        .run(&format!(
            "local r = Record('{NOTE}', {{ text = 'x', about = '{mine}' }}):save_local()
             local p = Record('com.example.profile', {{ text = 'p' }}):save_local()
             local f = Record('com.example.free', {{ n = 0.5 }}):save_local()
             local there = db.get(r._uri) ~= nil
             local removed = r:delete_local()
             return {{ tostring(removed), there, db.get(p._uri).uri, f._rkey, r._uri == nil }}"
        ))
        .await;
    assert_eq!(answer[0], format!("Record({NOTE}) [unsaved]"));
    assert_eq!(
        (&answer[1], &answer[2], &answer[4]),
        (&json!(true), &json!(format!("at://{ALICE}/com.example.profile/self")), &json!(true))
    );
    assert_eq!(answer[3].as_str().unwrap().len(), 13);
    let again = stage.run(&format!(
        "return {{ Record.delete_local('{mine}'), Record.delete_local('{mine}'), db.get('{mine}') == nil }}"
    )).await;
    assert_eq!(again, json!([true, false, true]));
    assert!(stage.pds.asked().is_empty(), "no request was sent");
}

async fn the_row_of_another_account_is_never_changed(stage: Stage) {
    let his = uri(BOB, "his");
    let note = json!({ "$type": NOTE, "text": "Bob's" });
    stage.event(&his, &note, 1_600_000_000_000_000).await;
    for body in [
        format!("local r = Record.load('{his}') r.text = 'x' r:save_local()"),
        format!("Record.load('{his}'):delete_local()"),
        format!("Record.delete_local('{his}')"),
        format!("Record.load('{his}'):set_repo('{ALICE}'):save_local()"),
    ] {
        let failure = stage.failure(&body).await;
        assert_eq!(failure.fault, Some(FaultCode::Forbidden), "{body}: {failure}");
    }
    // Without a caller a script must name the repo.
    for trigger in ["xrpc.query:com.example.get", "record.index:com.example.note"] {
        let failure =
            stage.run_as(trigger, None, &format!("Record.load('{his}'):delete_local()")).await.unwrap_err();
        assert_eq!(failure.fault, Some(FaultCode::BadInput), "{failure}");
        assert!(failure.message.contains("set_repo()"), "{failure}");
    }
    assert_eq!(stage.value(&his).await, Some(note));
    let body = format!(
        "local r = Record.load('{his}'):set_repo('{BOB}') r.text = 'by the operator' r:save_local()
             return {{ r._repo, Record.delete_local('at://{BOB}/{NOTE}/none', '{BOB}') }}"
    );
    let answer = stage.run_as("record.index:com.example.note", None, &body).await.unwrap();
    assert_eq!(answer, json!([BOB, false]));
    assert_eq!(stage.value(&his).await.unwrap()["text"], "by the operator");
}

async fn the_bytes_of_record_writes_are_bounded(stage: Stage) {
    let failure = stage
        .run_as(
            PROCEDURE,
            Some(ALICE),
            &format!("for i = 1, 9 do Record('{NOTE}', {{ text = ('x'):rep(1000000) }}):save_local() end"),
        )
        .await
        .unwrap_err();
    assert_eq!(failure.fault, Some(FaultCode::Limit), "{failure}");
    assert!(failure.message.contains("too many bytes of records written"), "{failure}");
}
