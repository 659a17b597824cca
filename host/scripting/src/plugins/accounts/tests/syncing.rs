//! Syncs: what is written, where they go on, and what ends them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::fake::item;
use super::*;
use crate::plugins::accounts::{AccountError, SyncState, sync};
use crate::plugins::calls::{Item, Page};
use belvedere_protocol::atproto::RecordUri;
use belvedere_storage::store::external_accounts::SyncStatus;
use belvedere_storage::store::records;

/// Starts the worker of the first host.
pub(super) fn work(stage: &Stage) {
    stage.accounts.core().tasks.spawn(sync::run(stage.accounts.clone()));
}

/// Runs a sync. Its event is recorded too: a turn stores the end of the sync first, so that a caller may be a moment earlier.
pub(super) async fn run_sync(stage: &Stage) -> SyncState {
    let ended = stage.accounts.sync(&user(ALICE), "fake").await.unwrap();
    let tasks = stage.accounts.core().tasks.clone();
    // The worker runs until the server drains.
    until(async || tasks.len() <= 1).await;
    ended
}

/// The code of the error that ends a sync.
pub(super) async fn error_of(stage: &Stage) -> String {
    let ended = run_sync(stage).await;
    assert!(!ended.is_running, "{ended:?}");
    ended.error.expect("the sync fails").0
}

pub(super) fn done(processed: i64, written: i64, skipped: i64) -> SyncState {
    SyncState { is_running: false, processed, written, skipped, error: None }
}

pub(super) fn note(n: usize) -> Item {
    item(NOTE, Some(&format!("n{n}")), &json!({ "text": format!("note {n}") }))
}

/// Pages of two notes, `0` to `count - 1`.
pub(super) fn pages(count: usize) -> impl Fn(Option<&str>) -> Page {
    move |cursor| {
        let n: usize = cursor.map_or(0, |cursor| cursor.parse().unwrap());
        Page { items: vec![note(2 * n), note(2 * n + 1)], next: (n + 1 < count).then(|| (n + 1).to_string()) }
    }
}

/// The keys that the PDS was asked to write, in order.
pub(super) fn written(stage: &Stage) -> Vec<String> {
    let asked = stage.pds.asked().into_iter().filter(|(method, _)| method == "putRecord");
    asked.map(|(_, body)| body["rkey"].as_str().unwrap().to_owned()).collect()
}

async fn indexed(stage: &Stage, rkey: &str) -> Option<Value> {
    let uri = RecordUri::parse(&format!("at://{ALICE}/{NOTE}/{rkey}")).unwrap();
    let found = records::get(&stage.db, &uri).await.unwrap();
    found.map(|row| serde_json::from_slice(&row.record).unwrap())
}

/// Waits for a condition. Fails after a minute.
pub(super) async fn until(mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), waiting).await.expect("the condition holds within a minute");
}

on_both!(
    records_are_written_to_the_users_repo_and_to_the_index,
    another_host_goes_on_at_the_checkpoint_of_a_dead_one,
    the_pages_of_users_alternate,
    a_page_with_what_was_not_granted_is_refused_whole,
    a_plugin_that_never_ends_is_stopped,
    items_that_are_no_valid_records_are_skipped,
    items_with_a_key_that_the_lexicon_forbids_are_skipped,
    unlinking_stops_a_sync,
    a_draining_host_leaves_its_syncs_to_others_at_once
);

async fn records_are_written_to_the_users_repo_and_to_the_index(stage: Stage) {
    work(&stage);
    assert!(matches!(stage.accounts.sync(&user(ALICE), "fake").await, Err(AccountError::NotLinked)));
    stage.link("765").await;
    let signed = Item { sign: true, ..item(NOTE, Some("steam:5 70/"), &json!({ "text": "signed" })) };
    let loose = item(LOOSE, Some("x"), &json!({ "$type": LOOSE, "n": 1 }));
    stage.service.items(vec![note(1), signed, loose]);
    assert_eq!(run_sync(&stage).await, done(3, 3, 0));
    assert_eq!(written(&stage), ["n1", "steam:570", "x"]);
    assert_eq!(indexed(&stage, "n1").await.unwrap(), json!({ "$type": NOTE, "text": "note 1" }));
    let record = indexed(&stage, "steam:570").await.unwrap();
    let unsigned = json!({ "$type": NOTE, "text": "signed" }).to_string();
    assert!(stage.accounts.0.attestation.verify(unsigned.as_bytes(), &record["signatures"][0], ALICE));
    assert_eq!(
        stage.events_of("synced").await,
        [json!({ "account_id": "765", "processed": 3, "written": 3, "skipped": 0, "note": null })]
    );
    let row = stage.row().await;
    assert_eq!((row.sync_status, row.synced_at, row.sync_cursor), (SyncStatus::Idle, Some(NOW), None));
    // Records that the index has already are not written again. The index has nothing of a collection without a
    // lexicon.
    assert_eq!(run_sync(&stage).await, done(3, 1, 0));
    stage.service.items(vec![item(NOTE, Some("n1"), &json!({ "text": "changed" }))]);
    assert_eq!(run_sync(&stage).await, done(1, 1, 0));
    assert_eq!(indexed(&stage, "n1").await.unwrap()["text"], "changed");
    stage.service.state().exports.sync = false;
    assert!(matches!(stage.accounts.sync(&user(ALICE), "fake").await, Err(AccountError::OtherKind(_))));
}

async fn another_host_goes_on_at_the_checkpoint_of_a_dead_one(stage: Stage) {
    stage.link("765").await;
    let unkeyed = |n: usize| item(NOTE, None, &json!({ "text": format!("unkeyed {n}") }));
    stage.service.pages(move |cursor| match cursor {
        None => Page { items: vec![note(0)], next: Some("1".to_owned()) },
        Some("1") => Page { items: vec![unkeyed(1), unkeyed(2)], next: Some("2".to_owned()) },
        _ => Page { items: vec![note(3)], next: None },
    });
    let id = stage.row().await.id;
    let started = external_accounts::start_sync(&stage.db, &id, ALICE, NOW).await.unwrap().unwrap();
    assert_eq!(started.sync_run, 1);
    assert!(external_accounts::start_sync(&stage.db, &id, ALICE, NOW).await.unwrap().is_none());
    let due =
        async || external_accounts::due_syncs(&stage.db, stage.clock.now(), 10, 10, 10).await.unwrap().len();
    // The first host writes a page, and half of the second: it is killed before the checkpoint.
    let take = async |holder: &str| {
        let (now, until) = (stage.clock.now(), stage.clock.now().plus_seconds(20));
        external_accounts::take_sync(&stage.db, &id, holder, now, until).await.unwrap()
    };
    let row = take("first").await.unwrap();
    sync::turn::run(&stage.accounts, row, "first").await;
    assert_eq!(stage.row().await.sync_cursor.as_deref(), Some("1"));
    let row = take("second").await.unwrap();
    assert!(take("third").await.is_none());
    assert_eq!(due().await, 0);
    let prepared =
        sync::items::prepare(&stage.accounts, stage.service.as_ref(), &row, vec![unkeyed(1)]).await;
    let killed_after = prepared.unwrap().1.remove(0);
    let session = stage.accounts.session_of(&row, ALICE).await.unwrap().unwrap();
    let write = belvedere_instance::pds::Write {
        collection: killed_after.uri.collection.clone(),
        rkey: Some(killed_after.uri.rkey.clone()),
        action: belvedere_instance::pds::WriteAction::Put(killed_after.record.clone()),
        swap: None,
    };
    let repos = &stage.accounts.0.repos;
    let committed = repos.agent(&session, &Tenant::Instance).write(&write).await.unwrap();
    repos
        .mirror_writes(&session.did, &[write], committed, belvedere_instance::repos::RecordScripts::Now)
        .await;
    // Its lease lapses.
    stage.pass(21);
    assert_eq!(due().await, 1);
    stage.other.core().tasks.spawn(sync::run(stage.other.clone()));
    until(async || stage.row().await.sync_status == SyncStatus::Idle).await;
    let row = stage.row().await;
    assert_eq!((row.sync_processed, row.sync_written, row.sync_error), (4, 3, None));
    let keys = written(&stage);
    assert_eq!(keys.len(), 4, "{keys:?}");
    assert_eq!(keys.iter().collect::<std::collections::HashSet<_>>().len(), 4, "nothing twice: {keys:?}");
    // The host that hung wakes up: it stores nothing any more.
    assert!(
        !external_accounts::checkpoint(
            &stage.db,
            &id,
            "second",
            "9",
            &external_accounts::Progress::default(),
            NOW
        )
        .await
        .unwrap()
    );
    assert!(!external_accounts::extend_sync(&stage.db, &id, "second", NOW.plus_seconds(99)).await.unwrap());
}

async fn the_pages_of_users_alternate(stage: Stage) {
    stage.link("765").await;
    stage.link_as(&user(BOB), "766", None).await;
    let read = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&read);
    // A sync that does not end soon.
    stage.service.pages(move |_| {
        let n = count.fetch_add(1, Ordering::SeqCst);
        Page { items: Vec::new(), next: (n < 500).then(|| n.to_string()) }
    });
    work(&stage);
    let (accounts, alice) = (stage.accounts.clone(), user(ALICE));
    let first = tokio::spawn(async move { accounts.sync(&alice, "fake").await });
    until(async || read.load(Ordering::SeqCst) > 3).await;
    // Joining a sync starts no second one.
    let (accounts, alice) = (stage.accounts.clone(), user(ALICE));
    let second = tokio::spawn(async move { accounts.sync(&alice, "fake").await });
    let (accounts, bob) = (stage.accounts.clone(), user(BOB));
    let other = tokio::spawn(async move { accounts.sync(&bob, "fake").await });
    until(async || {
        let bob = external_accounts::get(&stage.db, BOB, "fake").await.unwrap().unwrap();
        bob.sync_pages > 2
    })
    .await;
    assert!(read.load(Ordering::SeqCst) < 500, "Alice's sync has not ended");
    for task in [first, second, other] {
        assert!(!task.await.unwrap().unwrap().is_running);
    }
    assert_eq!(stage.row().await.sync_run, 1);
}

async fn a_page_with_what_was_not_granted_is_refused_whole(stage: Stage) {
    work(&stage);
    stage.link_as(&user(ALICE), "765", Some(&[NOTE])).await;
    for (bad, text) in [
        (item("com.example.other", Some("k"), &json!({})), "which its operator did not grant"),
        (item(LOOSE, Some("k"), &json!({})), "to which the user did not consent"),
        (item("no collection\0", Some("k"), &json!({})), "which is no collection"),
    ] {
        stage.service.items(vec![note(1), bad, note(2)]);
        let state = run_sync(&stage).await;
        let (code, message) = state.error.unwrap();
        assert_eq!(code, "forbidden");
        assert!(message.contains(text), "{message}");
    }
    stage.service.revoke_grant(NOTE);
    stage.service.items(vec![note(1)]);
    assert_eq!(error_of(&stage).await, "forbidden");
    assert!(written(&stage).is_empty());
    let failed = stage.events_of("sync_failed").await;
    assert_eq!(failed.len(), 4);
    assert!(
        failed[0]["error"]
            .as_str()
            .unwrap()
            .starts_with("forbidden: the plugin wanted to write com.example.other"),
        "{failed:?}"
    );
    assert_eq!((&failed[0]["processed"], &failed[0]["written"]), (&json!(0), &json!(0)));
}

async fn a_plugin_that_never_ends_is_stopped(stage: Stage) {
    work(&stage);
    stage.link("765").await;
    stage.service.pages(|_| Page { items: vec![note(1)], next: Some("same".to_owned()) });
    let state = run_sync(&stage).await;
    assert!(state.error.unwrap().1.contains("the same cursor twice"));
    assert_eq!((state.processed, state.written), (1, 1));
    assert_eq!(stage.row().await.sync_cursor, None, "the next sync begins at the start");
    for (next, code) in [("\0".to_owned(), "bad-input"), ("c".repeat(8 * 1024 + 1), "bad-input")] {
        stage.service.pages(move |_| Page { items: Vec::new(), next: Some(next.clone()) });
        assert_eq!(error_of(&stage).await, code);
    }
    stage.service.items((0..=1_000).map(note).collect());
    assert_eq!(error_of(&stage).await, "too-large");
    // 10,000 pages.
    let row = stage.row().await;
    stage
        .service
        .pages(|cursor| Page { items: Vec::new(), next: Some(format!("{}x", cursor.unwrap_or_default())) });
    external_accounts::testing::set_pages(&stage.db, &row.id, 9_999).await;
    let state = run_sync(&stage).await;
    assert!(state.error.unwrap().1.contains("more than 10000 pages"));
}

async fn items_that_are_no_valid_records_are_skipped(stage: Stage) {
    work(&stage);
    stage.link("765").await;
    let raw = |text: &str| Item { value: text.to_owned(), ..note(9) };
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(100), "]".repeat(100));
    let large = json!({ "text": "x".repeat(1 << 20) }).to_string();
    let bad = [
        "",
        "{",
        "[]",
        "7",
        r#"{"text":7}"#,
        r#"{"text":"a\u0000b"}"#,
        r#"{"$type":"com.example.other"}"#,
        r#"{"a":1,"a":2}"#,
        r#"{"a":1.5}"#,
        &deep,
        &large,
    ];
    let mut items: Vec<Item> = bad.iter().map(|text| raw(text)).collect();
    items.push(Item { sign: true, ..raw(r#"{"signatures":7}"#) });
    items.push(Item { dedup_key: Some("k".repeat(513)), ..note(8) });
    let skipped = items.len() as i64;
    items.push(note(1));
    stage.service.items(items);
    assert_eq!(run_sync(&stage).await, done(skipped + 1, 1, skipped));
    assert_eq!(written(&stage), ["n1"]);
    let event = &stage.events_of("synced").await[0];
    assert!(event["note"].as_str().unwrap().starts_with("com.example.note/n9: "), "{event}");
    // The PDS refuses one record.
    stage.service.items(vec![note(2), note(3)]);
    stage.pds.refuse(400, r#"{"error":"InvalidRequest","message":"the PDS knows better"}"#);
    assert_eq!(run_sync(&stage).await, done(2, 1, 1));
    let event = &stage.events_of("synced").await[1];
    assert!(event["note"].as_str().unwrap().contains("the PDS knows better"), "{event}");
}

async fn items_with_a_key_that_the_lexicon_forbids_are_skipped(stage: Stage) {
    work(&stage);
    stage.link("765").await;
    for (kind, named, generated) in
        [("tid", "3jzfcijpj2z2a", true), ("literal:self", "self", true), ("nsid", "com.example.a", false)]
    {
        stage.set_key_type(kind).await;
        let text = json!({ "text": kind });
        stage.service.items(vec![note(1), item(NOTE, Some(named), &text), item(NOTE, None, &text)]);
        let before = written(&stage).len();
        let skipped = if generated { 1 } else { 2 };
        let state = run_sync(&stage).await;
        assert_eq!((state.processed, state.skipped, state.error), (3, skipped, None), "{kind}");
        let keys = written(&stage).split_off(before);
        assert!(keys.iter().all(|key| key != "n1") && keys.contains(&named.to_owned()), "{kind} {keys:?}");
    }
}

async fn unlinking_stops_a_sync(stage: Stage) {
    work(&stage);
    stage.link("765").await;
    stage.service.pages(pages(1));
    let open = stage.service.hold();
    let (accounts, alice) = (stage.accounts.clone(), user(ALICE));
    let syncing = tokio::spawn(async move { accounts.sync(&alice, "fake").await });
    until(async || stage.service.count("pull") == 1).await;
    assert!(stage.accounts.unlink(ALICE, "fake").await.unwrap());
    assert!(matches!(syncing.await.unwrap(), Err(AccountError::NotLinked)));
    let turns = stage.accounts.core().tasks.clone();
    until(async || turns.len() == 1).await;
    open.send_replace(true);
    assert!(written(&stage).is_empty());
    assert!(stage.events_of("sync_failed").await.is_empty());
}

async fn a_draining_host_leaves_its_syncs_to_others_at_once(stage: Stage) {
    work(&stage);
    stage.link("765").await;
    let _open = stage.service.hold();
    let (accounts, alice) = (stage.accounts.clone(), user(ALICE));
    tokio::spawn(async move { accounts.sync(&alice, "fake").await });
    until(async || stage.service.count("pull") == 1).await;
    stage.drain.cancel();
    until(async || external_accounts::due_syncs(&stage.db, NOW, 10, 10, 10).await.unwrap().len() == 1).await;
    assert_eq!(stage.row().await.sync_attempts, 0, "the attempt does not count");
}
