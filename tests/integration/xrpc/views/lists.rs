//! Lists: conditions on parameters, order, pages.

use serde_json::{Value, json};

use super::*;

crate::in_both_worlds!(
    conditions_are_parameters_that_may_be_absent,
    rows_are_of_an_account_or_of_many,
    a_timeline_has_the_records_of_followed_accounts,
    pages_go_on_after_inserts_in_any_order,
    case_05_two_fields_in_opposite_directions,
    case_06_to_the_end_and_back,
    bad_values_are_named
);

async fn conditions_are_parameters_that_may_be_absent(world: World) {
    let world = social(world).await;
    let string = json!({ "type": "string" });
    let parameters = json!({
        "mood": string, "moods": { "type": "array", "items": string }, "since": string, "until": string, "word": string,
        "begin": string, "from": string
    });
    let view = keys_of(json!({
        "where": {
            "mood": { "eq": "$mood", "in": "$moods" },
            "createdAt": { "gte": "$since", "lt": "$until" },
            "text": { "contains": "$word", "prefix": "$begin" },
            "indexedAt": { "gte": "$from" }
        }
    }));
    serve(&world, paged(parameters), view).await;
    for (query, expected) in [
        ("", json!(["c1", "a2", "b1", "a1"])),
        ("mood=glad", json!(["c1", "a1"])),
        ("moods=glad&moods=mad", json!(["c1", "a2", "a1"])),
        ("moods=none", json!([])),
        ("since=2026-01-02&until=2026-01-03T12:00:00Z", json!(["a2", "b1"])),
        ("word=WORD&since=2026-01-02", json!(["a2"])),
        ("word=%25", json!([])),
        ("begin=t", json!(["a2", "b1"])),
        ("from=2100-01-01T00:00:00Z", json!([])),
        ("limit=1", json!(["c1"])),
        ("limit=1000000", json!(["c1", "a2", "b1", "a1"])),
        ("unknown=1", json!(["c1", "a2", "b1", "a1"])),
    ] {
        assert_eq!(Value::from(column(&body(&world, query).await, "key")), expected, "{query}");
    }

    let roots = keys_of(json!({ "where": { "reply": { "missing": true } } }));
    serve(&world, paged(json!({})), roots).await;
    assert_eq!(column(&body(&world, "").await, "key"), ["a2", "a1"]);
    let alternatives = keys_of(json!({ "where": {
        "reply": { "missing": false }, "any": [{ "mood": "sad" }, { "n": { "gt": 3 } }, { "text": "$word" }] } }));
    serve(&world, paged(json!({ "word": string })), alternatives).await;
    assert_eq!(column(&body(&world, "").await, "key"), ["c1", "b1"]);
}

async fn rows_are_of_an_account_or_of_many(world: World) {
    let world = social(world).await;
    let carol = person(&world, CAROL);
    world.plc.host(ALICE, "https://pds.example");
    world.plc.also_known_as(ALICE, &json!(["at://alice.example"]));
    world.server.dns.txt("_atproto.alice.example", &format!("did={ALICE}"));
    let string = json!({ "type": "string" });
    let of_one = keys_of(json!({ "where": { "did": "$actor" } }));
    serve(&world, paged(json!({ "actor": string })), of_one).await;
    assert_eq!(column(&body(&world, "actor=alice.example").await, "key"), ["a2", "a1"]);
    assert_eq!(column(&body(&world, &format!("actor={BOB}")).await, "key"), ["b1"]);
    let refused = call(&world, "actor=nobody").await;
    assert_eq!((refused.status.as_u16(), refused.error()), (400, "InvalidRequest"), "{}", refused.text);

    let of_many = keys_of(json!({ "where": { "did": { "in": "$actors" } } }));
    serve(&world, paged(json!({ "actors": { "type": "array", "items": string } })), of_many).await;
    let query = format!("actors={BOB}&actors=alice.example");
    assert_eq!(column(&body(&world, &query).await, "key"), ["a2", "b1", "a1"]);

    // The lexicon says that a parameter of a field is an account, or a URI with one.
    let of_format = |format: &str| json!({ "type": "string", "format": format });
    let follows = json!({ "view": 1, "from": FOLLOWS, "where": { "subject": "$subject" },
        "output": { "feed": [{ "did": "@did" }], "cursor": "@cursor" } });
    serve(&world, paged(json!({ "subject": of_format("at-identifier") })), follows).await;
    for subject in ["alice.example", ALICE] {
        assert_eq!(column(&body(&world, &format!("subject={subject}")).await, "did"), [CAROL], "{subject}");
    }
    let replies = keys_of(json!({ "where": { "reply.parent.uri": "$to" } }));
    serve(&world, paged(json!({ "to": of_format("at-uri") })), replies).await;
    for to in [format!("at://alice.example/{POSTS}/a1"), uri(ALICE, "a1")] {
        assert_eq!(column(&body(&world, &format!("to={to}")).await, "key"), ["b1"], "{to}");
    }
    let unknown = call(&world, &format!("to=at://nobody.example/{POSTS}/a1")).await;
    assert!(!unknown.status.is_success(), "{}", unknown.text);

    let own = keys_of(json!({ "where": { "did": "$viewer" } }));
    serve(&world, paged(json!({})), own).await;
    assert_eq!(call(&world, "").await.status, 401, "an anonymous call has no records of its own");
    assert_eq!(column(&body_for(&world, &carol, "").await, "key"), ["c1"]);
}

async fn a_timeline_has_the_records_of_followed_accounts(mut world: World) {
    world = social(world).await;
    let carol = person(&world, CAROL);
    let view = keys_of(json!({
        "from": { "collection": POSTS, "did": { "linkedFrom": "$viewer", "by": FOLLOWS, "path": "subject" } }
    }));
    serve(&world, paged(json!({})), view).await;
    assert_eq!(call(&world, "").await.status, 401);
    assert_eq!(column(&body_for(&world, &carol, "").await, "key"), ["a2", "a1"]);
    assert!(column(&body_for(&world, &person(&world, BOB), "").await, "key").is_empty());
    // A circle: each follows the other.
    let follow = |of: &str| json!({ "$type": FOLLOWS, "subject": of });
    put(&mut world, vec![(ALICE, FOLLOWS, "g1", follow(CAROL)), (CAROL, FOLLOWS, "g2", follow(CAROL))]).await;
    assert_eq!(column(&body_for(&world, &carol, "limit=2").await, "key"), ["c1", "a2"]);
}

async fn pages_go_on_after_inserts_in_any_order(mut world: World) {
    world = social(world).await;
    for order in [json!([]), json!(["-createdAt"]), json!(["n"]), json!(["indexedAt"])] {
        serve(&world, paged(json!({})), keys_of(json!({ "order": order }))).await;
        let (mut seen, mut query) = (Vec::new(), "limit=3".to_owned());
        loop {
            let page = body(&world, &query).await;
            seen.extend(column(&page, "key"));
            let Some(cursor) = page["cursor"].as_str() else { break };
            query = format!("limit=3&cursor={cursor}");
            if seen.len() == 3 {
                let late =
                    json!({ "$type": POSTS, "text": "late", "n": 9, "createdAt": "2026-02-01T00:00:00Z" });
                let rkey = format!("late{}", order.to_string().len());
                put(&mut world, vec![(BOB, POSTS, &rkey, late)]).await;
            }
        }
        let mut once = seen.clone();
        once.sort_by_key(Value::to_string);
        once.dedup();
        assert_eq!(once.len(), seen.len(), "{order}: no row comes twice: {seen:?}");
        for key in ["a1", "b1", "a2", "c1"] {
            assert!(seen.contains(&key.into()), "{order}: {seen:?}");
        }
    }
}

async fn case_05_two_fields_in_opposite_directions(world: World) {
    let world = social(world).await;
    serve(&world, paged(json!({})), keys_of(json!({ "order": ["-mood", "n"] }))).await;
    assert_eq!(column(&body(&world, "").await, "key"), ["b1", "a2", "a1", "c1"]);
    serve(&world, paged(json!({})), keys_of(json!({ "order": ["mood", "-n"] }))).await;
    let first = body(&world, "limit=3").await;
    assert_eq!(column(&first, "key"), ["c1", "a1", "a2"]);
    let rest = body(&world, &format!("cursor={}", first["cursor"].as_str().unwrap())).await;
    assert_eq!(column(&rest, "key"), ["b1"]);
}

async fn case_06_to_the_end_and_back(mut world: World) {
    world = social(world).await;
    let timeline = json!({ "collection": POSTS, "did": { "in": [ALICE, BOB, CAROL] } });
    for (from, order) in [
        (json!(POSTS), json!([])),
        (json!(POSTS), json!(["n"])),
        (json!(POSTS), json!(["-mood", "createdAt"])),
        (timeline, json!(["indexedAt"])),
    ] {
        let view = json!({
            "view": 1, "from": from, "order": order,
            "output": { "feed": [{ "key": "@rkey" }], "cursor": "@cursor", "before": "@prevCursor" }
        });
        let mut declared = lexicon(paged(json!({})));
        declared["defs"]["main"]["output"]["schema"]["properties"]["before"] = json!({ "type": "string" });
        world.server.upload(declared, None).await;
        let stored = store(&world, &view).await;
        assert!(stored.status.is_success(), "{}", stored.text);

        let (mut pages, mut cursor) = (Vec::new(), Value::Null);
        let last = loop {
            let text = cursor.as_str().unwrap_or_default().to_owned();
            let page = body(&world, &format!("limit=2&cursor={text}")).await;
            assert_eq!(page.get("before").is_some(), !pages.is_empty(), "{page}");
            pages.push(column(&page, "key"));
            if page.get("cursor").is_none() {
                break page;
            }
            cursor = page["cursor"].clone();
        };
        // A record at either end of the order does not change the pages that were read.
        let late = json!({ "$type": POSTS, "text": "late", "n": 9, "mood": "zesty", "createdAt": "2026-02-01T00:00:00Z" });
        let rkey = format!("late{}", order.to_string().len());
        put(&mut world, vec![(BOB, POSTS, &rkey, late)]).await;
        let (mut page, mut at) = (last, pages.len() - 1);
        while at > 0 {
            at -= 1;
            page = body(&world, &format!("limit=2&cursor={}", page["before"].as_str().unwrap())).await;
            assert_eq!(column(&page, "key"), pages[at], "{order}: page {at}");
        }
        let again = body(&world, &format!("limit=2&cursor={}", page["cursor"].as_str().unwrap())).await;
        assert_eq!(column(&again, "key"), pages[1], "{order}: forwards again");
    }
    let wrong = call(&world, "cursor=~").await;
    assert_eq!((wrong.status.as_u16(), &wrong.body["message"]), (400, &json!("malformed cursor")));
}

async fn bad_values_are_named(world: World) {
    let world = social(world).await;
    let string = json!({ "type": "string" });
    let view = keys_of(json!({ "where": { "text": { "contains": "$q" }, "indexedAt": { "gt": "$since" } } }));
    serve(&world, paged(json!({ "q": string, "since": string })), view).await;
    let long = format!("q={}", "x".repeat(300));
    for (query, message) in [
        ("cursor=nonsense", "malformed cursor"),
        ("since=yesterday", "\"yesterday\" is not a time"),
        ("limit=ten", "limit"),
        (&long, "filter op LIKE takes a string of at most 250 bytes"),
    ] {
        let answer = call(&world, query).await;
        assert_eq!(
            (answer.status.as_u16(), answer.error()),
            (400, "InvalidRequest"),
            "{query}: {}",
            answer.text
        );
        assert!(answer.body["message"].as_str().unwrap().contains(message), "{query}: {}", answer.text);
    }
    assert_eq!(call(&world, "q=a%00b").await.status, 400);
    assert_eq!(column(&body(&world, "q=%F0%9F%91%8D").await, "key").len(), 0);
}
