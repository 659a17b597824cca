//! Records that their lexicon rejects: stored, flagged, and chosen by queries.

use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{ALICE, BOB, LIST, NOTES, World};
use crate::support::instance::{Instance, keyed_lexicon, query_lexicon, record_lexicon};

const BLOB: &str = "bafkreiccldh766hwcnuxnf2wh6jgzepf2nlu2lvcllt63eww5p6chi4ity";

/// The rkeys and validity of all notes, as admins see them, newest first.
async fn shown(server: &Instance, filter: &str) -> Vec<(String, bool)> {
    let found = server.admin(Method::GET, &format!("/admin/records?collection={NOTES}{filter}"), None).await;
    let records = found.body["records"].as_array().unwrap_or_else(|| panic!("{}", found.text)).clone();
    let one =
        |record: &Value| (record["rkey"].as_str().unwrap().to_owned(), record["valid"].as_bool().unwrap());
    records.iter().map(one).collect()
}

async fn listed(server: &Instance, query: &str) -> Vec<String> {
    let found = server.xrpc(query).await;
    let records =
        found.body["records"].as_array().unwrap_or_else(|| panic!("{query}: {}", found.text)).clone();
    let rkey = |record: &Value| record["uri"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    records.iter().map(rkey).collect()
}

async fn wait_for_invalid(server: &Instance, count: u64) {
    let what = format!("{count} records are invalid");
    server
        .eventually(&what, async |server| {
            let stats = server.admin(Method::GET, "/admin/stats", None).await.body;
            stats["collections"][0]["invalid"] == count
        })
        .await;
}

/// The record lexicon of notes, with another schema of `text`.
fn notes_with(text: Value) -> Value {
    let mut lexicon = record_lexicon(NOTES);
    lexicon["defs"]["main"]["record"]["properties"]["text"] = text;
    lexicon
}

/// A world in which `good` is valid and `bad` is not.
async fn with_two(world: World) -> World {
    let mut world = world.with_notes().await;
    world.note(ALICE, "good", json!({ "text": "one" })).await;
    world.note(BOB, "bad", json!({ "text": 2 })).await;
    world
}

crate::in_both_worlds!(
    are_stored_flagged_and_counted,
    have_a_key_that_their_lexicon_allows,
    of_a_backfill_have_keys_that_are_checked_too,
    are_chosen_by_lists_scripts_and_sql,
    are_judged_again_when_their_lexicon_changes,
    are_judged_again_when_a_lexicon_that_theirs_refers_to_changes,
    are_told_from_valid_ones_through_named_definitions,
    of_before_the_server_validated_are_judged_at_the_start
);

async fn are_stored_flagged_and_counted(mut world: World) {
    world = with_two(world).await;
    let server = &world.server;
    assert_eq!(shown(server, "").await, [("bad".to_owned(), false), ("good".to_owned(), true)]);
    let bad =
        server.admin(Method::GET, &format!("/admin/records?collection={NOTES}&valid=false"), None).await;
    let bad = &bad.body["records"][0];
    assert_eq!(bad["record"]["text"], 2);
    assert!(bad["invalid_reason"].as_str().unwrap().contains("record.text"), "{bad}");
    assert_eq!(shown(server, "&valid=true").await, [("good".to_owned(), true)]);
    let stats = server.admin(Method::GET, "/admin/stats", None).await.body;
    assert_eq!(stats["collections"][0], json!({ "collection": NOTES, "count": 2, "invalid": 1 }));
    // The author's next version is valid.
    world.note(BOB, "bad", json!({ "text": "two" })).await;
    wait_for_invalid(&world.server, 0).await;
    let all = [("bad".to_owned(), true), ("good".to_owned(), true)];
    assert_eq!(shown(&world.server, "").await, all);
}

async fn have_a_key_that_their_lexicon_allows(mut world: World) {
    world = world.with_notes().await;
    world.note(ALICE, "self", json!({ "text": "one" })).await;
    world.note(ALICE, "3jzfcijpj2z2a", json!({ "text": "two" })).await;
    world.note(ALICE, "com.example.key", json!({ "text": "three" })).await;
    // The key types in turn: stored records are judged again, and so are new ones when they arrive.
    for (key, allowed) in [("tid", "3jzfcijpj2z2a"), ("nsid", "com.example.key"), ("literal:self", "self")] {
        world.server.upload(keyed_lexicon(NOTES, key), None).await;
        world
            .server
            .eventually(&format!("{key} allows {allowed} alone"), async |server| {
                let valid = shown(server, "&valid=true").await;
                valid == [(allowed.to_owned(), true)] && shown(server, "&valid=false").await.len() == 2
            })
            .await;
    }
    let late = world.note(ALICE, "late", json!({ "text": "four" })).await;
    let found = world
        .server
        .admin(Method::GET, &format!("/admin/records?collection={NOTES}&valid=false"), None)
        .await;
    let record = &found.body["records"][0];
    assert_eq!(record["uri"], late);
    let reason = "the record key is \"late\", and records of this collection have the key \"self\"";
    assert_eq!(record["invalid_reason"], reason);
    world.server.upload(keyed_lexicon(NOTES, "any"), None).await;
    wait_for_invalid(&world.server, 0).await;
}

async fn of_a_backfill_have_keys_that_are_checked_too(world: World) {
    world.repo(ALICE, &["self", "3jzfcijpj2z2a"]);
    let body = json!({ "lexicon_json": keyed_lexicon(NOTES, "tid"), "backfill": true });
    assert!(world.server.admin(Method::POST, "/admin/lexicons", Some(&body)).await.status.is_success());
    world.server.eventually("both are indexed", async |server| shown(server, "").await.len() == 2).await;
    assert_eq!(shown(&world.server, "&valid=false").await, [("self".to_owned(), false)]);
}

async fn are_chosen_by_lists_scripts_and_sql(mut world: World) {
    world = with_two(world).await;
    let server = &world.server;
    assert_eq!(listed(server, LIST).await, ["bad", "good"]);
    assert_eq!(listed(server, &format!("{LIST}?valid=true")).await, ["good"]);
    assert_eq!(listed(server, &format!("{LIST}?valid=false")).await, ["bad"]);
    assert_eq!(listed(server, &format!("{LIST}?valid=true&did={BOB}")).await, Vec::<String>::new());
    for path in [format!("/xrpc/{LIST}?valid=yes"), format!("/admin/records?collection={NOTES}&valid=1")] {
        let key = format!("Bearer {}", server.admin_key);
        let headers = [("x-client-key", server.client_key.as_str()), ("authorization", &key)];
        let headers = if path.starts_with("/admin") { &headers[1..] } else { &headers[..1] };
        let refused = server.request(Method::GET, &path, headers, None).await;
        assert_eq!((refused.status.as_u16(), refused.error()), (400, "valid must be true or false"));
    }
    let scripted = "com.example.scripted";
    server.upload(query_lexicon(scripted), Some(NOTES)).await;
    server
        .bind(
            scripted,
            "function handle() return db.query{collection = collection, valid = params.valid} end",
        )
        .await;
    assert_eq!(listed(server, scripted).await, ["bad", "good"]);
    assert_eq!(listed(server, &format!("{scripted}?valid=true")).await, ["good"]);
    assert_eq!(listed(server, &format!("{scripted}?valid=false")).await, ["bad"]);
    let sql = "com.example.sql";
    server.upload(query_lexicon(sql), None).await;
    let source = "function handle() return { records = toarray((db.raw('SELECT uri FROM records WHERE NOT valid'))) } end";
    server.bind(sql, source).await;
    assert_eq!(listed(server, sql).await, ["bad"]);
}

async fn are_judged_again_when_their_lexicon_changes(mut world: World) {
    world = with_two(world).await;
    world.server.upload(notes_with(json!({ "type": "integer" })), None).await;
    world
        .server
        .eventually("the verdicts are exchanged", async |server| {
            shown(server, "").await == [("bad".to_owned(), true), ("good".to_owned(), false)]
        })
        .await;
    let path = "/admin/events?event_type=lexicon.invalidates_records";
    world
        .server
        .eventually("the change is reported", async |server| {
            server.admin(Method::GET, path, None).await.body["events"]
                .as_array()
                .is_some_and(|events| !events.is_empty())
        })
        .await;
    let events = world.server.admin(Method::GET, path, None).await.body["events"].clone();
    let reason = "at record.text: expected integer, got string";
    let detail = json!({ "checked": 2, "invalidated": 1, "reason": reason });
    assert_eq!((&events[0]["subject"], &events[0]["detail"]), (&json!(NOTES), &detail), "{events}");
    assert_eq!(events.as_array().unwrap().len(), 1);
    world.server.upload(notes_with(json!({ "type": "boolean" })), None).await;
    wait_for_invalid(&world.server, 2).await;
    assert_eq!(world.server.stop(), Some(0));
    world.server.start_again().await;
    assert_eq!(shown(&world.server, "&valid=false").await.len(), 2);
    world.server.upload(notes_with(json!({ "type": "string", "maxLength": 10 })), None).await;
    wait_for_invalid(&world.server, 1).await;
}

async fn are_judged_again_when_a_lexicon_that_theirs_refers_to_changes(mut world: World) {
    let definition = |minimum: i64| {
        json!({ "lexicon": 1, "id": "com.example.defs", "defs": {
            "part": { "type": "object", "properties": { "n": { "type": "integer", "minimum": minimum } } } } })
    };
    world.server.upload(notes_with(json!({ "type": "ref", "ref": "com.example.defs#part" })), None).await;
    world.server.upload(query_lexicon(LIST), Some(NOTES)).await;
    world.wait_for_stream_of(NOTES).await;
    world.note(ALICE, "small", json!({ "text": { "n": 1 } })).await;
    world.note(ALICE, "large", json!({ "text": { "n": 9 } })).await;
    wait_for_invalid(&world.server, 0).await;
    world.server.upload(definition(5), None).await;
    wait_for_invalid(&world.server, 1).await;
    assert_eq!(shown(&world.server, "&valid=false").await, [("small".to_owned(), false)]);
    world.server.upload(definition(0), None).await;
    wait_for_invalid(&world.server, 0).await;
}

async fn are_told_from_valid_ones_through_named_definitions(mut world: World) {
    let mut lexicon = notes_with(json!({ "type": "ref", "ref": "#parts" }));
    lexicon["defs"]["parts"] =
        json!({ "type": "array", "maxLength": 2, "items": { "type": "ref", "ref": "#part" } });
    lexicon["defs"]["part"] = json!({ "type": "union", "refs": ["#name", "#image"], "closed": true });
    lexicon["defs"]["name"] =
        json!({ "type": "object", "properties": { "at": { "type": "ref", "ref": "#day" } } });
    lexicon["defs"]["day"] = json!({ "type": "string", "format": "datetime" });
    lexicon["defs"]["image"] =
        json!({ "type": "object", "properties": { "file": { "type": "ref", "ref": "#file" } } });
    lexicon["defs"]["file"] = json!({ "type": "blob", "maxSize": 10 });
    world.server.upload(lexicon, None).await;
    world.server.upload(query_lexicon(LIST), Some(NOTES)).await;
    world.wait_for_stream_of(NOTES).await;
    let name = |day: &str| json!({ "$type": "com.example.note#name", "at": day });
    let file = |size: u64| {
        json!({ "$type": "com.example.note#image", "file": {
            "$type": "blob", "ref": { "$link": BLOB }, "mimeType": "a/b", "size": size } })
    };
    let legacy = json!({ "$type": "com.example.note#image", "file": { "cid": BLOB, "mimeType": "a/b" } });
    let day = "2026-02-28T00:00:00Z";
    world.note(ALICE, "good", json!({ "text": [name(day), file(10)] })).await;
    world.note(ALICE, "legacy", json!({ "text": [legacy] })).await;
    world.note(ALICE, "text", json!({ "text": "none" })).await;
    world.note(ALICE, "many", json!({ "text": [name(day), name(day), name(day)] })).await;
    world.note(ALICE, "day", json!({ "text": [name("2026-02-30T00:00:00Z")] })).await;
    world.note(ALICE, "large", json!({ "text": [file(10), file(11)] })).await;
    world.note(ALICE, "local", json!({ "text": [{ "$type": "#name" }] })).await;
    wait_for_invalid(&world.server, 5).await;
    let valid = [("legacy".to_owned(), true), ("good".to_owned(), true)];
    assert_eq!(shown(&world.server, "&valid=true").await, valid);
    let path = format!("/admin/records?collection={NOTES}&valid=false");
    let invalid = world.server.admin(Method::GET, &path, None).await.body;
    let reasons: Vec<&str> = invalid["records"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["invalid_reason"].as_str().unwrap())
        .collect();
    assert_eq!(
        reasons,
        [
            "at record.text[0].$type: \"#name\" is not an NSID, or an NSID with #name",
            "at record.text[1].file: blob too large: max 10 bytes, got 11",
            "at record.text[0].at: invalid datetime: \"2026-02-30T00:00:00Z\"",
            "at record.text: array too long: max 2 items, got 3",
            "at record.text: expected array, got string",
        ]
    );
}

async fn of_before_the_server_validated_are_judged_at_the_start(mut world: World) {
    world = with_two(world).await;
    world.server.stop();
    world.execute("DELETE FROM invalid_records; DELETE FROM validations").await;
    world.server.start_again().await;
    wait_for_invalid(&world.server, 1).await;
}
