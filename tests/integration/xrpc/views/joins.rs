//! Additions: authors, counts, the viewer's own records, followed references and lists, each nested.

use serde_json::json;

use super::*;

crate::in_both_worlds!(
    a_feed_has_authors_counts_and_the_last_replies,
    references_are_followed_to_records_of_any_collection,
    the_viewer_sees_their_own_records,
    one_record_has_lists_of_its_account,
    a_gallery_has_its_photos_in_their_order,
    scripts_take_pages_of_views
);

async fn a_feed_has_authors_counts_and_the_last_replies(world: World) {
    let world = social(world).await;
    let author = json!({ "profile": "did", "output": { "name": "@field:displayName", "handle": "@handle", "did": "@did" } });
    let view = json!({
        "view": 1, "from": POSTS, "where": { "reply": { "missing": true } },
        "with": {
            "author": author,
            "likes": { "count": LIKES, "path": "subject.uri" },
            "replies": { "count": POSTS, "path": "reply.parent.uri" },
            "last": { "list": POSTS, "path": "reply.parent.uri", "limit": 3, "with": { "author": author },
                "output": { "key": "@rkey", "author": "@author" } }
        },
        "output": { "feed": [{ "key": "@rkey", "author": "@author", "likes": "@likes", "replies": "@replies", "last": "@last" }],
            "cursor": "@cursor" }
    });
    serve(&world, paged(json!({})), view).await;
    let name = |name: &str, did: &str| json!({ "name": name, "handle": "handle.invalid", "did": did });
    assert_eq!(
        body(&world, "").await,
        json!({ "feed": [
            { "key": "a2", "author": name("Alice", ALICE), "likes": 0, "replies": 0, "last": [] },
            { "key": "a1", "author": name("Alice", ALICE), "likes": 2, "replies": 1,
                "last": [{ "key": "b1", "author": name("Bob", BOB) }] }
        ] })
    );
}

async fn references_are_followed_to_records_of_any_collection(world: World) {
    let world = social(world).await;
    let view = json!({
        "view": 1, "from": LIKES, "where": { "did": "$actor" }, "order": ["indexedAt"],
        "with": { "item": { "follow": "subject", "with": {
            "author": { "profile": "did" }, "above": { "follow": "reply.parent.uri" } } } },
        "output": { "feed": ["@item"], "cursor": "@cursor" }
    });
    serve(&world, paged(json!({ "actor": { "type": "string" } })), view).await;
    let found = body(&world, &format!("actor={CAROL}")).await;
    assert_eq!(column(&found, "uri"), [uri(ALICE, "a1"), uri(BOB, "b1")]);
    assert_eq!(found["feed"][0]["record"]["text"], "one word");
    assert_eq!(found["feed"][0]["author"]["displayName"], "Alice");
    assert_eq!(found["feed"][1]["above"]["uri"], uri(ALICE, "a1"));
    assert!(found["feed"][0].get("above").is_none(), "a row without the record lacks the property: {found}");
}

async fn the_viewer_sees_their_own_records(world: World) {
    let world = social(world).await;
    let carol = person(&world, CAROL);
    let view = json!({
        "view": 1, "from": POSTS,
        "with": {
            "viewer.like": { "mine": LIKES, "path": "subject.uri" },
            "viewer.follows": { "mine": FOLLOWS, "path": "subject", "to": "did" }
        },
        "output": { "feed": [{ "key": "@rkey", "viewer": "@viewer" }], "cursor": "@cursor" }
    });
    serve(&world, paged(json!({})), view).await;
    let (like, follow) = (format!("at://{CAROL}/{LIKES}/"), format!("at://{CAROL}/{FOLLOWS}/f1"));
    assert_eq!(
        column(&body_for(&world, &carol, "").await, "viewer"),
        [
            json!({}),
            json!({ "follows": follow }),
            json!({ "like": format!("{like}l3") }),
            json!({ "like": format!("{like}l2"), "follows": follow })
        ]
    );
    assert_eq!(column(&body(&world, "").await, "viewer"), [json!({}), json!({}), json!({}), json!({})]);
}

async fn one_record_has_lists_of_its_account(world: World) {
    let world = social(world).await;
    let view = json!({
        "view": 1, "from": { "uri": "$uri", "collection": PROFILES },
        "with": {
            "posts": { "list": POSTS, "of": "did", "limit": 1, "output": "@rkey" },
            "likes": { "list": LIKES, "of": "did", "order": ["indexedAt"], "output": { "key": "@rkey" } },
            "same": { "record": PROFILES, "output": "@field:displayName" }
        },
        "output": { "post": { "name": "@field:displayName", "posts": "@posts", "likes": "@likes", "same": "@same",
            "none": "@field:absent", "type": "@@uri", "n": 1.5 } }
    });
    serve(&world, json!({ "uri": { "type": "string" } }), view).await;
    let path = |did: &str, rkey: &str| format!("uri=at://{did}/{PROFILES}/{rkey}");
    assert_eq!(
        body(&world, &path(BOB, "self")).await,
        json!({ "post": { "name": "Bob", "posts": ["b1"], "likes": [{ "key": "l1" }], "same": "Bob", "type": "@uri", "n": 1.5 } })
    );
    assert_eq!(call(&world, &path(BOB, "other")).await.status, 404);
    assert_eq!(call(&world, &format!("uri={}", uri(BOB, "b1"))).await.status, 404, "another collection");
    assert_eq!(call(&world, "uri=nonsense").await.status, 400);
    assert_eq!(call(&world, "").await.status, 400);
}

async fn a_gallery_has_its_photos_in_their_order(mut world: World) {
    const ITEMS: &str = "com.example.item";
    world = social(world).await;
    world.server.upload(record_lexicon(ITEMS), None).await;
    world.wait_for_stream_of(ITEMS).await;
    let gallery = "at://did:plc:alicealicealicealicealic/com.example.gallery/g";
    let item = |photo: String, position: u32, of: &str| json!({ "$type": ITEMS, "gallery": of, "item": photo, "position": position });
    let items = vec![
        (ALICE, ITEMS, "i1", item(uri(BOB, "b1"), 2, gallery)),
        (ALICE, ITEMS, "i2", item(uri(ALICE, "a1"), 1, gallery)),
        (ALICE, ITEMS, "i3", item(uri(ALICE, "a2"), 0, "at://other")),
        (ALICE, ITEMS, "i4", item(uri(ALICE, "gone"), 3, gallery)),
        (ALICE, ITEMS, "i5", item("nonsense\u{1f44d}".to_owned(), 4, gallery)),
    ];
    put(&mut world, items).await;
    let view = json!({
        "view": 1, "from": ITEMS, "where": { "gallery": "$gallery" }, "order": ["position"], "hide": ["labels:!hide"],
        "with": { "photo": { "follow": "item", "output": "@rkey" } },
        "output": { "feed": [{ "key": "@rkey", "photo": "@photo", "n": "@field:position" }], "cursor": "@cursor" }
    });
    serve(&world, paged(json!({ "gallery": { "type": "string" } })), view).await;
    let found = body(&world, &format!("gallery={gallery}")).await;
    assert_eq!(column(&found, "photo"), [json!("a1"), json!("b1"), Value::Null, Value::Null]);
    assert_eq!(column(&found, "n"), [1, 2, 3, 4]);
    let first = body(&world, &format!("gallery={gallery}&limit=1")).await;
    let rest = body(&world, &format!("gallery={gallery}&cursor={}", first["cursor"].as_str().unwrap())).await;
    assert_eq!(column(&rest, "n"), [2, 3, 4]);
}

async fn scripts_take_pages_of_views(world: World) {
    let world = social(world).await;
    serve(&world, paged(json!({})), keys_of(json!({ "order": ["n"] }))).await;
    world.server.upload(crate::support::instance::query_lexicon("com.example.read"), None).await;
    let source = format!(
        "function handle()
            local page = view.page('{METHOD}', {{ limit = 2 }})
            local rest = view.page('{METHOD}', {{ cursor = page.cursor }})
            local ok, wrong = pcall(view.page, '{METHOD}', {{ cursor = 'x' }})
            local _, absent = pcall(view.page, 5)
            return {{ keys = {{ page.feed[2].key, rest.feed[1].key }}, wrong = wrong.message, absent = absent.message }}
        end"
    );
    world.server.bind("com.example.read", &source).await;
    let answer = world.server.xrpc("com.example.read").await;
    assert_eq!(answer.body["keys"], json!(["b1", "a2"]), "{}", answer.text);
    // A refusal that the script does not catch is its answer.
    world
        .server
        .bind(
            "com.example.read",
            &format!("function handle() return view.page('{METHOD}', {{ cursor = 'x' }}) end"),
        )
        .await;
    let refused = world.server.xrpc("com.example.read").await;
    assert_eq!((refused.status.as_u16(), refused.error()), (400, "InvalidRequest"), "{}", refused.text);
    assert_eq!(refused.body["message"], "malformed cursor");
    assert!(answer.body["wrong"].as_str().unwrap().ends_with("malformed cursor"), "{}", answer.text);
    assert!(
        answer.body["absent"].as_str().unwrap().ends_with("nsid: string expected, got number"),
        "{}",
        answer.text
    );
}
