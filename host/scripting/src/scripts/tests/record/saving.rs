//! Tests of writes through the caller's PDS.

use super::Stage;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::StatusCode;
use serde_json::json;
use tokio::time::Instant;

use super::{ALICE, BOB, NOTE, PROCEDURE, on_both};
use crate::scripts::failure::{FailureAnswer, FaultCode};
use belvedere_instance::indexing::{EarlyDecision, RecordAction, RecordEvent, RecordScriptRunner};
use belvedere_instance::pds::{CommitResult, Write, WriteAction};
use belvedere_instance::repos::{RecordScripts, WrittenRecord};
use belvedere_protocol::atproto::{Did, RecordUri, Tid, record};
use belvedere_storage::store::index::Change;

fn uri(did: &str, rkey: &str) -> String {
    format!("at://{did}/{NOTE}/{rkey}")
}

on_both!(
    a_record_is_created_replaced_and_deleted,
    keys_are_sent_when_they_are_known,
    many_are_saved_in_one_commit,
    the_record_of_another_account_is_never_written,
    only_procedures_of_callers_with_a_session_write,
    a_refusal_changes_nothing_and_can_be_passed_on,
    what_a_pds_says_of_other_records_stays_out_of_the_index,
    the_scripts_of_one_commit_wait_together
);

async fn a_record_is_created_replaced_and_deleted(stage: Stage) {
    let made = uri(ALICE, "3madebythepds");
    let answer = stage
        .run(&format!(
        "local r = Record('{NOTE}', {{ text = 'one', also = {{ n = 1 }} }}, {{ open = true }})
             local same = r:save() == r
             local seen, first = db.get(r._uri), r._cid
             r.text = 'two'
             r:save()
             return {{ same, r._uri, r._rkey, seen, first ~= r._cid, r, Record.load(r._uri)._cid == r._cid }}"
    ))
        .await;
    let stored = json!({ "$type": NOTE, "text": "one", "also": { "n": 1 }, "lang": "en", "tags": ["none"] });
    let mut seen = stored.clone();
    seen["uri"] = json!(made);
    let now = json!({ "text": "two", "also": { "n": 1 }, "lang": "en", "tags": ["none"], "uri": made });
    assert_eq!(answer, json!([true, made, "3madebythepds", seen, true, now, true]));
    let asked = stage.pds.asked();
    assert_eq!(
        asked[0],
        ("createRecord".to_owned(), json!({ "repo": ALICE, "collection": NOTE, "record": stored }))
    );
    assert_eq!((asked[1].0.as_str(), &asked[1].1["rkey"]), ("putRecord", &json!("3madebythepds")));

    // The row has the CID and rev of the PDS's answer, so that the stream's event changes nothing.
    let row = stage.row(&made).await.unwrap();
    assert!(row.cid_verified);
    assert_eq!(stage.rev(&made).await, Some(stage.pds.rev().as_u64()));
    stage.run(&format!(
        "local r = Record.load('{made}'):delete() assert(r._uri == nil and r._rkey == nil and r.text == 'two') return 1"
    )).await;
    assert_eq!(stage.row(&made).await.map(|row| row.row.uri()), None);
    assert_eq!(
        stage.pds.asked()[2],
        ("deleteRecord".to_owned(), json!({ "repo": ALICE, "collection": NOTE, "rkey": "3madebythepds" }))
    );
    // An event that is older than the deletion does not bring it back.
    stage.event(&made, &stored, 1_600_000_000_000_000).await;
    assert!(stage.row(&made).await.is_none());
}

async fn keys_are_sent_when_they_are_known(stage: Stage) {
    stage
        .run(&format!(
            "Record('{NOTE}', {{ text = 'x' }}):set_rkey('chosen'):save()
             Record('com.example.profile', {{ text = 'x' }}):save()
             Record('com.example.free', {{ n = 1 }}):save()
             return 1"
        ))
        .await;
    let keys: Vec<_> = stage.pds.asked().into_iter().map(|(_, body)| body["rkey"].clone()).collect();
    assert_eq!(keys, [json!("chosen"), json!("self"), json!(null)]);
    let free = format!("at://{ALICE}/com.example.free/3madebythepds");
    assert!(
        stage.row(&free).await.is_none(),
        "the row would become stale, since the collection is not tracked"
    );
}

async fn many_are_saved_in_one_commit(stage: Stage) {
    let old = uri(ALICE, "old");
    stage.event(&old, &json!({ "$type": NOTE, "text": "old" }), 1_600_000_000_000_000).await;
    let answer = stage.run(&format!(
        "local list = {{ Record('{NOTE}', {{ text = 'a' }}):set_rkey('a'), Record.load('{old}'), Record('{NOTE}', {{ text = 'c' }}):set_rkey('c') }}
             list[2].text = 'new'
             local answers = Record.save_all(list)
             local right = #Record.save_all({{}}) == 0
             for i, r in ipairs(list) do right = right and r._uri == answers[i].uri and r._cid == answers[i].cid end
             return {{ right, answers[1].uri, answers[2].uri, answers[3].uri, db.count('{NOTE}'), db.get('{old}').text }}"
    )).await;
    assert_eq!(answer, json!([true, uri(ALICE, "a"), old, uri(ALICE, "c"), 3, "new"]));
    let asked = stage.pds.asked();
    let writes = asked[0].1["writes"].as_array().unwrap();
    let kinds: Vec<_> =
        writes.iter().map(|w| w["$type"].as_str().unwrap().rsplit('#').next().unwrap()).collect();
    assert_eq!(
        (asked.len(), asked[0].0.as_str(), kinds),
        (1, "applyWrites", vec!["create", "update", "create"])
    );

    // All are checked before anything is sent.
    for (list, code) in [
        (format!("{{ Record('{NOTE}', {{ text = 'a' }}), Record('{NOTE}') }}"), FaultCode::BadInput),
        (
            format!(
                "{{ Record('{NOTE}', {{ text = 'a' }}), Record('{NOTE}', {{ text = 'b' }}):set_repo('{BOB}') }}"
            ),
            FaultCode::Forbidden,
        ),
        (
            format!("(function() local r = Record('{NOTE}', {{ text = 'a' }}) return {{ r, r }} end)()"),
            FaultCode::BadInput,
        ),
        (
            format!(
                "(function() local l = {{}} for i = 1, 201 do l[i] = Record('{NOTE}', {{ text = 'a' }}) end return l end)()"
            ),
            FaultCode::Limit,
        ),
    ] {
        let failure = stage.failure(&format!("Record.save_all({list})")).await;
        assert_eq!(failure.fault, Some(code), "{list}: {failure}");
    }
    assert_eq!(stage.pds.asked().len(), 1);
}

async fn the_record_of_another_account_is_never_written(stage: Stage) {
    let his = uri(BOB, "his");
    let note = json!({ "$type": NOTE, "text": "Bob's" });
    stage.event(&his, &note, 1_600_000_000_000_000).await;
    for body in [
        format!("local r = Record.load('{his}') r.text = 'x' r:save()"),
        format!("Record.load('{his}'):delete()"),
        format!("local r = Record.load('{his}'):set_repo('{BOB}') r.text = 'x' r:save()"),
        format!("Record('{NOTE}', {{ text = 'x' }}):set_repo('{BOB}'):save()"),
        format!("Record.save_all({{ Record.load('{his}') }})"),
    ] {
        let failure = stage.failure(&body).await;
        assert_eq!(failure.fault, Some(FaultCode::Forbidden), "{body}: {failure}");
    }
    assert!(stage.pds.asked().is_empty(), "nothing was sent");
    assert_eq!(stage.value(&his).await, Some(note), "nothing was stored");
}

async fn only_procedures_of_callers_with_a_session_write(stage: Stage) {
    for (trigger, caller) in [
        ("xrpc.query:com.example.get", Some(ALICE)),
        (PROCEDURE, Some(BOB)),
        (PROCEDURE, None),
        ("record.index:com.example.note", None),
        ("labeler.apply:com.example.note", None),
        ("job.run:nightly", Some(ALICE)),
    ] {
        for call in [":save()", ":set_rkey('k'):set_repo('did:plc:alice'):save()"] {
            let body = format!("Record('{NOTE}', {{ text = 'x' }}){call}");
            let failure = stage.run_as(trigger, caller, &body).await.unwrap_err();
            assert_eq!(failure.fault, Some(FaultCode::NoSession), "{trigger}: {failure}");
            assert!(failure.message.contains("no PDS auth in this script context"), "{failure}");
        }
    }
    assert!(stage.pds.asked().is_empty());
}

async fn a_refusal_changes_nothing_and_can_be_passed_on(stage: Stage) {
    let mine = uri(ALICE, "mine");
    stage.event(&mine, &json!({ "$type": NOTE, "text": "mine" }), 1_600_000_000_000_000).await;
    let body = r#"{"error":"InvalidSwap","message":"somebody was faster"}"#;
    stage.pds.refuse(400, body);
    let failure = stage.failure(&format!("local r = Record.load('{mine}') r.text = 'x' r:save()")).await;
    let Some(FailureAnswer::Upstream(answer)) = failure.answer.as_deref() else { panic!("{failure:?}") };
    assert_eq!((answer.status, &answer.body[..]), (StatusCode::BAD_REQUEST, body.as_bytes()));
    assert!(failure.message.contains("the PDS answered 400: InvalidSwap: somebody was faster"), "{failure}");
    assert!(!failure.is_retryable());
    stage.pds.refuse(503, "");
    let answer = stage
        .run(&format!(
            "local r = Record.load('{mine}')
             local ok, fault = pcall(r.delete, r)
             return {{ ok, fault.code, fault.status, r._uri, db.get('{mine}').text }}"
        ))
        .await;
    assert_eq!(answer, json!([false, "upstream", 503, mine, "mine"]), "the row stays");
    // A record that the PDS does not have is removed from the index.
    stage.pds.refuse(400, r#"{"error":"RecordNotFound"}"#);
    assert_eq!(
        stage.run(&format!("Record.load('{mine}'):delete() return db.get('{mine}') == nil")).await,
        json!(true)
    );
    // An answer about another record is not accepted.
    stage.pds.refuse(200, r#"{"uri":"at://did:plc:bob/com.example.note/k","cid":"bafyreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku"}"#);
    let failure = stage.failure(&format!("Record('{NOTE}', {{ text = 'x' }}):save()")).await;
    assert_eq!((failure.fault, failure.is_retryable()), (Some(FaultCode::Upstream), false));
    let Some(FailureAnswer::Own(answer)) = failure.answer.as_deref() else { panic!("{failure:?}") };
    assert_eq!(
        (answer.status, &answer.body[..]),
        (StatusCode::BAD_GATEWAY, &br#"{"error":"the PDS's response is invalid"}"#[..])
    );
    assert_eq!(stage.run(&format!("return db.count('{NOTE}')")).await, json!(0));
}

async fn what_a_pds_says_of_other_records_stays_out_of_the_index(stage: Stage) {
    let (alice, text) = (Did::try_from(ALICE).unwrap(), r#"{"$type":"com.example.note","text":"x"}"#);
    let cid = record::inspect(text.as_bytes()).unwrap().cid.unwrap();
    let repos = stage.base.services.repos.as_ref().unwrap();
    let rev = Some(Tid::new(1_700_000_000_000_000, 1).unwrap());
    let mine = uri(ALICE, "k");
    for answered in
        [uri(BOB, "k"), format!("at://{ALICE}/com.example.profile/k"), uri(ALICE, "other"), mine.clone()]
    {
        let write = Write {
            collection: NOTE.parse().unwrap(),
            rkey: Some("k".parse().unwrap()),
            action: WriteAction::Put(text.into()),
            swap: None,
        };
        let place = (RecordUri::parse(&answered).unwrap(), cid);
        let committed = CommitResult { rev, records: vec![Some(place.clone())] };
        let written = repos.mirror_writes(&alice, &[write], committed, RecordScripts::Now).await;
        assert_eq!(
            written,
            [Some(WrittenRecord { uri: place.0, cid: Some(cid) })],
            "the caller gets the PDS's answer"
        );
        assert_eq!(stage.row(&answered).await.is_some(), answered == mine, "{answered}");
    }
}

async fn the_scripts_of_one_commit_wait_together(stage: Stage) {
    let alice = Did::try_from(ALICE).unwrap();
    let (scripts, text) = (Arc::new(Endless::default()), r#"{"$type":"com.example.note","text":"x"}"#);
    let repos = stage.repos_with(Arc::clone(&scripts) as Arc<dyn RecordScriptRunner>);
    let cid = record::inspect(text.as_bytes()).unwrap().cid.unwrap();
    let write = |rkey: &str| Write {
        collection: NOTE.parse().unwrap(),
        rkey: Some(rkey.parse().unwrap()),
        action: WriteAction::Create(text.into()),
        swap: None,
    };
    let place = |rkey: &str| Some((RecordUri::parse(&uri(ALICE, rkey)).unwrap(), cid));
    let committed = CommitResult {
        rev: Some(Tid::new(1_700_000_000_000_000, 1).unwrap()),
        records: vec![place("a"), place("b"), place("c")],
    };
    repos.mirror_writes(&alice, &[write("a"), write("b"), write("c")], committed, RecordScripts::Now).await;
    let waits = scripts.waits.lock().unwrap().clone();
    assert_eq!(waits.len(), 1, "no other one starts once the time is over: {waits:?}");
    assert!(waits[0] < Duration::from_secs(6), "{waits:?}");
    assert!(stage.row(&uri(ALICE, "a")).await.is_none(), "the stream's event decides");
}

/// A script for every record, which never ends. The clock is paused while it runs and at no other time: a paused clock
/// would jump ahead whenever the database is waited for.
#[derive(Default)]
struct Endless {
    /// The time that each run was waited for.
    waits: Mutex<Vec<Duration>>,
}

struct PausedClock<'a> {
    waits: &'a Mutex<Vec<Duration>>,
    begin: Instant,
}

impl<'a> PausedClock<'a> {
    fn pause(waits: &'a Mutex<Vec<Duration>>) -> Self {
        tokio::time::pause();
        Self { waits, begin: Instant::now() }
    }
}

impl Drop for PausedClock<'_> {
    fn drop(&mut self) {
        self.waits.lock().unwrap().push(self.begin.elapsed());
        tokio::time::resume();
    }
}

impl RecordScriptRunner for Endless {
    fn is_idle(&self) -> bool {
        false
    }

    fn wants(&self, _action: RecordAction, _change: &Change) -> bool {
        true
    }

    fn decide(&self, _event: RecordEvent) -> BoxFuture<'_, Option<Change>> {
        Box::pin(std::future::pending())
    }

    fn decide_early(&self, _event: RecordEvent) -> BoxFuture<'_, Option<EarlyDecision>> {
        Box::pin(async {
            let _paused = PausedClock::pause(&self.waits);
            std::future::pending().await
        })
    }

    fn puts_are_alike(&self, _change: &Change) -> bool {
        true
    }

    fn bypass(&self, event: RecordEvent) -> BoxFuture<'_, Option<Change>> {
        Box::pin(async move { Some(event.change) })
    }
}
