//! Trees: a record with its replies, level by level.

use serde_json::json;

use super::*;

crate::in_both_worlds!(a_thread_is_nested_and_bounded, a_thread_has_a_thousand_replies, circles_end);

fn thread(limit: u32) -> Value {
    json!({
        "view": 1,
        "from": { "tree": "$uri", "collection": POSTS, "path": "reply.parent.uri", "depth": "$depth", "limit": limit },
        "with": { "author": { "profile": "did", "output": "@field:displayName" } },
        "output": { "thread": { "key": "@rkey", "author": "@author", "replies": "@children" } }
    })
}

fn parameters() -> Value {
    json!({ "uri": { "type": "string" }, "depth": { "type": "integer" } })
}

async fn a_thread_is_nested_and_bounded(world: World) {
    let world = social(world).await;
    serve(&world, parameters(), thread(100)).await;
    let root = format!("uri={}", uri(ALICE, "a1"));
    let below = json!([{ "key": "c1", "replies": [] }]);
    let whole = json!({ "thread": { "key": "a1", "author": "Alice", "replies": [
        { "key": "b1", "author": "Bob", "replies": below }] } });
    assert_eq!(body(&world, &root).await, whole);
    assert_eq!(body(&world, &format!("{root}&depth=1000")).await, whole);
    assert_eq!(body(&world, &format!("{root}&depth=0")).await["thread"]["replies"], json!([]));
    let one = body(&world, &format!("{root}&depth=1")).await;
    assert_eq!(one["thread"]["replies"][0]["replies"], json!([]));
    assert_eq!(call(&world, &format!("uri={}", uri(ALICE, "none"))).await.status, 404);
    serve(&world, parameters(), thread(2)).await;
    assert_eq!(
        body(&world, &root).await["thread"]["replies"][0]["replies"],
        json!([]),
        "two records of the tree"
    );
}

async fn a_thread_has_a_thousand_replies(mut world: World) {
    world = social(world).await;
    let reply = |to: Value, text: String| json!({ "$type": POSTS, "text": text, "reply": { "parent": to } });
    let below = |n: u32| if n < 1_000 { reference(ALICE, "a2") } else { reference(BOB, "r0007") };
    let replies = (0..1_010_u32).map(|n| (BOB, format!("r{n:04}"), reply(below(n), "x".repeat(200))));
    put_all(&mut world, POSTS, replies).await;
    let root = format!("uri={}", uri(ALICE, "a2"));
    let keys = |level: &Value| -> Vec<String> {
        level.as_array().unwrap().iter().map(|row| row["key"].as_str().unwrap().to_owned()).collect()
    };
    serve(&world, parameters(), thread(1_000)).await;
    let whole = body(&world, &root).await["thread"]["replies"].take();
    let oldest = (0..999).map(|n| format!("r{n:04}")).collect::<Vec<_>>();
    assert_eq!(keys(&whole), oldest, "the limit includes the root, and the oldest replies are first");
    assert_eq!(whole[998]["author"], "Bob");
    serve(&world, parameters(), thread(300)).await;
    assert_eq!(keys(&body(&world, &root).await["thread"]["replies"]), oldest[..299]);
    // Another level begins below the records that are there.
    let few = format!("uri={}", uri(BOB, "r0007"));
    let found = body(&world, &few).await;
    assert_eq!(keys(&found["thread"]["replies"]).len(), 10);

    let large = (0..300).map(|n| (BOB, format!("s{n:04}"), reply(reference(BOB, "b1"), "y".repeat(9_000))));
    put_all(&mut world, POSTS, large).await;
    serve(&world, parameters(), thread(1_000)).await;
    let cut = body(&world, &format!("uri={}", uri(BOB, "b1"))).await["thread"]["replies"].take();
    let count = keys(&cut).len();
    assert!((200..240).contains(&count), "2 MiB of records: {count}");
    assert_eq!(keys(&cut)[..2], ["c1", "s0000"]);
}

async fn circles_end(mut world: World) {
    world = social(world).await;
    let reply = |rkey: &str| json!({ "$type": POSTS, "reply": { "parent": reference(BOB, rkey) } });
    put(
        &mut world,
        vec![(BOB, POSTS, "x", reply("y")), (BOB, POSTS, "y", reply("x")), (BOB, POSTS, "z", reply("z"))],
    )
    .await;
    serve(&world, parameters(), thread(100)).await;
    let found = body(&world, &format!("uri={}&depth=20", uri(BOB, "x"))).await;
    assert_eq!(found["thread"]["replies"], json!([{ "key": "y", "author": "Bob", "replies": [] }]));
    let own = body(&world, &format!("uri={}", uri(BOB, "z"))).await;
    assert_eq!(own["thread"]["replies"], json!([]));
}
