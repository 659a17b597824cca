//! The states of a backfill, and the queue.

use crate::fixtures::World;
use http::Method;
use serde_json::{Value, json};

use super::{control, job, list, start, until, with_endless_discovery};
use crate::fixtures::{ALICE, BOB, LIST, NOTES};
use crate::support::instance::{OPERATOR, record_lexicon};

crate::in_both_worlds!(
    pause_resume_and_cancel_follow_the_states,
    backfills_wait_for_each_other,
    the_list_has_pages_and_single_backfills,
    the_queue_is_bounded,
    a_backfill_reads_what_the_relay_lists,
    a_collection_without_a_record_lexicon_fails,
    a_restart_continues_a_backfill_and_settles_requests
);

async fn pause_resume_and_cancel_follow_the_states(world: World) {
    let world = with_endless_discovery(world).await;
    let server = &world.server;
    let id = start(server, json!({ "collection": NOTES })).await;
    server
        .eventually("the discovery begins", async |server| {
            job(server, &id).await["stage"] == "discovering_repos"
        })
        .await;
    let shown = job(server, &id).await;
    let keys: Vec<_> = shown.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = [
        "bytes_fetched",
        "bytes_kept",
        "collection",
        "completed_at",
        "created_at",
        "did",
        "error",
        "failed_repos",
        "id",
        "kind",
        "lists_all_repos",
        "processed_repos",
        "resolved_repos",
        "sources",
        "stage",
        "started_at",
        "status",
        "total_records",
        "total_repos",
    ];
    assert_eq!(keys, expected);
    assert!(shown["started_at"].is_string() && shown["completed_at"].is_null(), "{shown}");

    let refused = async |verb: &str, status: &str| {
        let answer = control(server, &id, verb).await;
        assert_eq!(answer.status, 400, "{verb}: {}", answer.text);
        assert!(answer.error().contains(&format!("that is {status} can't be")), "{}", answer.error());
    };
    let accepted = async |verb: &str, status: &str| {
        let answer = control(server, &id, verb).await;
        assert_eq!((answer.status.as_u16(), &answer.body), (200, &json!({ "id": id, "status": status })));
    };
    refused("resume", "running").await;
    accepted("pause", "pausing").await;
    let paused = until(server, &id, "paused").await;
    assert_eq!((&paused["stage"], &paused["completed_at"]), (&json!("discovering_repos"), &Value::Null));
    refused("pause", "paused").await;
    refused("cancel", "paused").await;
    let path = format!("/admin/backfill/{id}/details");
    let answer = server.admin(Method::DELETE, &path, None).await;
    assert_eq!(answer.status, 400, "it needs them: {}", answer.text);
    accepted("resume", "running").await;
    accepted("cancel", "cancelling").await;
    let cancelled = until(server, &id, "cancelled").await;
    assert_eq!(cancelled["stage"], "cancelled");
    assert!(cancelled["completed_at"].is_string(), "{cancelled}");
    for verb in ["pause", "resume", "cancel"] {
        refused(verb, "cancelled").await;
    }
    assert_eq!(server.admin(Method::DELETE, &path, None).await.status, 204);

    server
        .eventually("the end is in the event log", async |server| {
            let log = server.admin(Method::GET, "/admin/events?category=backfill", None).await;
            let mut seen: Vec<_> = log.body["events"]
                .as_array()
                .unwrap()
                .iter()
                .map(|event| {
                    assert_eq!(
                        (&event["actor_did"], &event["detail"]["job_id"]),
                        (&json!(OPERATOR), &json!(id))
                    );
                    event["event_type"].as_str().unwrap().to_owned()
                })
                .collect();
            seen.reverse();
            seen == [
                "backfill.started",
                "backfill.pausing",
                "backfill.resumed",
                "backfill.cancelling",
                "backfill.cancelled",
            ]
        })
        .await;
}

async fn backfills_wait_for_each_other(world: World) {
    let world = with_endless_discovery(world).await;
    let server = &world.server;
    let first = start(server, json!({ "collection": NOTES })).await;
    server
        .eventually("the first runs", async |server| {
            job(server, &first).await["stage"] == "discovering_repos"
        })
        .await;
    // No body: everything.
    let key = format!("Bearer {}", server.admin_key);
    let answer = server.request(Method::POST, "/admin/backfill", &[("authorization", &key)], None).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    let second = answer.body["id"].as_str().unwrap().to_owned();
    let third = start(server, json!({ "collection": null, "did": ALICE })).await;
    let ids: Vec<_> = list(server).await.iter().map(|job| job["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids, [&*third, &*second, &*first], "newest first");
    for id in [&second, &third] {
        let waiting = job(server, id).await;
        assert_eq!((&waiting["status"], &waiting["stage"]), (&json!("running"), &json!("pending")));
    }
    // A waiting job can be paused and cancelled.
    assert_eq!(control(server, &second, "pause").await.status, 200);
    until(server, &second, "paused").await;
    assert_eq!(control(server, &third, "cancel").await.status, 200);
    until(server, &third, "cancelled").await;
    // A paused job does not hold up the others.
    world.repo(ALICE, &["a"]);
    let fourth = start(server, json!({ "did": ALICE })).await;
    assert_eq!(control(server, &first, "pause").await.status, 200);
    until(server, &first, "paused").await;
    until(server, &fourth, "completed").await;
}

async fn the_list_has_pages_and_single_backfills(world: World) {
    world
        .execute(
            "INSERT INTO backfill_jobs (id, status, stage, is_discovered, created_at, completed_at) VALUES \
        ('a', 'completed', 'completed', 0, 1, 9), ('b', 'completed', 'completed', 0, 2, 9), \
        ('c', 'completed', 'completed', 0, 2, 9)",
        )
        .await;
    let server = &world.server;
    let shown = async |query: &str| {
        let answer = server.admin(Method::GET, &format!("/admin/backfill/status{query}"), None).await;
        assert_eq!(answer.status, 200, "{query}: {}", answer.text);
        answer
            .body
            .as_array()
            .unwrap()
            .iter()
            .map(|job| job["id"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    for (query, expected) in [
        ("", &["c", "b", "a"][..]),
        ("?id=b", &["b"]),
        ("?id=unknown", &[]),
        ("?limit=2", &["c", "b"]),
        ("?limit=2&cursor=b", &["a"]),
        ("?cursor=c", &["b", "a"]),
        ("?limit=2&cursor=a", &[]),
    ] {
        assert_eq!(shown(query).await, expected, "{query}");
    }
    for query in ["limit=many", "cursor=unknown"] {
        let answer = server.admin(Method::GET, &format!("/admin/backfill/status?{query}"), None).await;
        assert_eq!(answer.status, 400, "{query}: {}", answer.text);
    }
}

async fn the_queue_is_bounded(world: World) {
    world.execute("INSERT INTO backfill_jobs (id, status, stage, is_discovered, created_at) \
        SELECT 'job' || n, 'paused', 'pending', 0, 1 FROM ( \
            WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 1000) SELECT n FROM c) AS c").await;
    let server = &world.server;
    // Otherwise the resumed job may end before it is cancelled: the relay has no repos.
    world.limit_relay();
    let answer = server.admin(Method::POST, "/admin/backfill", None).await;
    assert_eq!(answer.status, 429, "{}", answer.text);
    assert!(answer.error().starts_with("1000 backfills have not ended"), "{}", answer.text);
    // An upload stores its lexicon all the same.
    let body = json!({ "lexicon_json": record_lexicon(NOTES) });
    let answer = server.admin(Method::POST, "/admin/lexicons", Some(&body)).await;
    assert_eq!((answer.status.as_u16(), &answer.body["backfill_job_id"]), (201, &Value::Null));
    assert_eq!(control(server, "job7", "resume").await.status, 200);
    assert_eq!(control(server, "job7", "cancel").await.status, 200);
    until(server, "job7", "cancelled").await;
    start(server, json!({ "collection": NOTES })).await;
}

async fn a_backfill_reads_what_the_relay_lists(world: World) {
    world.repo(ALICE, &["a", "b", "c"]);
    world.repo(BOB, &["d"]);
    let world = world.with_notes().await;
    let server = &world.server;
    let id = start(server, json!({ "collection": NOTES })).await;
    let done = until(server, &id, "completed").await;
    let counters = ["total_repos", "resolved_repos", "processed_repos", "total_records"];
    assert_eq!(counters.map(|name| done[name].as_i64().unwrap()), [2, 2, 2, 4]);
    assert_eq!((&done["stage"], &done["error"]), (&json!("completed"), &Value::Null));
    assert_eq!(server.records().await, 4);
    let note = server.xrpc(&format!("{LIST}?uri=at://{BOB}/{NOTES}/d")).await;
    assert_eq!(note.body["record"]["text"], "d", "{}", note.text);
    server
        .eventually("the end is in the event log", async |server| {
            let log = server.admin(Method::GET, "/admin/events?event_type=backfill.completed", None).await;
            log.body["events"][0]["detail"]
                == json!({ "job_id": id, "total_repos": 2, "failed_repos": 0, "total_records": 4 })
        })
        .await;
}

async fn a_collection_without_a_record_lexicon_fails(world: World) {
    let server = &world.server;
    let id = start(server, json!({ "collection": "com.example.unknown" })).await;
    let failed = until(server, &id, "failed").await;
    assert_eq!(failed["stage"], "failed");
    assert!(!failed["error"].as_str().unwrap().is_empty(), "{failed}");
    let id = start(server, json!({})).await;
    let done = until(server, &id, "completed").await;
    assert!(!done["error"].as_str().unwrap().is_empty(), "there is no record lexicon: {done}");
}

async fn a_restart_continues_a_backfill_and_settles_requests(mut world: World) {
    world = with_endless_discovery(world).await;
    let running = start(&world.server, json!({ "collection": NOTES })).await;
    let paused = start(&world.server, json!({ "collection": NOTES })).await;
    assert_eq!(control(&world.server, &paused, "pause").await.status, 200);
    until(&world.server, &paused, "paused").await;
    let code = world.server.stop();
    assert_eq!(code, Some(0));
    world.server.start_again().await;
    let server = &world.server;
    assert_eq!(job(server, &paused).await["status"], "paused");
    assert_eq!(job(server, &running).await["status"], "running");
    assert_eq!(control(server, &running, "cancel").await.status, 200);
    until(server, &running, "cancelled").await;
}
