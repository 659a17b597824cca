//! `/admin/overview` and `/admin/stats/database`

use http::Method;
use serde_json::json;

use crate::fixtures::{ALICE, BOB, World};
use crate::support::instance::Answer;

async fn overview(world: &World) -> Answer {
    let answer = world.server.admin(Method::GET, "/admin/overview", None).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer
}

crate::in_both_worlds!(
    the_overview_says_what_the_server_does,
    ten_errors_and_ten_backfills_are_shown,
    the_size_of_the_database_is_shown
);

async fn the_overview_says_what_the_server_does(mut world: World) {
    let idle = overview(&world).await;
    assert_eq!(
        (&idle.body["stream"]["state"], &idle.body["stream"]["lag_seconds"]),
        (&json!("idle"), &json!(null))
    );
    assert!(
        idle.body["stream"]["reason"].as_str().unwrap().contains("upload a record lexicon"),
        "{}",
        idle.text
    );

    world = world.with_notes().await;
    world.note(ALICE, "one", json!({ "text": "x" })).await;
    world.server.bind("com.example.broken", "function handle() error('no') end").await;
    world.server.upload(crate::support::instance::query_lexicon("com.example.broken"), None).await;
    assert_eq!(world.server.xrpc("com.example.broken").await.status, 500);
    let seen = overview(&world).await;
    let body = &seen.body;
    assert_eq!(body["records"], json!({ "total": 1, "invalid": 0, "collections": 1 }));
    let stream = &body["stream"];
    assert_eq!(
        (&stream["state"], &stream["is_here"], &stream["reason"]),
        (&json!("live"), &json!(true), &json!(null)),
        "{}",
        seen.text
    );
    assert!(
        stream["events_per_second"].as_f64().unwrap() > 0.0 && stream["cursor"].is_string(),
        "{}",
        seen.text
    );
    assert_eq!(stream["servers"], json!([world.stream.url()]));
    assert!(body["requests"]["per_second"].as_f64().unwrap() > 0.0);
    assert!(body["requests"]["errors_per_second"].as_f64().unwrap() > 0.0);
    assert_eq!(
        (&body["errors"][0]["event_type"], &body["dead_letters"], &body["gaps"]),
        (&json!("script.error"), &json!(0), &json!([]))
    );
    assert_eq!(body["jobs"], json!({ "pending": 0, "running": 0, "paused": 0, "failed": 0 }));
    assert_eq!(body["labelers"], json!({ "active": 0, "connected": 0 }));

    // A backfill that has not ended.
    world.limit_relay();
    let begun = world.server.admin(Method::POST, "/admin/backfill", Some(&json!({}))).await;
    assert_eq!(begun.status, 201, "{}", begun.text);
    let seen = overview(&world).await;
    assert_eq!(seen.body["backfills"][0]["id"], begun.body["id"], "{}", seen.text);

    // Without other permissions the parts that need them are left out.
    let key = world.server.create_key(&["--did", BOB, "--permissions", "stats:read"]);
    let headers = [("authorization", &*format!("Bearer {key}"))];
    let few = world.server.request(Method::GET, "/admin/overview", &headers, None).await;
    assert_eq!(few.status, 200, "{}", few.text);
    for part in ["backfills", "jobs", "dead_letters", "labelers", "errors"] {
        assert!(few.body[part].is_null(), "{part} {}", few.text);
    }
    assert_eq!(few.body["records"]["total"], 1);
}

async fn ten_errors_and_ten_backfills_are_shown(mut world: World) {
    world = world.with_notes().await;
    let server = &world.server;
    for n in 0..12 {
        let nsid = format!("com.example.broken{n}");
        server.upload(crate::support::instance::query_lexicon(&nsid), None).await;
        server.bind(&nsid, "function handle() error('no') end").await;
        assert_eq!(server.xrpc(&nsid).await.status, 500);
    }
    world.limit_relay();
    for n in 0..12 {
        let collection = format!("com.example.kind{n}");
        server.upload(crate::support::instance::record_lexicon(&collection), None).await;
        let body = json!({ "collection": collection });
        let begun = server.admin(Method::POST, "/admin/backfill", Some(&body)).await;
        assert_eq!(begun.status, 201, "{}", begun.text);
    }
    let seen = overview(&world).await;
    let length = |part: &str| seen.body[part].as_array().map(Vec::len);
    assert_eq!((length("errors"), length("backfills")), (Some(10), Some(10)), "{}", seen.text);
    assert_eq!(seen.body["errors"][0]["subject"], "com.example.broken11", "the last ones: {}", seen.text);
}

async fn the_size_of_the_database_is_shown(mut world: World) {
    world = world.with_notes().await;
    world.note(ALICE, "one", json!({ "text": "x" })).await;
    let answer = world.server.admin(Method::GET, "/admin/stats/database", None).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let backend = if world.is_postgres() { "postgres" } else { "sqlite" };
    assert_eq!(answer.body["backend"], backend);
    assert!(answer.body["size_bytes"].as_i64().unwrap() > 100_000, "{}", answer.text);
    let tables = answer.body["tables"].as_array().unwrap();
    let records = tables.iter().find(|table| table["name"] == "records").unwrap();
    assert!(
        records["bytes"].as_i64().unwrap() > 0 && records["index_bytes"].as_i64().unwrap() > 0,
        "{}",
        answer.text
    );
    assert!(tables.len() > 20 && tables.len() <= 50 && !answer.text.contains("sqlite_"), "{}", answer.text);
}
