//! `POST /admin/lexicons/preview`

use crate::fixtures::World;
use belvedere_standins::jetstream::{Frame, Place};
use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{ALICE, LIST, NOTES, push_notes};
use crate::support::instance::{Instance, query_lexicon, record_lexicon};

const PATH: &str = "/admin/lexicons/preview";

async fn preview(server: &Instance, body: &Value) -> Value {
    let answer = server.admin(Method::POST, PATH, Some(body)).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.body
}

/// A lexicon of notes whose text has a maximum length.
fn short_notes(max: u64) -> Value {
    let text = json!({ "type": "string", "maxLength": max });
    let record = json!({ "type": "object", "properties": { "text": text } });
    json!({ "lexicon": 1, "id": NOTES, "defs": { "main": { "type": "record", "key": "any", "record": record } } })
}

crate::in_both_worlds!(
    a_preview_says_what_changes_and_stores_nothing,
    collections_that_refer_to_a_lexicon_are_affected,
    a_preview_checks_some_hundred_records_and_names_few,
    ten_other_collections_are_checked
);

async fn a_preview_says_what_changes_and_stores_nothing(world: World) {
    let server = &world.server;
    let new = preview(server, &json!({ "lexicon_json": record_lexicon(NOTES) })).await;
    let new = &new["lexicons"][0];
    assert_eq!(
        (&new["change"], &new["id"], &new["lexicon_type"]),
        (&json!("new"), &json!(NOTES), &json!("record"))
    );
    assert_eq!(
        (&new["revision"], &new["next_revision"], &new["starts_backfill"]),
        (&Value::Null, &json!(1), &json!(true))
    );
    assert_eq!(server.admin(Method::GET, "/admin/lexicons", None).await.body, json!([]));

    let mut world = world.with_notes().await;
    world.note(ALICE, "short", json!({ "text": "hi" })).await;
    let long = world.note(ALICE, "long", json!({ "text": "hello world" })).await;
    let server = &world.server;
    let same = preview(server, &json!({ "lexicon_json": record_lexicon(NOTES) })).await;
    assert_eq!(same["lexicons"][0]["change"], "unchanged");
    assert_eq!((&same["lexicons"][0]["records"], &same["affected"]), (&Value::Null, &json!([])));

    let changed = preview(server, &json!({ "lexicon_json": short_notes(5) })).await;
    let changed = &changed["lexicons"][0];
    assert_eq!(
        (&changed["change"], &changed["revision"], &changed["source"]),
        (&json!("changed"), &json!(1), &json!("manual"))
    );
    assert!(!changed["differences"].as_array().unwrap().is_empty());
    let records = &changed["records"];
    assert_eq!(
        (&records["total"], &records["checked"], &records["become_invalid"]),
        (&json!(2), &json!(2), &json!(1))
    );
    assert_eq!(records["examples"][0]["uri"], *long);

    // A query that is only new in its settings, one that is broken, and one with a target that is not indexed.
    let several = preview(
        server,
        &json!({ "lexicons": [
            { "lexicon_json": query_lexicon(LIST), "target_collection": NOTES, "token_cost": 3 },
            { "lexicon_json": { "lexicon": 2, "id": "com.example.x", "defs": {} } },
            { "lexicon_json": query_lexicon("com.example.y"), "target_collection": "com.example.unknown" },
            { "nothing": true },
        ] }),
    )
    .await;
    let of = |n: usize| &several["lexicons"][n];
    assert_eq!((&of(0)["change"], &of(0)["differences"]), (&json!("changed"), &json!([])));
    assert_eq!((&of(1)["change"], &of(1)["id"]), (&json!("invalid"), &json!("com.example.x")));
    assert!(!of(1)["error"].as_str().unwrap().is_empty());
    assert_eq!(of(2)["warnings"].as_array().unwrap().len(), 1);
    assert_eq!((&of(3)["change"], &of(3)["id"]), (&json!("invalid"), &Value::Null));

    let many = json!({ "lexicons": vec![json!({ "lexicon_json": {} }); 2_001] });
    assert_eq!(server.admin(Method::POST, PATH, Some(&many)).await.status, 400);
    assert_eq!(
        server.admin(Method::GET, &format!("/admin/lexicons/{NOTES}"), None).await.body["revision"],
        1
    );
}

async fn collections_that_refer_to_a_lexicon_are_affected(world: World) {
    let thing =
        |max: u64| json!({ "type": "object", "properties": { "s": { "type": "string", "maxLength": max } } });
    let defs = |max: u64| json!({ "lexicon": 1, "id": "com.example.defs", "defs": { "thing": thing(max) } });
    world.server.upload(defs(100), None).await;
    let mut notes = short_notes(9);
    notes["defs"]["main"]["record"]["properties"]["text"] =
        json!({ "type": "ref", "ref": "com.example.defs#thing" });
    let mut world = world.with_notes().await;
    world.server.upload(notes, None).await;
    world.note(ALICE, "long", json!({ "text": { "s": "hello world" } })).await;
    let answer = preview(&world.server, &json!({ "lexicon_json": defs(5) })).await;
    assert_eq!(answer["lexicons"][0]["records"], Value::Null);
    let affected = &answer["affected"][0];
    assert_eq!(
        (&affected["collection"], &affected["records"]["become_invalid"]),
        (&json!(NOTES), &json!(1)),
        "{answer}"
    );
}

async fn a_preview_checks_some_hundred_records_and_names_few(world: World) {
    let world = world.with_notes().await;
    push_notes(&world.stream, 0..505);
    world.server.eventually("505 notes", async |server| server.records().await == 505).await;
    let answer = preview(&world.server, &json!({ "lexicon_json": short_notes(1) })).await;
    let records = &answer["lexicons"][0]["records"];
    let numbers = ["total", "checked", "become_invalid"].map(|name| records[name].as_i64().unwrap());
    assert_eq!((numbers, records["examples"].as_array().unwrap().len()), ([505, 500, 500], 5));
}

async fn ten_other_collections_are_checked(mut world: World) {
    let thing =
        |max: u64| json!({ "type": "object", "properties": { "s": { "type": "string", "maxLength": max } } });
    let defs = |max: u64| json!({ "lexicon": 1, "id": "com.example.defs", "defs": { "thing": thing(max) } });
    world.server.upload(defs(100), None).await;
    let collections: Vec<String> = (0..11).map(|n| format!("com.example.kind{n}")).collect();
    for id in &collections {
        let mut lexicon = record_lexicon(id);
        let text = json!({ "text": { "type": "ref", "ref": "com.example.defs#thing" } });
        lexicon["defs"]["main"]["record"] = json!({ "type": "object", "properties": text });
        world.server.upload(lexicon, None).await;
        world.wait_for_stream_of(id).await;
        let record = json!({ "$type": id, "text": { "s": "hello world" } });
        world
            .push(|at, rev| Frame::create(at, Place { did: ALICE, collection: id, rkey: "a", rev }, &record));
    }
    world.server.eventually("a record of each", async |server| server.records().await == 11).await;
    let answer = preview(&world.server, &json!({ "lexicon_json": defs(5) })).await;
    let affected = answer["affected"].as_array().unwrap();
    assert_eq!(affected.len(), 10, "{answer}");
    assert!(affected.iter().all(|one| one["records"]["become_invalid"] == 1), "{answer}");
}
