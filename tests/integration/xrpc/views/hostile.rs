//! Hostile records, which must not break the answers to other accounts.

use serde_json::json;

use super::*;

crate::in_both_worlds!(
    invalid_records_are_left_out,
    large_records_are_added_to_no_row,
    a_record_that_all_rows_show_is_left_out_at_some_point,
    references_to_other_collections_are_left_out,
    a_self_label_has_a_time
);

/// Replies of Bob to Alice's first post, as additions of a feed.
fn with_replies() -> Value {
    json!({
        "view": 1, "from": POSTS, "where": { "did": "$author" },
        "with": {
            "last": { "list": POSTS, "path": "reply.parent.uri", "output": { "key": "@rkey" } },
            "above": { "follow": "reply.parent.uri", "output": { "key": "@rkey" } },
            "author": { "profile": "did", "output": { "text": "@field:text" } }
        },
        "output": { "feed": [{ "key": "@rkey", "last": "@last", "above": "@above", "author": "@author" }], "cursor": "@cursor" }
    })
}

fn by_author() -> Value {
    paged(json!({ "author": { "type": "string", "format": "at-identifier" } }))
}

fn reply(text: Value, to: Value) -> Value {
    json!({ "$type": POSTS, "text": text, "reply": { "parent": to }, "createdAt": "2026-01-09T00:00:00Z" })
}

/// The feeds of Alice and Bob, and the thread of Alice's first post, have a reply or leave it out.
async fn assert_shown(world: &World, reply: &str, shown: [bool; 3]) {
    serve(world, by_author(), with_replies()).await;
    let of_bob = body(world, &format!("author={BOB}")).await;
    let of_alice = body(world, &format!("author={ALICE}")).await;
    let last = column(&of_alice, "last");
    let tree = json!({
        "view": 1, "from": { "tree": "$uri", "collection": POSTS, "path": "reply.parent.uri" },
        "output": { "thread": { "key": "@rkey", "replies": "@children" } }
    });
    serve(world, json!({ "uri": { "type": "string" } }), tree).await;
    let thread = body(world, &format!("uri={}", uri(ALICE, "a1"))).await;
    let has = |value: &Value| value.to_string().contains(&format!("\"{reply}\""));
    assert_eq!(
        [has(&column(&of_bob, "key").into()), has(&last.into()), has(&thread)],
        shown,
        "{reply}: {of_bob} {of_alice} {thread}"
    );
}

async fn invalid_records_are_left_out(mut world: World) {
    world = social(world).await;
    let bad = reply(json!(5), reference(ALICE, "a1"));
    let to_bad = reply(json!("to bad"), reference(BOB, "bad"));
    let profile = json!({ "$type": PROFILES, "text": 5 });
    put(
        &mut world,
        vec![(BOB, POSTS, "bad", bad), (CAROL, POSTS, "c9", to_bad), (CAROL, PROFILES, "self", profile)],
    )
    .await;
    assert_shown(&world, "bad", [false; 3]).await;
    serve(&world, by_author(), with_replies()).await;
    let of_carol = body(&world, &format!("author={CAROL}")).await;
    let newest = &of_carol["feed"][0];
    assert_eq!(
        (newest["key"].as_str(), newest.get("above"), &newest["author"]),
        (Some("c9"), None, &json!({}))
    );
}

async fn large_records_are_added_to_no_row(mut world: World) {
    world = social(world).await;
    let large = reply("x".repeat(70 << 10).into(), reference(ALICE, "a1"));
    let fitting = reply("y".repeat(60 << 10).into(), reference(ALICE, "a1"));
    put(&mut world, vec![(BOB, POSTS, "large", large), (BOB, POSTS, "fits", fitting)]).await;
    assert_shown(&world, "large", [true, false, false]).await;
    assert_shown(&world, "fits", [true; 3]).await;
}

async fn a_record_that_all_rows_show_is_left_out_at_some_point(mut world: World) {
    world = social(world).await;
    let large = json!({ "$type": POSTS, "text": "x".repeat(60 << 10), "createdAt": "2026-01-09T00:00:00Z" });
    put(&mut world, vec![(BOB, POSTS, "large", large)]).await;
    let quotes = (0..100).map(|n| (CAROL, format!("q{n:03}"), reply(json!("q"), reference(BOB, "large"))));
    put_all(&mut world, POSTS, quotes).await;
    let view = json!({
        "view": 1, "from": POSTS, "where": { "did": "$author" }, "with": { "above": { "follow": "reply.parent.uri" } },
        "output": { "feed": [{ "key": "@rkey", "above": "@above" }], "cursor": "@cursor" }
    });
    serve(&world, by_author(), view).await;
    let answer = call(&world, &format!("author={CAROL}&limit=100")).await;
    assert_eq!((answer.status.as_u16(), answer.body["feed"].as_array().unwrap().len()), (200, 100));
    assert!(answer.text.len() < 5 << 20, "{} bytes", answer.text.len());
    assert!(answer.body["feed"][0].get("above").is_some() && answer.body["feed"][99].get("above").is_none());
}

async fn references_to_other_collections_are_left_out(mut world: World) {
    world = social(world).await;
    let like = |of: String| json!({ "$type": LIKES, "subject": { "uri": of, "cid": CID } });
    put(&mut world, vec![(BOB, LIKES, "odd", like(format!("at://{CAROL}/{FOLLOWS}/f1")))]).await;
    let view = json!({
        "view": 1, "from": { "collection": LIKES, "did": { "in": "$actors" } },
        "with": { "post": { "follow": "subject", "collection": POSTS, "output": { "key": "@rkey" } } },
        "output": { "feed": [{ "key": "@rkey", "post": "@post" }], "cursor": "@cursor" }
    });
    serve(&world, paged(json!({ "actors": { "type": "array", "items": { "type": "string" } } })), view).await;
    let found = body(&world, &format!("actors={BOB}")).await;
    assert_eq!(
        found["feed"],
        json!([{ "key": "odd" }, { "key": "l1", "post": { "key": "a1" } }]),
        "the second is of a post"
    );
}

async fn a_self_label_has_a_time(mut world: World) {
    world = social(world).await;
    let labels = json!({ "$type": "com.atproto.label.defs#selfLabels", "values": [{ "val": "porn" }] });
    put(&mut world, vec![(BOB, POSTS, "own", json!({ "$type": POSTS, "text": "x", "labels": labels }))])
        .await;
    let view = json!({ "view": 1, "from": POSTS, "where": { "did": "$author" }, "with": { "labels": { "labels": "uri" } },
        "output": { "feed": [{ "labels": "@labels", "at": "@indexedAt" }], "cursor": "@cursor" } });
    serve(&world, by_author(), view).await;
    let found = body(&world, &format!("author={BOB}&limit=1")).await;
    let row = &found["feed"][0];
    assert_eq!((&row["labels"][0]["val"], &row["labels"][0]["cts"]), (&json!("porn"), &row["at"]));
}
