//! Syncs: into the repo and the index, over kills, and while the PDS fails.

use super::*;
use crate::fixtures::{LIST, NOTES};

fn note(n: usize) -> Value {
    json!({ "collection": NOTES, "key": format!("n{n}"), "value": { "text": format!("note {n}") } })
}

async fn sync(stage: &Stage) -> Answer {
    stage.alice(Method::POST, "probe/sync", None).await
}

async fn indexed(stage: &Stage, rkey: &str) -> Value {
    let found = stage.server().xrpc(&format!("{LIST}?uri=at://{ALICE}/{NOTES}/{rkey}")).await;
    found.body["record"].clone()
}

fn written(stage: &Stage) -> Vec<String> {
    let puts = stage.pds.requests("/xrpc/com.atproto.repo.putRecord");
    let key =
        |body: &[u8]| serde_json::from_slice::<Value>(body).unwrap()["rkey"].as_str().unwrap().to_owned();
    puts.iter().map(|put| key(&put.body)).collect()
}

on_both!(
    items_become_records_of_the_user,
    a_sync_goes_on_after_kills,
    a_pds_that_fails_in_the_middle_delays_a_sync
);

async fn items_become_records_of_the_user(stage: Stage) {
    stage.link("765").await;
    stage.service.list(|cursor| match cursor {
        "" => json!({ "items": [note(1), { "collection": NOTES, "key": "s", "value": { "text": "signed" }, "sign": true }], "next": "two" }),
        _ => json!({ "items": [note(2), { "collection": NOTES, "value": { "text": 7 } }] }),
    });
    let synced = sync(&stage).await;
    assert_eq!(
        (synced.status.as_u16(), &synced.body),
        (200, &json!({ "status": "ok", "processed": 4, "written": 3, "skipped": 1 })),
        "{}",
        synced.text
    );
    assert_eq!(written(&stage), ["n1", "s", "n2"]);
    assert_eq!(indexed(&stage, "n1").await["text"], "note 1");
    assert!(indexed(&stage, "s").await["signatures"][0]["signature"]["$bytes"].is_string());
    assert_eq!(
        sync(&stage).await.body,
        json!({ "status": "ok", "processed": 4, "written": 0, "skipped": 1 })
    );
    assert_eq!(written(&stage).len(), 3, "unchanged records are not written again");
    let event = &stage.events("synced").await[1];
    assert_eq!((&event["detail"]["written"], &event["detail"]["skipped"]), (&json!(3), &json!(1)));
    assert!(event["detail"]["note"].as_str().unwrap().contains("com.example.note/"), "{event}");
    let account = &stage.accounts().await[0];
    assert!(account["synced_at"].is_string() && account["sync"]["status"] == "idle", "{account}");

    stage.service.list(
        |_| json!({ "items": [note(3), { "collection": "com.example.other", "key": "x", "value": {} }] }),
    );
    let refused = sync(&stage).await;
    assert_eq!((refused.status.as_u16(), refused.error()), (502, "forbidden"), "{}", refused.text);
    assert!(refused.body["message"].as_str().unwrap().contains("com.example.other"));
    assert_eq!(written(&stage).len(), 3, "nothing of the page");
    assert_eq!(stage.events("sync_failed").await.len(), 1);
    // Unlinking removes what the plugin kept for the account. The records are the user's.
    stage.alice(Method::POST, "probe/unlink", None).await;
    assert_eq!(indexed(&stage, "n1").await["text"], "note 1");
}

async fn a_sync_goes_on_after_kills(mut stage: Stage) {
    stage.link("765").await;
    stage.service.list(|cursor| {
        let n: usize = cursor.parse().unwrap_or(0);
        json!({ "items": [note(2 * n), note(2 * n + 1), { "collection": NOTES, "value": { "text": format!("unkeyed {n}") } }],
            "next": (n < 19).then(|| (n + 1).to_string()) })
    });
    let (path, method) = ("/external-auth/probe/sync", Method::POST);
    let proof = stage.alice.proof(stage.server(), &method, path);
    let started = tokio::time::timeout(
        std::time::Duration::from_millis(300),
        stage.alice.send(stage.server(), method, path, &proof, None),
    );
    drop(started.await);
    for enough in [7, 25] {
        stage.server().eventually("some pages", async |_| written(&stage).len() >= enough).await;
        stage.world.server.kill();
        stage.world.server.start_again().await;
    }
    let idle = async |_: &Instance| stage.accounts().await[0]["sync"]["status"] == "idle";
    stage.server().eventually("the sync ends", idle).await;
    let account = &stage.accounts().await[0];
    assert_eq!(
        (&account["sync"]["error"], &account["sync"]["processed"]),
        (&json!(null), &json!(60)),
        "{account}"
    );
    assert_eq!(stage.server().records().await, 60, "nothing twice, nothing lost");
    let keys = written(&stage);
    let distinct: std::collections::HashSet<_> = keys.iter().collect();
    assert_eq!(distinct.len(), 60);
    assert!(keys.len() <= 62, "a kill repeats at most the write that was under way: {}", keys.len());
}

async fn a_pds_that_fails_in_the_middle_delays_a_sync(stage: Stage) {
    stage.link("765").await;
    stage.service.list(|_| json!({ "items": [note(1), note(2)] }));
    stage.pds.respond_with("/xrpc/com.atproto.repo.putRecord", 503, json!({ "error": "NotNow" }));
    let syncing = sync(&stage);
    let repaired = async {
        stage.server().eventually("an attempt", async |_| !written(&stage).is_empty()).await;
        stage.pds.respond_normally("/xrpc/com.atproto.repo.putRecord");
    };
    let (synced, ()) = tokio::join!(syncing, repaired);
    assert_eq!(
        synced.body,
        json!({ "status": "ok", "processed": 2, "written": 2, "skipped": 0 }),
        "{}",
        synced.text
    );
    // A session that ends stops the sync with a reason, and the next call goes on.
    stage.service.list(|_| json!({ "items": [note(3)] }));
    stage.pds.revoke_all();
    let ended = sync(&stage).await;
    assert_eq!((ended.status.as_u16(), ended.error()), (401, "no-session"), "{}", ended.text);
    let again = stage.app.device(stage.server(), &stage.pds, ALICE, json!({})).await;
    let synced = again.request(stage.server(), Method::POST, "/external-auth/probe/sync", None).await;
    assert_eq!(synced.body["written"], 1, "{}", synced.text);
}
