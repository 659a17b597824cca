//! Record scripts, and the dead letters of events whose script fails.

use belvedere_standins::jetstream::{Frame, Place};
use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{ALICE, BOB, NOTES, World};
use crate::support::instance::{Answer, Instance};

const PATH: &str = "/admin/dead-letters";

async fn bind(world: &World, trigger: &str, source: &str) {
    let body = json!({ "id": trigger, "body": source });
    let answer = world.server.admin(Method::POST, "/admin/scripts", Some(&body)).await;
    assert!(answer.status.is_success(), "{}", answer.text);
}

async fn get(world: &World, uri: &str) -> Answer {
    world.server.xrpc(&format!("{}?uri={uri}", crate::fixtures::LIST)).await
}

async fn letters(world: &World, query: &str) -> Vec<Value> {
    let answer = world.server.admin(Method::GET, &format!("{PATH}?{query}"), None).await;
    answer.body["dead_letters"].as_array().unwrap_or_else(|| panic!("{}", answer.text)).clone()
}

async fn post(world: &World, path: &str, body: Option<&Value>) -> Answer {
    world.server.admin(Method::POST, &format!("{PATH}/{path}"), body).await
}

fn push(world: &mut World, make: impl for<'a> FnOnce(i64, Place<'a>) -> Frame, did: &str, rkey: &str) {
    world.push(|at, rev| make(at, Place { did, collection: NOTES, rkey, rev }));
}

fn uri(did: &str, rkey: &str) -> String {
    format!("at://{did}/{NOTES}/{rkey}")
}

/// An error that is not retried: the event becomes a dead letter at once.
const BROKEN: &str =
    "function handle() if record and record.bad then error('I do not like ' .. rkey) end return true end";

crate::in_both_worlds!(
    an_empty_table_is_an_array_where_the_lexicon_says_so,
    a_script_skips_replaces_or_accepts_a_record,
    keeping_a_deleted_row_is_logged_once_for_a_script,
    a_failing_script_leaves_a_dead_letter_and_the_record_is_indexed,
    retrying_never_overwrites_a_newer_record,
    a_retried_skip_removes_the_record,
    bulk_operations_report_each_dead_letter,
    an_event_that_is_delivered_twice_is_one_dead_letter
);

async fn an_empty_table_is_an_array_where_the_lexicon_says_so(mut world: World) {
    world = world.with_notes().await;
    let lexicon = json!({ "lexicon": 1, "id": NOTES, "defs": { "main": { "type": "record", "key": "any", "record": {
        "type": "object", "properties": { "tags": { "type": "array", "items": { "type": "string" } } } } } } });
    world.server.upload(lexicon, None).await;
    bind(
        &world,
        &format!("record.index:{NOTES}"),
        "
            function handle()
              record.tags, record.meta = {}, {}
              return record
            end",
    )
    .await;
    let uri = world.note(ALICE, "a", json!({ "text": "x" })).await;
    let found = get(&world, &uri).await;
    let record = &found.body["record"];
    assert_eq!((&record["tags"], &record["meta"]), (&json!([]), &json!({})), "{}", found.text);
}

async fn a_script_skips_replaces_or_accepts_a_record(mut world: World) {
    world = world.with_notes().await;
    bind(&world, &format!("record.index:{NOTES}"), "
            function handle()
              assert(event.uri == uri and event.action == action and caller_did == nil and event.record == record)
              if action == 'delete' then
                if rkey == 'kept' then return nil end
                return true
              end
              if record.text == 'spam' then return nil end
              if record.text == 'shout' then
                record.text = 'SHOUT'
                record.by = did
                return record
              end
              return true
            end").await;
    bind(&world, &format!("record.create:{NOTES}"), "
            function handle() if rkey == 'specific' then return { text = 'from the specific one' } end return true end").await;
    // A create script does not replace the general script for updates.
    world.note(ALICE, "shout", json!({ "text": "shout" })).await;
    assert_eq!(
        get(&world, &uri(ALICE, "shout")).await.body["record"]["text"],
        "shout",
        "the specific one ran"
    );
    push(
        &mut world,
        |at, place| Frame::update(at, place, &json!({ "$type": NOTES, "text": "shout" })),
        ALICE,
        "shout",
    );
    world.note(ALICE, "specific", json!({ "text": "x" })).await;
    let record = get(&world, &uri(ALICE, "shout")).await.body["record"].clone();
    assert_eq!((&record["text"], &record["by"]), (&json!("SHOUT"), &json!(ALICE)));
    assert_eq!(get(&world, &uri(ALICE, "specific")).await.body["record"]["text"], "from the specific one");

    // Deleting a script takes effect for the next event.
    let path = format!("/admin/scripts/record.create:{NOTES}");
    assert_eq!(world.server.admin(Method::DELETE, &path, None).await.status, 204);
    push(
        &mut world,
        |at, place| Frame::create(at, place, &json!({ "$type": NOTES, "text": "spam" })),
        BOB,
        "spam",
    );
    world.note(BOB, "kept", json!({ "text": "stay" })).await;
    assert_eq!(get(&world, &uri(BOB, "spam")).await.status, 404);
    push(&mut world, Frame::delete, BOB, "kept");
    world.note(BOB, "gone", json!({ "text": "go" })).await;
    world.delete_note(BOB, "gone").await;
    assert_eq!(get(&world, &uri(BOB, "kept")).await.status, 200, "a delete that was skipped");
    assert!(letters(&world, "").await.is_empty());
}

async fn keeping_a_deleted_row_is_logged_once_for_a_script(mut world: World) {
    world = world.with_notes().await;
    let trigger = format!("record.index:{NOTES}");
    bind(&world, &trigger, "function handle() return record end").await;
    for round in 1..=2 {
        for rkey in ["one", "two"] {
            world.note(ALICE, rkey, json!({ "text": "x" })).await;
            push(&mut world, Frame::delete, ALICE, rkey);
        }
        // Events of a repo are processed in their order, so the deletes are decided when this one is there.
        world.note(ALICE, &format!("after-{round}"), json!({ "text": "x" })).await;
        assert_eq!(get(&world, &uri(ALICE, "two")).await.status, 200, "the row stays");
        let logged = async |server: &Instance| {
            let answer = server.admin(Method::GET, "/admin/events?event_type=script.log", None).await;
            answer.body["events"].as_array().unwrap_or_else(|| panic!("{}", answer.text)).clone()
        };
        world.server.eventually("it is logged", async |server| logged(server).await.len() >= round).await;
        let events = logged(&world.server).await;
        assert_eq!(events.len(), round, "{events:?}");
        assert_eq!(events[0]["subject"], json!(trigger));
        let message = events[0]["detail"]["message"].as_str().unwrap();
        assert!(message.starts_with(&uri(ALICE, "one")) && message.contains("returned nil"), "{message}");
        // A new source of the trigger is a new script.
        bind(&world, &trigger, "function handle() return record -- again\nend").await;
    }
}

async fn a_failing_script_leaves_a_dead_letter_and_the_record_is_indexed(mut world: World) {
    world = world.with_notes().await;
    bind(&world, &format!("record.index:{NOTES}"), BROKEN).await;
    let bad = world.note(ALICE, "bad", json!({ "text": "original", "bad": true })).await;
    world.note(ALICE, "fine", json!({ "text": "fine" })).await;
    assert_eq!(get(&world, &bad).await.body["record"]["text"], "original");
    let found = letters(&world, "").await;
    assert_eq!(found.len(), 1);
    let letter = &found[0];
    assert_eq!(
        (
            &letter["uri"],
            &letter["action"],
            &letter["collection"],
            &letter["attempts"],
            &letter["lexicon_id"]
        ),
        (&json!(bad), &json!("create"), &json!(NOTES), &json!(1), &json!(NOTES))
    );
    assert!(
        letter["error"].as_str().unwrap().contains("I do not like bad")
            && letter.get("resolved_at").is_none()
    );
    let id = letter["id"].as_str().unwrap();
    let detail = world.server.admin(Method::GET, &format!("{PATH}/{id}"), None).await;
    assert_eq!(
        (&detail.body["record"]["text"], &detail.body["script"]),
        (&json!("original"), &json!(format!("record.index:{NOTES}")))
    );
    let count = world.server.admin(Method::GET, &format!("{PATH}/count"), None).await;
    assert_eq!(count.body, json!({ "count": 1 }));
    let events = world.server.admin(Method::GET, "/admin/events?event_type=script.dead_lettered", None).await;
    assert_eq!(events.body["events"][0]["subject"], bad);

    // Still failing: the response has the error, the attempt is counted, the dead letter stays.
    let retry = post(&world, &format!("{id}/retry"), None).await;
    assert_eq!((retry.status.as_u16(), retry.error()), (500, "script execution failed"));
    assert_eq!(letters(&world, "").await[0]["attempts"], 2);

    // Fixed: its record replaces the stored one, and the dead letter is resolved.
    bind(
        &world,
        &format!("record.index:{NOTES}"),
        "
            function handle() if record then record.text = 'mended' return record end return true end",
    )
    .await;
    let retry = post(&world, &format!("{id}/retry"), None).await;
    assert_eq!((retry.status.as_u16(), retry.body), (200, json!({ "ok": true })));
    assert_eq!(get(&world, &bad).await.body["record"]["text"], "mended");
    assert!(letters(&world, "").await.is_empty());
    assert_eq!(letters(&world, "resolved=true").await.len(), 1);
    assert_eq!(post(&world, &format!("{id}/retry"), None).await.status, 404, "resolved already");
    assert_eq!(post(&world, &format!("{id}/dismiss"), None).await.status, 200);
    // A later commit still wins.
    push(
        &mut world,
        |at, place| Frame::update(at, place, &json!({ "$type": NOTES, "text": "later" })),
        ALICE,
        "bad",
    );
    world.note(ALICE, "after", json!({ "text": "x" })).await;
    assert_eq!(get(&world, &bad).await.body["record"]["text"], "mended", "the script mends that one too");
}

async fn retrying_never_overwrites_a_newer_record(mut world: World) {
    world = world.with_notes().await;
    bind(&world, &format!("record.index:{NOTES}"), BROKEN).await;
    let bad = world.note(ALICE, "bad", json!({ "text": "old", "bad": true })).await;
    push(
        &mut world,
        |at, place| Frame::update(at, place, &json!({ "$type": NOTES, "text": "new" })),
        ALICE,
        "bad",
    );
    world.note(ALICE, "other", json!({ "text": "x" })).await;
    assert_eq!(get(&world, &bad).await.body["record"]["text"], "new");
    bind(&world, &format!("record.index:{NOTES}"), "function handle() return true end").await;
    let id = letters(&world, "").await[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(post(&world, &format!("{id}/retry"), None).await.status, 200);
    assert_eq!(get(&world, &bad).await.body["record"]["text"], "new");
}

async fn a_retried_skip_removes_the_record(mut world: World) {
    world = world.with_notes().await;
    bind(&world, &format!("record.index:{NOTES}"), BROKEN).await;
    let bad = world.note(ALICE, "bad", json!({ "text": "old", "bad": true })).await;
    world.note(ALICE, "other", json!({ "text": "x" })).await;
    bind(&world, &format!("record.index:{NOTES}"), "function handle() return nil end").await;
    let id = letters(&world, "").await[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(post(&world, &format!("{id}/retry"), None).await.status, 200);
    assert_eq!(get(&world, &bad).await.status, 404);
}

async fn bulk_operations_report_each_dead_letter(mut world: World) {
    world = world.with_notes().await;
    bind(&world, &format!("record.index:{NOTES}"), BROKEN).await;
    for n in 0..5 {
        world.note(ALICE, &format!("bad{n}"), json!({ "text": "x", "bad": true, "n": n })).await;
    }
    world.note(ALICE, "end", json!({ "text": "x" })).await;
    // Pages, newest first.
    let page = world.server.admin(Method::GET, &format!("{PATH}?limit=2"), None).await;
    let cursor = page.body["cursor"].as_str().unwrap();
    assert_eq!(page.body["dead_letters"][0]["rkey"], "bad4");
    let rest = world.server.admin(Method::GET, &format!("{PATH}?limit=3&cursor={cursor}"), None).await;
    assert_eq!(rest.body["dead_letters"][2]["rkey"], "bad0");
    assert!(rest.body.get("cursor").is_none(), "{}", rest.text);

    bind(
        &world,
        &format!("record.index:{NOTES}"),
        "
            function handle() if record.n == 1 then error('not yet') end return true end",
    )
    .await;
    let ids: Vec<_> = letters(&world, "").await.iter().map(|letter| letter["id"].clone()).collect();
    let body = json!({ "ids": [ids[0], "999999", "nonsense"] });
    let answer = post(&world, "bulk/retry", Some(&body)).await;
    assert_eq!(
        answer.body,
        json!({ "ok": false, "remaining": 0, "results": [
            { "id": ids[0], "ok": true },
            { "id": "999999", "ok": false, "error": "dead letter not found" },
            { "id": "nonsense", "ok": false, "error": "dead letter not found" },
        ] })
    );
    let answer = post(&world, "bulk/retry", Some(&json!({ "all": true, "collection": NOTES }))).await;
    let failed: Vec<_> =
        answer.body["results"].as_array().unwrap().iter().filter(|result| result["ok"] == false).collect();
    assert_eq!(failed.len(), 1, "{}", answer.text);
    assert_eq!(
        (failed[0]["id"].clone(), &failed[0]["error"]),
        (ids[3].clone(), &json!("script execution failed"))
    );
    assert_eq!(post(&world, "bulk/dismiss", Some(&json!({ "all": true }))).await.body["ok"], true);
    assert!(letters(&world, "").await.is_empty());
    for neither in [json!({}), json!({ "all": null, "ids": null })] {
        assert_eq!(post(&world, "bulk/dismiss", Some(&neither)).await.error(), "send ids, or all: true");
    }
    assert_eq!(post(&world, "7x/dismiss", None).await.status, 404);
    let events = world.server.admin(Method::GET, "/admin/events?category=dead_letter", None).await;
    assert_eq!(events.body["events"][0]["event_type"], "dead_letter.dismissed");
}

async fn an_event_that_is_delivered_twice_is_one_dead_letter(mut world: World) {
    world = world.with_notes().await;
    bind(&world, &format!("record.index:{NOTES}"), BROKEN).await;
    world.note(ALICE, "bad", json!({ "text": "x", "bad": true })).await;
    world.note(ALICE, "fine", json!({ "text": "x" })).await;
    for _ in 0..3 {
        world.server.kill();
        world.server.start_again().await;
        world.wait_for_stream_of(NOTES).await;
        world.note(ALICE, "again", json!({ "text": "x" })).await;
    }
    assert_eq!(letters(&world, "").await.len(), 1);
}
