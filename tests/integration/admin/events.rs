//! `/admin/events`

use crate::fixtures::World;
use belvedere_protocol::crypto::Algorithm;
use belvedere_standins::jetstream::{Frame, Place};
use http::Method;
use serde_json::json;

use crate::fixtures::{ALICE, BOB, LIST, NOTES};
use crate::support::event_stream;
use crate::support::instance::{Instance, OPERATOR, query_lexicon};

crate::in_both_worlds!(
    admin_actions_are_logged_and_can_be_filtered,
    pages_follow_each_other_without_gaps,
    events_have_the_address_and_the_credential_of_their_requests,
    a_wrong_cid_is_an_event_and_no_record,
    new_events_are_followed_by_the_conditions_of_the_list,
    a_stream_ends_when_its_user_may_no_longer_read_it,
    open_streams_end_with_the_server,
    bad_parameters_are_400,
    events_are_counted_and_selected_by_time,
    events_are_purged_by_who_may,
    a_denied_service_token_is_an_event,
    a_changed_account_status_is_an_event
);

async fn admin_actions_are_logged_and_can_be_filtered(world: World) {
    let server = &world.server;
    server.upload(query_lexicon(LIST), None).await;
    server.bind(LIST, "function handle() return 1 end").await;
    server.admin(Method::DELETE, &format!("/admin/lexicons/{LIST}"), None).await;

    let lexicons = server.admin(Method::GET, "/admin/events?category=lexicon", None).await;
    let events = lexicons.body["events"].as_array().unwrap();
    let types: Vec<&str> = events.iter().map(|e| e["event_type"].as_str().unwrap()).collect();
    assert_eq!(types, ["lexicon.deleted", "lexicon.created"], "newest first");
    assert_eq!(events[1]["actor_did"], OPERATOR);
    assert_eq!(events[1]["subject"], LIST);
    assert_eq!(events[1]["severity"], "info");
    assert_eq!(events[1]["detail"], json!({ "revision": 1, "source": "manual" }));

    let count = async |query: &str| {
        let answer = server.admin(Method::GET, &format!("/admin/events?{query}"), None).await;
        assert_eq!(answer.status, 200, "{query}: {}", answer.text);
        answer.body["events"].as_array().unwrap().len()
    };
    assert_eq!(count("event_type=script.created").await, 1);
    assert_eq!(count("category=lexicon,script").await, 3);
    assert_eq!(count("subject=listNotes&category=lexicon").await, 2);
    assert_eq!(count("severity=error&category=lexicon").await, 0);
    assert_eq!(count("severity=info,warn&category=lexicon").await, 2);
    assert_eq!(count(&format!("actor={OPERATOR}&category=lexicon")).await, 2);
    assert_eq!(count(&format!("actor={ALICE}&category=lexicon")).await, 0);
    assert_eq!(count("actor=%20&category=lexicon").await, 2);
    let malformed = server.admin(Method::GET, "/admin/events?actor=no%20account", None).await;
    assert_eq!(malformed.status, 400, "{}", malformed.text);
}

async fn pages_follow_each_other_without_gaps(world: World) {
    let server = &world.server;
    for n in 0..7 {
        server.upload(query_lexicon(&format!("com.example.q{n}")), None).await;
    }
    let mut seen = Vec::new();
    let mut path = "/admin/events?category=lexicon&limit=3".to_owned();
    loop {
        let page = server.admin(Method::GET, &path, None).await;
        for event in page.body["events"].as_array().unwrap() {
            seen.push(event["subject"].as_str().unwrap().to_owned());
        }
        let Some(cursor) = page.body["cursor"].as_str() else { break };
        path = format!("/admin/events?category=lexicon&limit=3&cursor={cursor}");
    }
    let expected: Vec<String> = (0..7).rev().map(|n| format!("com.example.q{n}")).collect();
    assert_eq!(seen, expected);
}

async fn events_have_the_address_and_the_credential_of_their_requests(world: World) {
    let server = &world.server;
    let name = json!({ "value": "Notes" }).to_string();
    let key = server.create_key(&["--did", BOB, "--permissions", "stats:read"]);
    for (key, address, status) in [
        (&server.admin_key, "203.0.113.7", 204),
        (&server.admin_key, "203.0.113.8, 2001:db8::8", 204),
        (&key, "203.0.113.9", 403),
    ] {
        let headers = [("authorization", &*format!("Bearer {key}")), ("x-forwarded-for", address)];
        let answer =
            server.request(Method::PUT, "/admin/settings/app_name", &headers, Some(name.clone())).await;
        assert_eq!(answer.status, status, "{}", answer.text);
    }
    let of = async |query: &str| {
        let answer = server.admin(Method::GET, &format!("/admin/events?{query}"), None).await;
        assert_eq!(answer.status, 200, "{query}: {}", answer.text);
        answer.body["events"].as_array().unwrap().clone()
    };
    let [event] = &of("address=203.0.113.7").await[..] else { panic!("one event") };
    assert_eq!(
        (&event["event_type"], &event["authentication"]),
        (&json!("setting.updated"), &json!("api_key"))
    );
    let keys = server.admin(Method::GET, "/admin/api-keys", None).await.body;
    assert!(keys.as_array().unwrap().iter().any(|row| row["name"] == event["api_key"]), "{event} {keys}");
    // The last proxy knows the address; addresses have several texts.
    let other = of("address=2001:0db8:0::8").await;
    assert_eq!((other.len(), &other[0]["address"]), (1, &json!("2001:db8::8")));
    assert_eq!(of("address=203.0.113.8").await.len(), 0);
    let denied = &of("address=203.0.113.9").await[0];
    assert_eq!(
        (&denied["event_type"], &denied["actor_did"]),
        (&json!("auth.permission_denied"), &json!(BOB))
    );
    // The command line has made the keys.
    let own = &of("event_type=api_key.created").await[0];
    assert!(["address", "authentication", "api_key"].iter().all(|field| own[field].is_null()), "{own}");

    // A whole subject, as it is and as a part of another.
    server.admin(Method::DELETE, "/admin/settings/app_name", None).await;
    assert_eq!((of("subject_is=app_name").await.len(), of("subject_is=app_nam").await.len()), (3, 0));
    assert_eq!(of("subject_is=app_name&address=203.0.113.7").await.len(), 1);
    let count = server.admin(Method::GET, "/admin/events/count?address=203.0.113.7", None).await;
    assert_eq!(count.body["count"], 1, "{}", count.text);
    for path in ["/admin/events", "/admin/events/count", "/admin/events/stream"] {
        let answer = server.admin(Method::GET, &format!("{path}?address=203.0.113"), None).await;
        assert_eq!(answer.status, 400, "{path}");
        assert!(answer.error().starts_with("address must be an IP address"), "{}", answer.text);
    }
}

async fn a_wrong_cid_is_an_event_and_no_record(mut world: World) {
    world = world.with_notes().await;
    let record = json!({ "$type": NOTES, "text": "forged" });
    world.push(|at, rev| {
        Frame::forged(at, Place { did: ALICE, collection: NOTES, rkey: "bad", rev }, &record)
    });
    world.note(ALICE, "good", json!({ "text": "fine" })).await;
    let events = world.server.admin(Method::GET, "/admin/events?event_type=record.cid_mismatch", None).await;
    let event = &events.body["events"][0];
    assert_eq!(event["severity"], "warn");
    assert_eq!(event["subject"], format!("at://{ALICE}/{NOTES}/bad"));
    assert_eq!(event["detail"]["rkey"], "bad");
    assert_eq!(world.server.records().await, 1);
}

async fn new_events_are_followed_by_the_conditions_of_the_list(world: World) {
    let server = &world.server;
    for query in
        ["after=2023-11-14T22:13:20Z", "before=2023-11-14T22:13:20Z", "cursor=x", "limit=5", "severity=loud"]
    {
        let refused = server.admin(Method::GET, &format!("/admin/events/stream?{query}"), None).await;
        assert_eq!(refused.status, 400, "{query}");
    }
    let key = server.create_key(&["--did", BOB, "--permissions", "stats:read"]);
    let headers = [("authorization", &*format!("Bearer {key}"))];
    assert_eq!(server.request(Method::GET, "/admin/events/stream", &headers, None).await.status, 403);
    let mut all = event_stream::open(server, "/admin/events/stream?category=setting").await.unwrap();
    let mut deleted = event_stream::open(
        server,
        &format!("/admin/events/stream?event_type=setting.deleted&subject=name&actor={OPERATOR}"),
    )
    .await
    .unwrap();
    assert_eq!(all.headers["content-type"], "text/event-stream");
    assert_eq!(all.first().await, ": open\n\n", "before anything has happened");
    let name = json!({ "value": "Notes" });
    assert_eq!(server.admin(Method::PUT, "/admin/settings/app_name", Some(&name)).await.status, 204);
    assert_eq!(server.admin(Method::DELETE, "/admin/settings/app_name", None).await.status, 204);
    let read = |message: String| {
        let (id, data) = message.strip_prefix("id: ").unwrap().split_once("\ndata: ").unwrap();
        (id.to_owned(), serde_json::from_str::<serde_json::Value>(data).unwrap())
    };
    let (first, second) = (read(all.next().await.unwrap()), read(all.next().await.unwrap()));
    assert_eq!(
        (&first.1["event_type"], &second.1["event_type"]),
        (&json!("setting.updated"), &json!("setting.deleted"))
    );
    assert_eq!(read(deleted.next().await.unwrap()), second);
    // The id is the cursor of the list, which goes on with what was before.
    let list =
        server.admin(Method::GET, &format!("/admin/events?category=setting&cursor={}", second.0), None).await;
    assert_eq!(list.body["events"][0], first.1, "{}", list.text);
    // Those of other hosts are in the database only.
    world
        .execute(
            "INSERT INTO events (created_at, id, event_type, severity, detail) VALUES \
        (4000000000000000, 'elsewhere', 'setting.elsewhere', 'info', '{}')",
        )
        .await;
    assert_eq!(read(all.next().await.unwrap()).1["id"], "elsewhere");
}

async fn a_stream_ends_when_its_user_may_no_longer_read_it(world: World) {
    let server = &world.server;
    let key = server.create_key(&["--did", BOB, "--permissions", "events:read"]);
    let mut stream =
        event_stream::open_with(server, &key, "/admin/events/stream?category=setting").await.unwrap();
    assert_eq!(stream.first().await, ": open\n\n");
    let users = server.admin(Method::GET, "/admin/users", None).await.body;
    let id =
        users.as_array().unwrap().iter().find(|user| user["did"] == BOB).unwrap()["id"].as_str().unwrap();
    let path = format!("/admin/users/{id}/permissions");
    // Another change of users leaves the stream open.
    let change = json!({ "grant": ["stats:read"], "revoke": [] });
    assert_eq!(server.admin(Method::PATCH, &path, Some(&change)).await.status, 200);
    let name = json!({ "value": "Notes" });
    assert_eq!(server.admin(Method::PUT, "/admin/settings/app_name", Some(&name)).await.status, 204);
    assert!(stream.next().await.unwrap().contains("setting.updated"));
    let change = json!({ "grant": [], "revoke": ["events:read"] });
    assert_eq!(server.admin(Method::PATCH, &path, Some(&change)).await.status, 200);
    assert_eq!(stream.next().await, None);
}

async fn open_streams_end_with_the_server(mut world: World) {
    let mut events =
        event_stream::open(&world.server, "/admin/events/stream?category=nothing").await.unwrap();
    assert_eq!(world.server.stop(), Some(0));
    assert_eq!(events.next().await, None);
}

async fn bad_parameters_are_400(world: World) {
    for query in ["severity=loud", "limit=x", "cursor=yesterday", "before=today", "after=1"] {
        let answer = world.server.admin(Method::GET, &format!("/admin/events?{query}"), None).await;
        assert_eq!(answer.status, 400, "{query}");
    }
}

async fn events_are_counted_and_selected_by_time(world: World) {
    let server = &world.server;
    world
        .execute(
            "INSERT INTO events (created_at, id, event_type, severity, detail) VALUES \
        (1700000000000000, 'a', 'test.a', 'info', '{}'), (1700000001000000, 'b', 'test.b', 'error', '{}')",
        )
        .await;
    let first = "2023-11-14T22:13:20Z";
    let second = "2023-11-14T22:13:21Z";
    for (query, ids) in [
        (String::new(), vec!["b", "a"]),
        (format!("&after={first}"), vec!["b", "a"]),
        (format!("&after={second}"), vec!["b"]),
        (format!("&before={second}"), vec!["a"]),
        (format!("&before={second}&after={second}"), vec![]),
        ("&severity=error".to_owned(), vec!["b"]),
    ] {
        let query = format!("category=test{query}");
        let list = server.admin(Method::GET, &format!("/admin/events?{query}"), None).await.body;
        let found: Vec<&str> =
            list["events"].as_array().unwrap().iter().map(|e| e["id"].as_str().unwrap()).collect();
        assert_eq!(found, ids, "{query}");
        let count = server.admin(Method::GET, &format!("/admin/events/count?{query}"), None).await;
        assert_eq!((count.status.as_u16(), count.body), (200, json!({ "count": ids.len() })), "{query}");
    }
    assert_eq!(server.admin(Method::GET, "/admin/events/count?before=x", None).await.status, 400);
}

async fn events_are_purged_by_who_may(world: World) {
    const PURGE: &str = "/admin/events/purge";
    let server = &world.server;
    world
        .execute(
            "INSERT INTO events (created_at, id, event_type, severity, detail) \
        WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500) \
        SELECT i, 'id' || i, CASE WHEN i <= 2400 THEN 'bulk.old' ELSE 'bulk.new' END, 'info', '{}' FROM n",
        )
        .await;
    let count = async |query: &str| {
        server.admin(Method::GET, &format!("/admin/events/count?{query}"), None).await.body["count"]
            .as_i64()
            .unwrap()
    };
    assert_eq!(count("category=bulk").await, 2500);
    let reader = server.create_key(&["--did", BOB, "--permissions", "events:read,jobs:manage"]);
    let headers = [("authorization", &*format!("Bearer {reader}"))];
    let body = json!({ "event_type": "bulk.old" }).to_string();
    let refused = server.request(Method::POST, PURGE, &headers, Some(body.clone())).await;
    assert_eq!((refused.status.as_u16(), refused.error()), (403, "insufficient permissions"));
    for bad in [
        json!({}),
        json!({ "category": " ", "before": null }),
        json!({ "before": "yesterday" }),
        json!({ "severity": "loud" }),
        json!({ "category": 5 }),
    ] {
        let refused = server.admin(Method::POST, PURGE, Some(&bad)).await;
        assert_eq!(refused.status, 400, "{bad} {}", refused.text);
    }
    assert_eq!(server.admin(Method::POST, PURGE, None).await.status, 400);

    let purger = server.create_key(&["--did", ALICE, "--permissions", "events:purge"]);
    let headers = [("authorization", &*format!("Bearer {purger}"))];
    let begun = server.request(Method::POST, PURGE, &headers, Some(body)).await;
    assert_eq!(begun.status, 202, "{}", begun.text);
    let path = format!("/admin/jobs/{}", begun.body["job_id"].as_str().unwrap());
    server
        .eventually("the purge is completed", async |server| {
            server.admin(Method::GET, &path, None).await.body["status"] == "completed"
        })
        .await;
    let job = server.admin(Method::GET, &path, None).await.body;
    assert_eq!(
        (&job["result"], &job["progress"]),
        (&json!({ "deleted": 2400 }), &json!({ "deleted": 2400 }))
    );
    assert_eq!((&job["input"], &job["created_by"]), (&json!({ "event_type": "bulk.old" }), &json!(ALICE)));
    assert_eq!(count("category=bulk").await, 100);
    let log = server.admin(Method::GET, "/admin/events?category=event_logs", None).await.body;
    let entry = &log["events"][0];
    assert_eq!(
        (&entry["severity"], &entry["actor_did"], &entry["subject"], &entry["detail"]),
        (&json!("warn"), &json!(ALICE), &begun.body["job_id"], &json!({ "event_type": "bulk.old" }))
    );

    // Everything until now, but not the entry about it.
    let all = json!({ "before": "2100-01-01T00:00:00Z" });
    let begun = server.admin(Method::POST, PURGE, Some(&all)).await;
    assert_eq!(begun.status, 202, "{}", begun.text);
    server.eventually("only newer events are left", async |_| count("category=bulk").await == 0).await;
    let log = server.admin(Method::GET, "/admin/events?category=event_logs", None).await.body;
    let subjects: Vec<_> = log["events"].as_array().unwrap().iter().map(|event| &event["subject"]).collect();
    assert_eq!(subjects, [&begun.body["job_id"]]);
}

async fn a_denied_service_token_is_an_event(world: World) {
    let server = &world.server;
    server.upload(query_lexicon(LIST), None).await;
    let alice = world.plc.person(ALICE, Algorithm::Es256k);
    let bob = world.plc.person(BOB, Algorithm::Es256k);
    let call = async |token: String| {
        let headers = [("authorization", &*format!("Bearer {token}"))];
        server.request(Method::GET, &format!("/xrpc/{LIST}"), &headers, None).await.status.as_u16()
    };
    let fragment = format!("{}#bsky_appview", server.did());
    for token in [
        alice.token("did:web:elsewhere.example#bsky_appview", json!({})),
        alice.token(&fragment, json!({ "lxm": "com.example.other" })),
        // Bob can't write in Alice's name, and an expired token is no denial.
        bob.token("did:web:elsewhere.example", json!({ "iss": ALICE })),
        alice.token(&server.did(), json!({ "exp": 5 })),
    ] {
        assert_eq!(call(token).await, 401);
    }
    assert_eq!(call(alice.token(&fragment, json!({ "lxm": LIST }))).await, 200);
    let log = server.admin(Method::GET, "/admin/events?event_type=service_auth.access_denied", None).await;
    let seen: Vec<_> = log.body["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| json!([e["severity"], e["actor_did"], e["subject"], e["detail"]]))
        .collect();
    let denied = |reason: &str| json!(["error", ALICE, LIST, { "fragment": "#bsky_appview", "reason": format!("the service token is {reason}") }]);
    assert_eq!(seen, [denied("bound to another method"), denied("meant for another audience")]);
}

async fn a_changed_account_status_is_an_event(mut world: World) {
    world = world.with_notes().await;
    let uri = world.note(ALICE, "a", json!({ "text": "x" })).await;
    // Bob has no records here, and a repeated status is no change.
    world.account(BOB, Some("takendown"));
    for _ in 0..2 {
        world.account(ALICE, Some("takendown"));
    }
    world.wait_for(&uri, false).await;
    world.account(ALICE, None);
    world.wait_for(&uri, true).await;
    world.account(ALICE, Some("deleted"));
    world.wait_for(&uri, false).await;
    // The record is hidden in the commit, and the event is written after it.
    let path = "/admin/events?category=account";
    let is_written = async |server: &Instance| {
        server.admin(Method::GET, path, None).await.body["events"]
            .as_array()
            .is_some_and(|all| all.len() >= 3)
    };
    world.server.eventually("the last event", is_written).await;
    let log = world.server.admin(Method::GET, path, None).await;
    let seen: Vec<_> = log.body["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| json!([e["event_type"], e["severity"], e["subject"], e["detail"]["status"]]))
        .collect();
    let changed = |status: &str| json!(["account.status_changed", "info", ALICE, status]);
    assert_eq!(seen, [changed("deleted"), changed("active"), changed("takendown")]);
}
