//! Groups: numbers of records by values of theirs, with additions.

use serde_json::json;

use super::*;
use crate::xrpc::plays::PLAYED;

const PLAYS: &str = "com.example.play";

crate::in_both_worlds!(
    case_15_top_artists_of_a_year,
    case_16_top_tracks_by_title_and_artist,
    case_17_plays_per_month,
    groups_have_additions_about_their_values,
    groups_are_explained_and_refused
);

async fn with_plays(mut world: World) -> World {
    world.server.upload(record_lexicon(PLAYS), None).await;
    world.wait_for_stream_of(PLAYS).await;
    let plays = PLAYED.into_iter().enumerate().map(|(n, (listener, at, artists, title))| {
        let play = json!({ "$type": PLAYS, "playedAt": at, "artists": artists, "title": title });
        (listener, format!("p{n}"), play)
    });
    put_all(&mut world, PLAYS, plays).await;
    world
}

async fn case_15_top_artists_of_a_year(world: World) {
    let world = with_plays(world).await;
    let string = json!({ "type": "string" });
    let parameters =
        json!({ "listener": string, "from": string, "until": string, "top": { "type": "integer" } });
    let view = json!({
        "view": 1, "from": PLAYS,
        "where": { "did": "$listener", "playedAt": { "gte": "$from", "lt": "$until" } },
        "group": { "by": ["artists"], "limit": "$top" },
        "output": { "feed": [{ "artists": "@field:artists", "plays": "@count" }] }
    });
    serve(&world, parameters, view).await;
    let row = |artists: &[&str], plays: u32| json!({ "artists": artists, "plays": plays });
    let year = format!("listener={ALICE}&from=2026&until=2027");
    assert_eq!(
        body(&world, &format!("{year}&top=10")).await["feed"],
        json!([row(&["Nina"], 2), row(&["Nina", "Ola"], 1), row(&["Ola"], 1)])
    );
    assert_eq!(body(&world, &format!("{year}&top=1")).await["feed"], json!([row(&["Nina"], 2)]));
    assert_eq!(column(&body(&world, "").await, "plays"), [4, 3, 1], "all listeners, of all years");
    assert_eq!(body(&world, &format!("listener={CAROL}")).await["feed"], json!([]));
}

async fn case_16_top_tracks_by_title_and_artist(world: World) {
    let world = with_plays(world).await;
    let view = json!({
        "view": 1, "from": PLAYS, "group": { "by": ["title", "artists[0]"], "limit": 2 },
        "output": { "feed": [{ "title": "@field:title", "artist": "@field:artists[0]", "plays": "@count" }] }
    });
    serve(&world, json!({}), view).await;
    assert_eq!(
        body(&world, "").await["feed"],
        json!([{ "title": "Sea", "artist": "Nina", "plays": 3 }, { "title": "Sea", "artist": "Ola", "plays": 2 }])
    );
}

async fn case_17_plays_per_month(world: World) {
    let world = with_plays(world).await;
    let view = json!({
        "view": 1, "from": PLAYS, "group": { "by": [{ "month": "playedAt" }], "order": ["playedAt"] },
        "output": { "feed": [{ "month": "@field:playedAt", "plays": "@count" }] }
    });
    serve(&world, json!({}), view).await;
    let month = |month: &str, plays: u32| json!({ "month": month, "plays": plays });
    let unknown = json!({ "plays": 1 });
    assert_eq!(
        body(&world, "").await["feed"],
        json!([month("2026-01", 3), month("2026-02", 1), month("2026-03", 3), unknown])
    );
}

async fn groups_have_additions_about_their_values(world: World) {
    let world = social(world).await;
    let carol = person(&world, CAROL);
    // The most liked posts, with the posts, and whether the viewer likes them.
    let view = json!({
        "view": 1, "from": LIKES, "group": { "by": ["subject.uri"] },
        "with": {
            "post": { "follow": "subject.uri", "with": { "author": { "profile": "did", "output": "@field:displayName" } },
                "output": { "key": "@rkey", "by": "@author" } },
            "mine": { "mine": LIKES, "path": "subject.uri", "to": "subject.uri" }
        },
        "output": { "feed": [{ "likes": "@count", "post": "@post", "mine": "@mine" }] }
    });
    serve(&world, json!({}), view.clone()).await;
    let like = |key: &str| format!("at://{CAROL}/{LIKES}/{key}");
    let (a1, b1) = (json!({ "key": "a1", "by": "Alice" }), json!({ "key": "b1", "by": "Bob" }));
    assert_eq!(
        body_for(&world, &carol, "").await["feed"],
        json!([
            { "likes": 2, "post": a1, "mine": like("l2") },
            { "likes": 1, "post": b1, "mine": like("l3") }
        ])
    );
    let mut hiding = view;
    hiding["hide"] = json!([format!("viewer:{BLOCKS}")]);
    serve(&world, json!({}), hiding).await;
    assert_eq!(
        body_for(&world, &carol, "").await["feed"],
        json!([{ "likes": 1, "post": a1, "mine": like("l2") }, { "likes": 1, "mine": like("l3") }]),
        "Bob's likes and posts are hidden"
    );
    // The most active accounts.
    let by_author = json!({
        "view": 1, "from": POSTS, "group": { "by": ["did"], "order": ["-count", "did"], "limit": 2 },
        "with": { "author": { "profile": "did", "output": "@field:displayName" },
            "latest": { "list": POSTS, "of": "did", "limit": 1, "output": "@rkey" } },
        "output": { "feed": [{ "did": "@did", "posts": "@count", "name": "@author", "latest": "@latest" }] }
    });
    serve(&world, json!({}), by_author).await;
    assert_eq!(
        body(&world, "").await["feed"],
        json!([
            { "did": ALICE, "posts": 2, "name": "Alice", "latest": ["a2"] },
            { "did": BOB, "posts": 1, "name": "Bob", "latest": ["b1"] }
        ])
    );
    let by_time = json!({
        "view": 1, "from": POSTS, "group": { "by": [{ "day": "indexedAt" }] },
        "output": { "feed": [{ "day": "@indexedAt", "posts": "@count" }] }
    });
    serve(&world, json!({}), by_time).await;
    let days = body(&world, "").await;
    assert!(column(&days, "day").iter().all(|day| day.as_str().unwrap().len() == 10), "{days}");
}

async fn groups_are_explained_and_refused(world: World) {
    let world = with_plays(world).await;
    let view = json!({
        "view": 1, "from": PLAYS, "where": { "title": "Sea" }, "group": { "by": ["title"] },
        "output": { "feed": ["@count"] }
    });
    serve(&world, json!({}), view.clone()).await;
    let body = json!({ "id": format!("xrpc.view:{METHOD}") });
    let explained = world.server.admin(Method::POST, "/admin/scripts/explain", Some(&body)).await;
    let step = &explained.body["steps"][0];
    assert_eq!(step["name"], "group", "{}", explained.text);
    assert!(step["reads"].as_str().unwrap().contains("counted by title"), "{}", explained.text);
    assert!(step["indexes"][0].as_str().unwrap().starts_with("filter of title"), "{}", explained.text);
    let mut wrong = view;
    wrong["output"] = json!({ "feed": ["@uri"], "cursor": "@cursor" });
    let refused = store(&world, &wrong).await;
    assert_eq!(refused.status, 400);
    assert!(refused.error().contains("output.cursor: groups have no cursor"), "{}", refused.text);
    assert!(refused.error().contains("output.feed[0]: @uri is neither @count"), "{}", refused.text);
}
