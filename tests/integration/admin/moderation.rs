//! `/admin/moderation`: what operators hide and take down.

use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{ALICE, BOB, LIST, NOTES, World};
use crate::support::instance::{Answer, OPERATOR};

const PATH: &str = "/admin/moderation";

async fn moderate(world: &World, subject: &str, action: &str) -> Value {
    let body = json!({ "subject": subject, "action": action, "reason": "spam" });
    let made = world.server.admin(Method::POST, PATH, Some(&body)).await;
    assert_eq!(made.status, 201, "{}", made.text);
    made.body
}

async fn lift(world: &World, decision: &Value) -> Answer {
    let path = format!("{PATH}/{}?reason=a+mistake", decision["id"]);
    world.server.admin(Method::DELETE, &path, None).await
}

/// The record keys of the built-in list, newest first.
async fn listed(world: &World, limit: usize) -> Vec<String> {
    let answer = world.server.xrpc(&format!("{LIST}?limit={limit}")).await;
    let records = answer.body["records"].as_array().unwrap_or_else(|| panic!("{}", answer.text));
    let rkey = |record: &Value| record["uri"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    records.iter().map(rkey).collect()
}

async fn status_of(world: &World, uri: &str) -> u16 {
    world.server.xrpc(&format!("{LIST}?uri={uri}")).await.status.as_u16()
}

async fn why(world: &World, uri: &str) -> String {
    let path = format!("/admin/records/why?look=false&uri={uri}");
    let answer = world.server.admin(Method::GET, &path, None).await;
    answer.body["verdict"].as_str().unwrap_or_else(|| panic!("{}", answer.text)).to_owned()
}

crate::in_both_worlds!(
    a_record_is_taken_down_and_lifted,
    pages_stay_full_and_counts_are_right,
    a_hidden_record_answers_at_its_uri,
    an_account_is_taken_down_until_it_is_lifted,
    decisions_expire,
    invalid_requests
);

async fn a_record_is_taken_down_and_lifted(mut world: World) {
    world = world.with_notes().await;
    let uri = world.note(ALICE, "a", json!({ "text": "a" })).await;
    world.note(BOB, "b", json!({ "text": "b" })).await;
    let decision = moderate(&world, &uri, "takedown").await;
    assert_eq!(decision["created_by"], OPERATOR);
    assert_eq!((&decision["subject"], &decision["lifted_at"]), (&json!(uri), &Value::Null));
    assert_eq!((listed(&world, 10).await, status_of(&world, &uri).await), (vec!["b".to_owned()], 404));
    assert_eq!(why(&world, &uri).await, "moderated");
    // The same decision again changes nothing.
    assert_eq!(moderate(&world, &uri, "takedown").await, decision);
    let shown = world.server.admin(Method::GET, &format!("{PATH}/{}", decision["id"]), None).await;
    assert_eq!(shown.body["record"]["text"], "a", "{}", shown.text);

    let lifted = lift(&world, &decision).await;
    assert_eq!((lifted.status.as_u16(), &lifted.body["lift_reason"]), (200, &json!("a mistake")));
    assert_eq!(lift(&world, &decision).await.body, lifted.body);
    assert_eq!(
        (listed(&world, 10).await, status_of(&world, &uri).await),
        (vec!["b".into(), "a".into()], 200)
    );
    assert_eq!(why(&world, &uri).await, "visible");
    for (query, expected) in
        [("", 1), ("?active=true", 0), ("?active=false&action=takedown", 1), ("?action=hide", 0)]
    {
        let page = world.server.admin(Method::GET, &format!("{PATH}{query}"), None).await;
        assert_eq!(page.body["moderation"].as_array().unwrap().len(), expected, "{query}: {}", page.text);
    }
    let events = world.server.admin(Method::GET, "/admin/events?category=moderation", None).await;
    let events = events.body["events"].as_array().unwrap().clone();
    let kinds: Vec<&str> = events.iter().map(|event| event["event_type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["moderation.lifted", "moderation.created"]);
    assert_eq!(events[1]["detail"]["reason"], "spam");
}

/// Case 22 of the views: a taken-down record vanishes from list, join and count, and the page stays full.
async fn pages_stay_full_and_counts_are_right(mut world: World) {
    world = world.with_notes().await;
    let target = world.note(BOB, "target", json!({ "text": "t" })).await;
    for n in 0..6 {
        world.note(ALICE, &format!("n{n}"), json!({ "text": "x", "subject": { "uri": target } })).await;
    }
    for rkey in ["n5", "n3"] {
        moderate(&world, &format!("at://{ALICE}/{NOTES}/{rkey}"), "takedown").await;
    }
    assert_eq!(listed(&world, 3).await, ["n4", "n2", "n1"]);
    let script = format!(
        "function handle()\n  local links = db.backlinks({{ target = \"{target}\", collection = \"{NOTES}\" }})\n  \
         local rows = db.query({{ collection = \"{NOTES}\", limit = 3 }}).records\n  \
         return {{ count = db.count(\"{NOTES}\"), links = #links.records, rows = #rows }}\nend"
    );
    world.server.bind(LIST, &script).await;
    let answer = world.server.xrpc(LIST).await;
    assert_eq!(answer.body, json!({ "count": 5, "links": 4, "rows": 3 }), "{}", answer.text);
}

async fn a_hidden_record_answers_at_its_uri(mut world: World) {
    world = world.with_notes().await;
    let uri = world.note(ALICE, "a", json!({ "text": "a" })).await;
    moderate(&world, &uri, "hide").await;
    assert_eq!((listed(&world, 10).await, status_of(&world, &uri).await), (Vec::new(), 200));
    // A later version stays hidden too.
    world.push(|at, rev| {
        let place = belvedere_standins::jetstream::Place { did: ALICE, collection: NOTES, rkey: "a", rev };
        belvedere_standins::jetstream::Frame::create(at, place, &json!({ "$type": NOTES, "text": "later" }))
    });
    let changed = async |server: &crate::support::instance::Instance| {
        server.xrpc(&format!("{LIST}?uri={uri}")).await.text.contains("later")
    };
    world.server.eventually("the hidden record changes", changed).await;
    assert_eq!(listed(&world, 10).await, Vec::<String>::new());
    let replaced = moderate(&world, &uri, "takedown").await;
    assert_eq!(status_of(&world, &uri).await, 404);
    assert_eq!(lift(&world, &replaced).await.status, 200);
    assert_eq!(listed(&world, 10).await, ["a"]);
}

async fn an_account_is_taken_down_until_it_is_lifted(mut world: World) {
    world = world.with_notes().await;
    let uri = world.note(ALICE, "a", json!({ "text": "a" })).await;
    world.note(BOB, "b", json!({ "text": "b" })).await;
    let decision = moderate(&world, ALICE, "takedown").await;
    assert_eq!(listed(&world, 10).await, ["b"]);
    // Neither a new record nor what the network says brings it back.
    world.account(ALICE, None);
    world.push(|at, rev| {
        let place = belvedere_standins::jetstream::Place { did: ALICE, collection: NOTES, rkey: "c", rev };
        belvedere_standins::jetstream::Frame::create(at, place, &json!({ "$type": NOTES, "text": "c" }))
    });
    world.note(BOB, "d", json!({ "text": "d" })).await;
    assert_eq!(
        (listed(&world, 10).await, status_of(&world, &uri).await),
        (vec!["d".into(), "b".into()], 404)
    );
    assert_eq!(why(&world, &uri).await, "moderated");
    assert_eq!(lift(&world, &decision).await.status, 200);
    let back = async |_: &crate::support::instance::Instance| listed(&world, 10).await.len() == 4;
    world.server.eventually("all records are back", back).await;
}

async fn decisions_expire(mut world: World) {
    world = world.with_notes().await;
    let uri = world.note(ALICE, "a", json!({ "text": "a" })).await;
    let soon = belvedere_base::clock::Clock::system().now().plus_seconds(2);
    let body = json!({ "subject": uri, "action": "takedown", "reason": "x", "expires_at": soon });
    let made = world.server.admin(Method::POST, PATH, Some(&body)).await;
    assert_eq!((made.status.as_u16(), &made.body["expires_at"]), (201, &json!(soon)), "{}", made.text);
    assert_eq!(listed(&world, 10).await, Vec::<String>::new());
    let back = async |_: &crate::support::instance::Instance| listed(&world, 10).await == ["a"];
    world.server.eventually("the decision has expired", back).await;
    let shown = world.server.admin(Method::GET, &format!("{PATH}/{}", made.body["id"]), None).await;
    assert_eq!((&shown.body["lift_reason"], &shown.body["lifted_by"]), (&json!("expired"), &Value::Null));
}

async fn invalid_requests(world: World) {
    let good = json!({ "subject": ALICE, "action": "takedown", "reason": "x" });
    for (field, value, text) in [
        ("subject", json!("alice"), "subject must be"),
        ("subject", json!("at://alice/a.b.c/d"), "subject must be"),
        ("subject", json!(format!("at://{ALICE}")), "subject must be"),
        ("action", json!("delete"), "action must be"),
        ("reason", json!(" "), "reason must have"),
        ("reason", json!("a\u{0}b"), "the request body holds a NUL character"),
        ("reason", json!("x".repeat(2_001)), "reason must have"),
        ("expires_at", json!("tomorrow"), "expires_at must be a time"),
        ("expires_at", json!("2020-01-01T00:00:00Z"), "expires_at must be in the future"),
    ] {
        let mut body = good.clone();
        body[field] = value;
        let answer = world.server.admin(Method::POST, PATH, Some(&body)).await;
        assert_eq!(answer.status, 400, "{body}: {}", answer.text);
        assert!(answer.error().starts_with(text), "{body}: {}", answer.text);
    }
    for query in ["active=perhaps", "action=x", "subject=x", "cursor=x", "limit=x"] {
        assert_eq!(
            world.server.admin(Method::GET, &format!("{PATH}?{query}"), None).await.status,
            400,
            "{query}"
        );
    }
    for (method, id) in
        [(Method::GET, "999"), (Method::DELETE, "999"), (Method::GET, "x"), (Method::DELETE, "x")]
    {
        assert_eq!(world.server.admin(method, &format!("{PATH}/{id}"), None).await.status, 404);
    }
    let reader = world.server.create_key(&["--did", OPERATOR, "--permissions", "records:read"]);
    let header = format!("Bearer {}", reader.trim());
    let refused = world.server.request(Method::GET, PATH, &[("authorization", &header)], None).await;
    assert_eq!(refused.status, 403, "{}", refused.text);
}
