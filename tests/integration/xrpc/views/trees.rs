//! Trees: a record with its replies, level by level.

use serde_json::json;

use super::*;

crate::in_both_worlds!(a_thread_is_nested_and_bounded, circles_end);

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
