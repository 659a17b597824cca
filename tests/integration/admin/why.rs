//! `/admin/records/why`: why a record is not there.

use belvedere_standins::jetstream::{Frame, Place, tid};
use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{ALICE, BOB, NOTES, World};

/// The verdict, and the outcome of each step by its id.
async fn why(world: &World, uri: &str) -> (String, Vec<(String, String)>, Value) {
    let answer = world.server.admin(Method::GET, &format!("/admin/records/why?uri={uri}"), None).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    assert!(!text(&answer.body["summary"]).is_empty() && !text(&answer.body["advice"]).is_empty());
    assert_eq!(answer.body["is_visible"], answer.body["verdict"] == "visible");
    let steps = answer.body["steps"].as_array().unwrap().iter();
    let steps = steps.map(|step| (text(&step["id"]), text(&step["outcome"]))).collect();
    (text(&answer.body["verdict"]), steps, answer.body)
}

async fn verdict_of(world: &World, uri: &str) -> String {
    why(world, uri).await.0
}

fn uri(did: &str, rkey: &str) -> String {
    format!("at://{did}/{NOTES}/{rkey}")
}

/// A record key of this time, in microseconds.
fn rkey_at(micros: i64) -> String {
    tid(micros as u64, 0)
}

fn now() -> i64 {
    belvedere_base::clock::Clock::system().now().0
}

crate::in_both_worlds!(
    a_record_that_is_there_and_one_that_its_lexicon_rejects,
    an_account_that_is_off,
    a_collection_that_is_not_indexed_and_invalid_requests,
    scripts_skip_records_or_fail_on_them,
    a_record_that_was_never_seen,
    a_record_that_was_rejected
);

async fn a_record_that_is_there_and_one_that_its_lexicon_rejects(mut world: World) {
    world = world.with_notes().await;
    let there = world.note(ALICE, "there", json!({ "text": "x" })).await;
    let (verdict, steps, body) = why(&world, &there).await;
    assert_eq!(verdict, "visible", "{body}");
    let of = |id: &str| steps.iter().find(|step| step.0 == id).map(|step| step.1.as_str());
    assert_eq!(
        (of("collection"), of("account"), of("index"), of("lexicon")),
        (Some("ok"), Some("ok"), Some("ok"), Some("ok"))
    );
    world.push(|at, rev| {
        Frame::create(
            at,
            Place { did: ALICE, collection: NOTES, rkey: "bad", rev },
            &json!({ "$type": NOTES, "text": 5 }),
        )
    });
    let bad = uri(ALICE, "bad");
    world
        .server
        .eventually("the record is indexed", async |_| verdict_of(&world, &bad).await == "invalid")
        .await;
    world.delete_note(ALICE, "there").await;
    world.repo(ALICE, &[]);
    assert_eq!(verdict_of(&world, &there).await, "deleted");
}

async fn an_account_that_is_off(mut world: World) {
    world = world.with_notes().await;
    let hidden = world.note(ALICE, "one", json!({ "text": "x" })).await;
    world.account(ALICE, Some("deactivated"));
    world.wait_for(&hidden, false).await;
    let (verdict, _, body) = why(&world, &hidden).await;
    assert_eq!(verdict, "account_hidden", "{body}");
    assert!(body["summary"].as_str().unwrap().contains("deactivated"), "{body}");
}

async fn a_collection_that_is_not_indexed_and_invalid_requests(world: World) {
    assert_eq!(verdict_of(&world, &uri(ALICE, "a")).await, "collection_not_indexed");
    for query in [
        "",
        "uri=",
        "uri=at://did:plc:abc",
        "uri=at://alice.example/com.example.note/a",
        "uri=https://x.example/a/b",
        "uri=at://did:plc:abc/space/a.b.c/main/did:plc:def/com.example.note/a",
    ] {
        let answer = world.server.admin(Method::GET, &format!("/admin/records/why?{query}"), None).await;
        assert_eq!(answer.status, 400, "{query} {}", answer.text);
    }
    let path = format!("/admin/records/why?uri={}&look=maybe", uri(ALICE, "a"));
    assert_eq!(world.server.admin(Method::GET, &path, None).await.status, 400);
}

async fn scripts_skip_records_or_fail_on_them(mut world: World) {
    world = world.with_notes().await;
    let script = format!("record.index:{NOTES}");
    world
        .server
        .bind_to(
            &script,
            "function handle() \
        if record.text == 'fail' then error('I do not like it') end \
        if record.text == 'skip' then return nil end return record end",
        )
        .await;
    let (failed, skipped) = (rkey_at(now()), rkey_at(now() + 1));
    world.repo(ALICE, &[skipped.as_str(), failed.as_str()]);
    for (rkey, text) in [(&failed, "fail"), (&skipped, "skip")] {
        world.push(|at, rev| {
            Frame::create(
                at,
                Place { did: ALICE, collection: NOTES, rkey, rev },
                &json!({ "$type": NOTES, "text": text }),
            )
        });
    }
    let failed = uri(ALICE, &failed);
    world
        .server
        .eventually("the event is dead", async |_| verdict_of(&world, &failed).await == "dead_letter")
        .await;
    let (_, _, body) = why(&world, &failed).await;
    let steps = body["steps"].as_array().unwrap();
    let step = steps.iter().find(|step| step["id"] == "dead_letter").unwrap();
    assert_eq!(
        (&step["link"]["kind"], &step["outcome"]),
        (&json!("dead_letter"), &json!("problem")),
        "{body}"
    );
    assert!(step["text"].as_str().unwrap().contains("I do not like it"), "{body}");
    // The next record takes the cursor past the one that was skipped.
    world.note(BOB, "later", json!({ "text": "x" })).await;
    let (verdict, _, body) = why(&world, &uri(ALICE, &skipped)).await;
    assert_eq!(verdict, "skipped_by_script", "{body}");
    assert!(body["summary"].as_str().unwrap().contains(&script), "{body}");
}

async fn a_record_that_was_never_seen(mut world: World) {
    let old = rkey_at(now() - 86_400_000_000);
    world = world.with_notes().await;
    world.repo(ALICE, &[old.as_str(), "later"]);
    world.note(BOB, "cursor", json!({ "text": "x" })).await;
    // Older than the lexicon, and nothing has read the past.
    let (verdict, _, body) = why(&world, &uri(ALICE, &old)).await;
    assert_eq!(verdict, "not_backfilled", "{body}");
    assert!(body["advice"].as_str().unwrap().contains("Start a backfill"), "{body}");
    // Not in the repo.
    assert_eq!(verdict_of(&world, &uri(ALICE, "nowhere")).await, "not_in_repo");
    // Later than everything that was read from the stream.
    let later = rkey_at(now() + 3_600_000_000);
    world.repo(BOB, &[later.as_str()]);
    assert_eq!(verdict_of(&world, &uri(BOB, &later)).await, "stream_behind");
    // The PDS can't be asked: the rest is said all the same.
    let gone = "did:plc:gonegonegonegonegonegone";
    let (verdict, steps, body) = why(&world, &uri(gone, &old)).await;
    assert_eq!(verdict, "not_backfilled", "{body}");
    assert!(steps.contains(&("repo".to_owned(), "unknown".to_owned())), "{body}");

    let begun =
        world.server.admin(Method::POST, "/admin/backfill", Some(&json!({ "collection": NOTES }))).await;
    assert_eq!(begun.status, 201, "{}", begun.text);
    let there = uri(ALICE, &old);
    world
        .server
        .eventually("the backfill has read it", async |_| verdict_of(&world, &there).await == "visible")
        .await;
}

async fn a_record_that_was_rejected(mut world: World) {
    world = world.with_notes().await;
    world.repo(ALICE, &["bad"]);
    let record = json!({ "$type": NOTES, "text": "forged" });
    world.push(|at, rev| {
        Frame::forged(at, Place { did: ALICE, collection: NOTES, rkey: "bad", rev }, &record)
    });
    world.note(BOB, "good", json!({ "text": "fine" })).await;
    world
        .server
        .eventually("the event is logged", async |_| {
            verdict_of(&world, &uri(ALICE, "bad")).await == "rejected"
        })
        .await;
}
