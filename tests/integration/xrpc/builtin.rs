//! `GET /xrpc/{nsid}` without a script.

use crate::fixtures::World;
use belvedere_protocol::crypto::Algorithm;
use belvedere_standins::jetstream::{Frame, Place};
use serde_json::json;

use crate::fixtures::{ALICE, BOB, LIST, NOTES};
use crate::support::instance::query_lexicon;

crate::in_both_worlds!(
    the_domain_of_a_method_has_no_letter_case,
    records_are_listed_in_pages_and_by_author,
    one_record_is_returned_by_its_uri,
    a_deleted_record_is_gone_and_an_update_keeps_its_place,
    accounts_are_hidden_restored_and_purged,
    blobs_get_a_url_if_their_authors_pds_is_known,
    a_query_without_a_target_is_empty,
    bad_input_is_a_clear_error
);

async fn the_domain_of_a_method_has_no_letter_case(mut world: World) {
    world = world.with_notes().await;
    let (domain, name) = LIST.rsplit_once('.').unwrap();
    let upper = world.server.xrpc(&format!("{}.{name}", domain.to_uppercase())).await;
    assert_eq!((upper.status.as_u16(), &upper.body), (200, &json!({ "records": [] })), "{}", upper.text);
    let malformed = world.server.xrpc("no-method").await;
    assert_eq!((malformed.status.as_u16(), malformed.error()), (404, "method not found"));
}

async fn records_are_listed_in_pages_and_by_author(mut world: World) {
    world = world.with_notes().await;
    for n in 0..5 {
        let author = if n % 2 == 0 { ALICE } else { BOB };
        world.note(author, &format!("n{n}"), json!({ "text": format!("note {n}") })).await;
    }
    let server = &world.server;
    let page = server.xrpc(&format!("{LIST}?limit=2")).await;
    assert_eq!(page.status, 200);
    assert_eq!(page.headers["content-type"], "application/json");
    assert_eq!(page.body["records"][0]["text"], "note 4");
    assert_eq!(page.body["records"][0]["uri"], format!("at://{ALICE}/{NOTES}/n4"));
    assert_eq!(page.body["records"][0]["$type"], NOTES);

    // A record that is indexed in the meantime does not shift the pages.
    let cursor = page.body["cursor"].as_str().unwrap().to_owned();
    world.note(BOB, "late", json!({ "text": "late" })).await;
    let server = &world.server;
    let texts = |answer: &crate::support::instance::Answer| -> Vec<String> {
        let records = answer.body["records"].as_array().unwrap();
        records.iter().map(|r| r["text"].as_str().unwrap().to_owned()).collect()
    };
    let page = server.xrpc(&format!("{LIST}?limit=2&cursor={cursor}")).await;
    assert_eq!(texts(&page), ["note 2", "note 1"]);
    let cursor = page.body["cursor"].as_str().unwrap().to_owned();
    let page = server.xrpc(&format!("{LIST}?limit=2&cursor={cursor}")).await;
    assert_eq!(texts(&page), ["note 0"]);
    assert!(page.body.get("cursor").is_none());

    let by_bob = server.xrpc(&format!("{LIST}?did={BOB}")).await;
    assert_eq!(texts(&by_bob), ["late", "note 3", "note 1"]);
    let exact = server.xrpc(&format!("{LIST}?limit=6")).await;
    assert!(exact.body.get("cursor").is_none(), "a full page with nothing after it has no cursor");
}

async fn one_record_is_returned_by_its_uri(mut world: World) {
    world = world.with_notes().await;
    let uri =
        world.note(ALICE, "a", json!({ "text": "hi", "uri": "its own", "n": { "deep": [1, null] } })).await;
    let server = &world.server;
    let answer = server.xrpc(&format!("{LIST}?uri={uri}")).await;
    assert_eq!(
        answer.body,
        json!({ "record":
            { "uri": uri, "$type": NOTES, "text": "hi", "n": { "deep": [1, null] } } })
    );
    let missing = server.xrpc(&format!("{LIST}?uri=at://{ALICE}/{NOTES}/missing")).await;
    assert_eq!((missing.status.as_u16(), missing.error()), (404, "record not found"));
    let elsewhere = server.xrpc(&format!("{LIST}?uri=at://{ALICE}/com.example.other/a")).await;
    assert_eq!(elsewhere.status, 404, "a query shows its own collection");
}

async fn a_deleted_record_is_gone_and_an_update_keeps_its_place(mut world: World) {
    world = world.with_notes().await;
    world.note(ALICE, "a", json!({ "text": "one" })).await;
    world.note(ALICE, "b", json!({ "text": "two" })).await;
    let record = json!({ "$type": NOTES, "text": "changed" });
    world.push(|at, rev| Frame::update(at, Place { did: ALICE, collection: NOTES, rkey: "a", rev }, &record));
    let server = &world.server;
    server
        .eventually("the update", async |server| {
            server.xrpc(LIST).await.body["records"][1]["text"] == "changed"
        })
        .await;
    world.delete_note(ALICE, "b").await;
    assert_eq!(world.server.xrpc(LIST).await.body["records"].as_array().unwrap().len(), 1);
}

async fn accounts_are_hidden_restored_and_purged(mut world: World) {
    world = world.with_notes().await;
    world.note(ALICE, "a", json!({ "text": "alice" })).await;
    world.note(BOB, "b", json!({ "text": "bob" })).await;
    let uri = format!("at://{ALICE}/{NOTES}/a");
    for status in ["deactivated", "takendown", "suspended"] {
        world.account(ALICE, Some(status));
        world.wait_for(&uri, false).await;
        assert_eq!(world.server.xrpc(LIST).await.body["records"].as_array().unwrap().len(), 1, "{status}");
        world.account(ALICE, None);
        world.wait_for(&uri, true).await;
    }
    world.account(ALICE, Some("deleted"));
    world.wait_for(&uri, false).await;
    world.account(ALICE, None);
    world.note(BOB, "later", json!({ "text": "after the account events" })).await;
    assert_eq!(world.server.xrpc(&format!("{LIST}?uri={uri}")).await.status, 404, "purged, not hidden");
    assert_eq!(world.server.records().await, 2);
}

async fn blobs_get_a_url_if_their_authors_pds_is_known(mut world: World) {
    world = world.with_notes().await;
    world.plc.person(ALICE, Algorithm::Es256k);
    let cid = "bafkreibme22gw2h7y2h7tg2fhqotaqjucnbc24deqo72b6mkl2egezxhvy";
    let picture = json!({ "$type": "blob", "ref": { "$link": cid }, "mimeType": "image/png", "size": 5 });
    world.note(ALICE, "a", json!({ "picture": picture })).await;
    world.note(BOB, "b", json!({ "picture": picture })).await;
    let page = world.server.xrpc(LIST).await;
    let records = &page.body["records"];
    let url = records[1]["picture"]["url"].as_str().expect("alice is known");
    assert!(url.ends_with(&format!("/xrpc/com.atproto.sync.getBlob?did={ALICE}&cid={cid}")), "{url}");
    assert_eq!(records[0]["picture"], picture, "bob's PDS is unknown, so his record is returned unchanged");
    let one = world.server.xrpc(&format!("{LIST}?uri=at://{ALICE}/{NOTES}/a")).await;
    assert_eq!(one.body["record"]["picture"]["url"], url);
}

async fn a_query_without_a_target_is_empty(world: World) {
    world.server.upload(query_lexicon(LIST), None).await;
    let answer = world.server.xrpc(LIST).await;
    assert_eq!((answer.status.as_u16(), answer.body), (200, json!({ "records": [] })));
}

async fn bad_input_is_a_clear_error(world: World) {
    let world = world.with_notes().await;
    for query in [
        "limit=ten",
        "limit=",
        "cursor=%21",
        "cursor=AAAA",
        "did=alice",
        "uri=",
        "uri=at://alice.test/com.example.note/a",
        "uri=at://did:plc:abc/com.example.note",
        "uri=at://did:plc:abc/space/a.b.c/main/did:plc:def/com.example.note/a",
    ] {
        let answer = world.server.xrpc(&format!("{LIST}?{query}")).await;
        assert_eq!(answer.status, 400, "{query}: {}", answer.text);
        assert!(!answer.error().is_empty());
    }
    for limit in ["0", "-3", "100000"] {
        assert_eq!(world.server.xrpc(&format!("{LIST}?limit={limit}")).await.status, 200, "clamped");
    }
    for method in ["com.example.unknown", NOTES, "nodots", "com.example.UPPER.9"] {
        let answer = world.server.xrpc(method).await;
        assert_eq!((answer.status.as_u16(), answer.error()), (404, "method not found"), "{method}");
    }
}
