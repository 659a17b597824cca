//! Rows that are left out: labels, the viewer's blocks, hidden accounts. Pages stay full.

use serde_json::json;

use super::*;

crate::in_both_worlds!(
    labels_hide_rows_and_joined_rows,
    the_viewers_blocks_hide_accounts,
    accounts_that_block_the_viewer_are_hidden,
    counts_leave_hidden_records_out,
    case_22_a_taken_down_record_vanishes,
    hidden_accounts_vanish,
    what_operators_take_down_vanishes_with_its_author_and_blobs
);

fn feed(hide: Value) -> Value {
    json!({
        "view": 1, "from": POSTS, "hide": hide,
        "with": {
            "quoted": { "follow": "embed.record.uri", "output": "@rkey" },
            "replies": { "list": POSTS, "path": "reply.parent.uri", "output": "@rkey" },
            "labels": { "labels": "uri" }
        },
        "output": { "feed": [{ "key": "@rkey", "quoted": "@quoted", "replies": "@replies", "labels": "@labels" }],
            "cursor": "@cursor" }
    })
}

async fn labels_hide_rows_and_joined_rows(world: World) {
    let world = social(world).await;
    let carol = person(&world, CAROL);
    world
        .execute(
            "INSERT INTO labels (uri, src, val, neg, cts) VALUES \
             ('at://did:plc:bobbobbobbobbobbobbobbob/com.example.post/b1', 'did:plc:labeler', '!hide', false, 1), \
             ('at://did:plc:carolcarolcarolcarolcaro/com.example.post/c1', 'did:plc:labeler', '!hide', true, 1), \
             ('at://did:plc:alicealicealicealicealic/com.example.post/a1', 'did:plc:labeler', 'spam', false, 1)",
        )
        .await;
    serve(&world, paged(json!({})), feed(json!(["labels:!hide"]))).await;
    let page = body(&world, "limit=2").await;
    assert_eq!(column(&page, "key"), ["c1", "a2"]);
    let rest = body(&world, &format!("limit=2&cursor={}", page["cursor"].as_str().unwrap())).await;
    assert_eq!(column(&rest, "key"), ["a1"]);
    assert!(page["feed"][1].get("quoted").is_none(), "{page}");
    assert_eq!(rest["feed"][0]["replies"], json!([]));
    assert_eq!(rest["feed"][0]["labels"][0]["val"], "spam");

    world
        .execute(
            "INSERT INTO labels (uri, src, val, neg, cts) VALUES \
             ('did:plc:alicealicealicealicealic', 'did:plc:labeler', '!hide', false, 1)",
        )
        .await;
    assert_eq!(column(&body(&world, "").await, "key"), ["c1"], "the label of an account hides its records");
    let timeline = keys_of(json!({
        "from": { "collection": POSTS, "did": { "linkedFrom": "$viewer", "by": FOLLOWS } }, "hide": ["labels:!hide"]
    }));
    serve(&world, paged(json!({})), timeline).await;
    assert_eq!(column(&body_for(&world, &carol, "").await, "key").len(), 0);
}

async fn the_viewers_blocks_hide_accounts(world: World) {
    let world = social(world).await;
    let carol = person(&world, CAROL);
    serve(&world, paged(json!({})), feed(json!([format!("viewer:{BLOCKS}")]))).await;
    assert_eq!(
        column(&body(&world, "").await, "key"),
        ["c1", "a2", "b1", "a1"],
        "an anonymous call has no blocks"
    );
    let page = body_for(&world, &carol, "").await;
    assert_eq!(column(&page, "key"), ["c1", "a2", "a1"]);
    assert!(page["feed"][1].get("quoted").is_none(), "{page}");
    assert_eq!(page["feed"][2]["replies"], json!([]));
    let full = body_for(&world, &carol, "limit=3").await;
    assert_eq!(column(&full, "key").len(), 3, "the page is full: {full}");
}

async fn accounts_that_block_the_viewer_are_hidden(world: World) {
    let world = social(world).await;
    let (bob, carol) = (person(&world, BOB), person(&world, CAROL));
    serve(&world, paged(json!({})), feed(json!([format!("toViewer:{BLOCKS}")]))).await;
    assert_eq!(column(&body(&world, "").await, "key"), ["c1", "a2", "b1", "a1"]);
    assert_eq!(column(&body_for(&world, &carol, "").await, "key").len(), 4, "nobody blocks Carol");
    let page = body_for(&world, &bob, "").await;
    assert_eq!(column(&page, "key"), ["a2", "b1", "a1"], "Carol blocks Bob");
    assert_eq!(page["feed"][1]["replies"], json!([]));
    let both = json!([format!("viewer:{BLOCKS}"), format!("toViewer:{BLOCKS}")]);
    serve(&world, paged(json!({})), feed(both)).await;
    assert_eq!(column(&body_for(&world, &bob, "").await, "key"), ["a2", "b1", "a1"]);
    assert_eq!(column(&body_for(&world, &carol, "").await, "key"), ["c1", "a2", "a1"]);
}

async fn counts_leave_hidden_records_out(mut world: World) {
    world = social(world).await;
    let carol = person(&world, CAROL);
    let counts = |hide: Value| {
        json!({
            "view": 1, "from": POSTS, "hide": hide, "order": ["n"],
            "with": { "likes": { "count": LIKES, "path": "subject.uri" }, "all": { "count": LIKES },
                "none": { "count": LIKES, "path": "other" } },
            "output": { "feed": [["@rkey", "@likes", "@all", "@none"]], "cursor": "@cursor" }
        })
    };
    serve(&world, paged(json!({})), counts(json!([format!("viewer:{BLOCKS}")]))).await;
    let numbers = |page: Value| page["feed"][0].clone();
    assert_eq!(numbers(body(&world, "").await), json!(["a1", 2, 2, 0]));
    assert_eq!(numbers(body_for(&world, &carol, "").await), json!(["a1", 1, 1, 0]), "Bob's like is hidden");
    world
        .execute(
            "INSERT INTO labels (uri, src, val, neg, cts) VALUES \
             ('at://did:plc:carolcarolcarolcarolcaro/com.example.like/l2', 'did:plc:labeler', 'spam', false, 1)",
        )
        .await;
    serve(&world, paged(json!({})), counts(json!(["labels:spam", format!("viewer:{BLOCKS}")]))).await;
    assert_eq!(numbers(body(&world, "").await), json!(["a1", 1, 1, 0]));
    assert_eq!(numbers(body_for(&world, &carol, "").await), json!(["a1", 0, 0, 0]));
    // From 200 on the number is the same for all.
    let like = |n: u32| (BOB, format!("m{n}"), json!({ "$type": LIKES, "subject": reference(ALICE, "a1") }));
    put_all(&mut world, LIKES, (0..250).map(like)).await;
    for _ in 0..2 {
        assert_eq!(numbers(body_for(&world, &carol, "").await), json!(["a1", 252, 252, 0]));
    }
}

async fn case_22_a_taken_down_record_vanishes(world: World) {
    let world = social(world).await;
    let mut view = feed(json!([]));
    view["with"]["likes"] = json!({ "count": LIKES, "path": "subject.uri" });
    view["output"]["feed"][0]["likes"] = "@likes".into();
    serve(&world, paged(json!({})), view).await;
    let take_down = async |subject: &str| {
        let body = json!({ "subject": subject, "action": "takedown", "reason": "spam" });
        let made = world.server.admin(Method::POST, "/admin/moderation", Some(&body)).await;
        assert_eq!(made.status, 201, "{}", made.text);
    };
    take_down(&uri(BOB, "b1")).await;
    take_down(&format!("at://{BOB}/{LIKES}/l1")).await;
    let page = body(&world, "limit=3").await;
    assert_eq!(column(&page, "key"), ["c1", "a2", "a1"], "the page is full");
    assert!(page["feed"][1].get("quoted").is_none(), "{page}");
    assert_eq!((&page["feed"][2]["replies"], &page["feed"][2]["likes"]), (&json!([]), &json!(1)));
}

async fn hidden_accounts_vanish(mut world: World) {
    world = social(world).await;
    let mut view = feed(json!([]));
    view["with"]["likes"] = json!({ "count": LIKES, "path": "subject.uri" });
    view["output"]["feed"][0]["likes"] = "@likes".into();
    serve(&world, paged(json!({})), view).await;
    assert_eq!(column(&body(&world, "").await, "likes"), [0, 0, 1, 2]);
    world.account(BOB, Some("takendown"));
    let gone = async |_: &Instance| column(&body(&world, "").await, "key").len() == 3;
    world.server.eventually("Bob's records are hidden", gone).await;
    let page = body(&world, "limit=3").await;
    assert_eq!(column(&page, "key"), ["c1", "a2", "a1"]);
    assert_eq!(column(&page, "likes"), [0, 0, 1], "the like of a hidden account is not counted");
    assert!(page["feed"][1].get("quoted").is_none(), "{page}");
    assert_eq!(page["feed"][2]["replies"], json!([]));
}

/// Hides a record or an account here, or takes it down. Returns the path of the decision.
async fn moderate(world: &World, subject: &str, action: &str) -> String {
    let body = json!({ "subject": subject, "action": action, "reason": "spam" });
    let made = world.server.admin(Method::POST, "/admin/moderation", Some(&body)).await;
    assert_eq!(made.status, 201, "{}", made.text);
    format!("/admin/moderation/{}", made.body["id"])
}

async fn what_operators_take_down_vanishes_with_its_author_and_blobs(world: World) {
    let mut world = social(world).await;
    world.plc.host(BOB, "https://pds.example");
    let blob = json!({ "$type": "blob", "ref": { "$link": PICTURE }, "mimeType": "image/png", "size": 1 });
    let post = json!({ "$type": POSTS, "text": "look", "picture": blob });
    let answer = json!({ "$type": POSTS, "text": "nice", "reply": { "parent": reference(BOB, "b2") } });
    put(&mut world, vec![(BOB, POSTS, "b2", post), (ALICE, POSTS, "a3", answer)]).await;
    let row = json!({ "key": "@rkey", "picture": "@blob:picture", "author": "@author" });
    let author = json!({ "profile": "did", "output": { "name": "@field:displayName", "did": "@did" } });
    let parent = json!({ "follow": "reply.parent.uri", "with": { "author": author }, "output": row });
    let mut shown = row.clone();
    shown["parent"] = "@parent".into();
    let view = json!({ "view": 1, "from": POSTS, "with": { "author": author, "parent": parent },
        "output": { "feed": [shown], "cursor": "@cursor" } });
    serve(&world, paged(json!({})), view).await;
    let keys = |page: &Value| column(page, "key");
    let page = body(&world, "").await;
    assert_eq!(keys(&page), ["a3", "b2", "c1", "a2", "b1", "a1"]);
    assert!(page["feed"][1]["picture"].as_str().unwrap().contains(PICTURE), "{page}");
    assert_eq!(page["feed"][0]["parent"]["author"]["name"], "Bob");

    let decision = moderate(&world, &uri(BOB, "b2"), "takedown").await;
    let page = body(&world, "limit=5").await;
    assert_eq!(keys(&page), ["a3", "c1", "a2", "b1", "a1"], "the page is full");
    assert!(page["feed"][0].get("parent").is_none() && !page.to_string().contains(PICTURE), "{page}");
    world.server.admin(Method::DELETE, &decision, None).await;

    for action in ["hide", "takedown"] {
        moderate(&world, BOB, action).await;
        let page = body(&world, "").await;
        assert_eq!(keys(&page), ["a3", "c1", "a2", "a1"], "{action}");
        for gone in [PICTURE, BOB, "Bob"] {
            assert!(!page.to_string().contains(gone), "{action}: {gone}: {page}");
        }
    }
    let one = json!({ "view": 1, "from": { "uri": "$uri", "collection": POSTS }, "output": { "post": { "key": "@rkey" } } });
    serve(&world, json!({ "uri": { "type": "string" } }), one).await;
    assert_eq!(call(&world, &format!("uri={}", uri(BOB, "b2"))).await.status, 404);
    assert_eq!(call(&world, &format!("uri={}", uri(ALICE, "a3"))).await.status, 200);
}
