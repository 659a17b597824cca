//! `/admin/sql`.

use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{ALICE, LIST, NOTES, World};
use crate::support::instance::{Answer, Instance};

async fn run(server: &Instance, body: Value) -> Answer {
    server.admin(Method::POST, "/admin/sql", Some(&body)).await
}

crate::in_both_worlds!(
    a_select_is_answered_explained_and_logged,
    the_console_reads_what_scripts_read,
    the_tables_that_can_be_read_are_listed
);

async fn a_select_is_answered_explained_and_logged(world: World) {
    let world = world.with_notes().await;
    let server = &world.server;
    let sql = "SELECT id, authority_did, target_collection AS target FROM lexicons WHERE id = $1";
    let found = run(server, json!({ "sql": sql, "params": [NOTES] })).await;
    assert_eq!(found.status, 200, "{}", found.text);
    assert_eq!(found.body["columns"], json!(["id", "authority_did", "target"]));
    assert_eq!(found.body["rows"], json!([{ "id": NOTES }]));
    assert!(found.body["duration_ms"].is_number());

    let plan = run(
        server,
        json!({ "sql": "SELECT uri FROM records WHERE uri = $1", "params": ["at://did:plc:a/a.b.c/1"],
        "explain": true }),
    )
    .await;
    assert_eq!(plan.body["columns"], json!(["plan"]), "{}", plan.text);
    assert!(!plan.body["rows"].as_array().unwrap().is_empty());

    let events = async |count: usize| {
        let path = "/admin/events?event_type=sql.run";
        let stored = async |server: &Instance| {
            server.admin(Method::GET, path, None).await.body["events"].as_array().unwrap().len() == count
        };
        server.eventually("the events", stored).await;
        server.admin(Method::GET, path, None).await.body["events"].clone()
    };
    let seen = events(2).await;
    assert!(seen[1]["actor_did"].as_str().unwrap().starts_with("did:"), "{seen}");
    let detail = &seen[1]["detail"];
    assert_eq!(
        (&detail["sql"], &detail["rows"], &detail["explain"]),
        (&json!(sql), &json!(1), &json!(false))
    );
    assert!(detail.get("params").is_none() && !seen.to_string().contains("did:plc:a/a.b.c"), "{seen}");

    // Failures are logged too, and long statements are cut.
    let long = format!("SELECT nothing FROM records /* {} */", "x".repeat(8_000));
    assert_eq!(run(server, json!({ "sql": long })).await.status, 400);
    let seen = events(3).await;
    assert!(seen[0]["detail"]["error"].as_str().unwrap().contains("nothing"), "{seen}");
    assert!(seen[0]["detail"]["sql"].as_str().unwrap().len() < long.len());
}

async fn the_console_reads_what_scripts_read(world: World) {
    let server = &world.server;
    for (body, message) in [
        (json!({ "sql": "SELECT *\nFROM records WHERE )" }), "Line: 2, Column: 20"),
        (json!({ "sql": "SELECT * FROM api_keys" }), "table api_keys can't be used"),
        (json!({ "sql": "SELECT * FROM api_keys", "explain": true }), "table api_keys can't be used"),
        (json!({ "sql": "SELECT key_hash FROM public.api_keys" }), "can't be used"),
        (json!({ "sql": "SELECT * FROM script_variables" }), "script_variables"),
        (
            json!({ "sql": "CREATE TABLE script_x (n integer)" }),
            "a statement other than SELECT in the SQL console",
        ),
        (json!({ "sql": "DELETE FROM records" }), "a statement other than SELECT"),
        (json!({ "sql": "SELECT 1; SELECT 2" }), "only one statement"),
        (json!({ "sql": " " }), "no statement"),
        (json!({ "sql": "SELECT \0" }), "NUL"),
        (json!({ "sql": "SELECT $1 AS a", "params": ["a\0b"] }), "NUL"),
        (json!({ "sql": "SELECT $1 AS a", "params": [[]] }), "a parameter must be text"),
        (json!({ "sql": "SELECT $1 AS a" }), "has 1 parameters, but 0 were given"),
        (json!({ "sql": format!("SELECT '{}' AS a", "x".repeat(200_000)) }), "too long"),
        (json!({ "explain": true }), "sql"),
        (
            json!({ "sql": "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 2000) SELECT n FROM t" }),
            "more than 1000 rows",
        ),
    ] {
        let answer = run(server, body.clone()).await;
        assert_eq!(answer.status, 400, "{body}: {}", answer.text);
        assert!(answer.body["error"].as_str().unwrap().contains(message), "{body}: {}", answer.text);
    }
    // Reading by SQL needs the permission to write scripts.
    let permissions = "records:read,scripts:read,jobs:create,stats:read";
    let key = server.create_key(&["--did", ALICE, "--permissions", permissions]);
    let headers = [("authorization", &*format!("Bearer {key}"))];
    let body = Some(json!({ "sql": "SELECT 1 AS n" }).to_string());
    assert_eq!(server.request(Method::POST, "/admin/sql", &headers, body).await.status, 403);
}

async fn the_tables_that_can_be_read_are_listed(world: World) {
    let world = world.with_notes().await;
    let server = &world.server;
    server
        .bind(
            LIST,
            "function handle() db.raw('CREATE TABLE script_seen (uri text, n integer)') return {} end",
        )
        .await;
    assert_eq!(server.xrpc(LIST).await.status, 200);
    let found = server.admin(Method::GET, "/admin/sql/tables", None).await;
    assert_eq!(found.status, 200, "{}", found.text);
    let tables = found.body["tables"].as_array().unwrap();
    let names: Vec<&str> = tables.iter().filter_map(|table| table["name"].as_str()).collect();
    assert_eq!(names, ["accounts", "labels", "lexicons", "record_refs", "records", "script_seen"]);
    assert_eq!(tables[5], json!({ "name": "script_seen", "columns": ["uri", "n"], "own": true }));
    assert_eq!((&tables[0]["columns"][1], &tables[0]["own"]), (&json!("handle"), &json!(false)));
    let key = server.create_key(&["--did", ALICE, "--permissions", "scripts:read"]);
    let headers = [("authorization", &*format!("Bearer {key}"))];
    assert_eq!(server.request(Method::GET, "/admin/sql/tables", &headers, None).await.status, 403);
}
