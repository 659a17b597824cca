//! `/admin/scripts/reindex`: record scripts run on stored records.

use belvedere_standins::jetstream::{Frame, Place};
use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{ALICE, BOB, LIST, NOTES, World};
use crate::support::instance::Instance;

crate::in_both_worlds!(
    a_script_decides_on_stored_records,
    what_was_chosen_is_reindexed,
    a_reindexing_goes_on_where_it_was_paused,
    kills_leave_no_record_out,
    invalid_requests_are_refused
);

async fn bind(world: &World, body: &str) {
    let script = json!({ "id": format!("record.index:{NOTES}"), "body": body });
    let saved = world.server.admin(Method::POST, "/admin/scripts", Some(&script)).await;
    assert!(saved.status.is_success(), "{}", saved.text);
}

async fn start(server: &Instance, request: Value) -> String {
    let started = server.admin(Method::POST, "/admin/scripts/reindex", Some(&request)).await;
    assert_eq!(started.status, 202, "{}", started.text);
    started.body["job_id"].as_str().unwrap().to_owned()
}

async fn until(server: &Instance, id: &str, status: &str) -> Value {
    let path = format!("/admin/jobs/{id}");
    let is = async |server: &Instance| server.admin(Method::GET, &path, None).await.body["status"] == status;
    server.eventually(&format!("{id} is {status}"), is).await;
    server.admin(Method::GET, &path, None).await.body
}

async fn reindex(world: &World, request: Value) -> Value {
    let id = start(&world.server, request).await;
    until(&world.server, &id, "completed").await["result"].clone()
}

/// The texts of the notes, in their order of keys.
async fn texts(world: &World) -> Vec<String> {
    let path = format!("/admin/records?collection={NOTES}&limit=100");
    let listed = world.server.admin(Method::GET, &path, None).await.body;
    let mut notes: Vec<(String, String)> = listed["records"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            (row["rkey"].as_str().unwrap().to_owned(), row["record"]["text"].as_str().unwrap().to_owned())
        })
        .collect();
    notes.sort();
    notes.into_iter().map(|(_, text)| text).collect()
}

async fn with_notes(world: World) -> World {
    let mut world = world.with_notes().await;
    for (did, rkey) in [(ALICE, "a"), (ALICE, "b"), (BOB, "c"), (BOB, "d")] {
        world.note(did, rkey, json!({ "text": rkey })).await;
    }
    world
}

async fn a_script_decides_on_stored_records(world: World) {
    let mut world = with_notes(world).await;
    bind(
        &world,
        "function handle()
           assert(action == 'create')
           if rkey == 'a' then record.text = record.text .. '!' return record end
           if rkey == 'b' then return nil end
           if rkey == 'c' then error('no luck') end
           return true
         end",
    )
    .await;
    let result = reindex(&world, json!({ "collection": NOTES })).await;
    assert_eq!(result, json!({ "records": 4, "replaced": 1, "removed": 1, "failed": 1 }));
    assert_eq!(texts(&world).await, ["a!", "c", "d"]);
    let letters = world.server.admin(Method::GET, "/admin/dead-letters", None).await.body;
    assert_eq!(letters["dead_letters"][0]["rkey"], "c");
    // Again, it decides on what is stored now.
    let result = reindex(&world, json!({ "collection": NOTES })).await;
    assert_eq!(result, json!({ "records": 3, "replaced": 1, "removed": 0, "failed": 1 }));
    assert_eq!(texts(&world).await, ["a!!", "c", "d"]);
    // A later commit replaces what the job has stored.
    world.note(ALICE, "a", json!({ "text": "z" })).await;
    world.server.eventually("the commit", async |_| texts(&world).await[0] == "z!").await;
}

async fn what_was_chosen_is_reindexed(world: World) {
    let world = with_notes(world).await;
    bind(&world, "function handle() record.text = record.text .. '!' return record end").await;
    let result = reindex(&world, json!({ "collection": NOTES, "did": BOB })).await;
    assert_eq!(result["replaced"], 2);
    assert_eq!(texts(&world).await, ["a", "b", "c!", "d!"]);
    let result = reindex(&world, json!({ "collection": NOTES, "since": "2999-01-01T00:00:00Z" })).await;
    assert_eq!(result["records"], 0);
    let result = reindex(&world, json!({ "collection": NOTES, "since": "1999-01-01T00:00:00Z" })).await;
    assert_eq!(result["replaced"], 4);

    let output = world.server.run(&[
        "script",
        "reindex",
        NOTES,
        "--did",
        ALICE,
        "--wait",
        "--url",
        &format!("http://{}", world.server.address),
        "--key",
        &world.server.admin_key,
    ]);
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &printed["replaced"]), (Some(0), &json!(2)));
    assert_eq!(texts(&world).await, ["a!!", "b!!", "c!!", "d!!"]);
}

async fn a_reindexing_goes_on_where_it_was_paused(world: World) {
    let world = with_notes(world).await;
    // Counting takes a while, so that the loop has few calls of the host.
    let waits = "local count = 'WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 50000) \
                 SELECT count(*) AS n FROM c' \
                 function handle() db.raw('INSERT INTO script_seen (rkey) VALUES ($1)', { rkey }) \
                 while rkey == 'b' and #db.raw('SELECT n FROM script_gate') == 0 do db.raw(count) end return true end";
    let setup = "function handle() db.raw('CREATE TABLE script_seen (rkey text)') \
                 db.raw('CREATE TABLE script_gate (n integer)') end";
    let script = json!({ "id": "setup:seen", "body": setup });
    assert_eq!(world.server.admin(Method::POST, "/admin/scripts", Some(&script)).await.status, 201);
    bind(&world, waits).await;
    let id = start(&world.server, json!({ "collection": NOTES })).await;
    let console = async |sql: &str| {
        world.server.admin(Method::POST, "/admin/sql", Some(&json!({ "sql": sql }))).await.body["rows"]
            .clone()
    };
    let seen = "SELECT rkey FROM script_seen ORDER BY rkey";
    world
        .server
        .eventually("the record b", async |_| console(seen).await.as_array().unwrap().len() == 3)
        .await;
    let paused = world.server.admin(Method::POST, &format!("/admin/jobs/{id}/pause"), None).await;
    assert_eq!(paused.body["status"], "pausing");
    world
        .server
        .bind(LIST, "function handle() return db.raw('INSERT INTO script_gate (n) VALUES (1)') end")
        .await;
    assert_eq!(world.server.xrpc(LIST).await.status, 200);
    let job = until(&world.server, &id, "paused").await;
    assert_eq!(job["progress"]["records"], 3, "{job}");
    let resumed = world.server.admin(Method::POST, &format!("/admin/jobs/{id}/resume"), None).await;
    assert_eq!(resumed.status, 200);
    let job = until(&world.server, &id, "completed").await;
    assert_eq!(job["result"]["records"], 4, "{job}");
    assert_eq!(console(seen).await.as_array().unwrap().len(), 4, "none has run twice");
}

async fn invalid_requests_are_refused(world: World) {
    for (request, status, reason) in [
        (json!({ "collection": NOTES }), 404, "no script is bound to record.create:"),
        (json!({ "collection": "notes" }), 400, "collection"),
        (json!({ "collection": NOTES, "since": "yesterday" }), 400, "since"),
    ] {
        let refused = world.server.admin(Method::POST, "/admin/scripts/reindex", Some(&request)).await;
        assert_eq!(
            (refused.status.as_u16(), refused.text.contains(reason)),
            (status, true),
            "{}",
            refused.text
        );
    }
    bind(&world, "function handle() return true end").await;
    let request = json!({ "collection": NOTES, "did": "did:plc:\u{0}" });
    assert_eq!(world.server.admin(Method::POST, "/admin/scripts/reindex", Some(&request)).await.status, 400);
}

/// The server is killed in the middle, several times: the job goes on after each start.
async fn kills_leave_no_record_out(world: World) {
    const RECORDS: u64 = 300;
    const KILLS: u64 = 3;
    let mut world = world.with_notes().await;
    for n in 0..RECORDS {
        let (rkey, record) = (format!("k{n:03}"), json!({ "$type": NOTES, "text": "x" }));
        world.push(|at, rev| {
            Frame::create(at, Place { did: ALICE, collection: NOTES, rkey: &rkey, rev }, &record)
        });
    }
    world.server.eventually("the notes", async |server| server.records().await == RECORDS).await;
    let setup = "function handle() db.raw('CREATE TABLE script_seen (rkey text)') end";
    let script = json!({ "id": "setup:seen", "body": setup });
    assert_eq!(world.server.admin(Method::POST, "/admin/scripts", Some(&script)).await.status, 201);
    bind(
        &world,
        "local count = 'WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 5000) SELECT count(*) AS n FROM c'
         function handle() db.raw(count) db.raw('INSERT INTO script_seen (rkey) VALUES ($1)', { rkey }) return true end",
    )
    .await;
    let number = async |server: &Instance, sql: &str| {
        let answer = server.admin(Method::POST, "/admin/sql", Some(&json!({ "sql": sql }))).await;
        let rows = answer.body["rows"].to_string();
        rows.trim_matches(|c: char| !c.is_ascii_digit())
            .rsplit(|c: char| !c.is_ascii_digit())
            .next()
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    let distinct = "SELECT count(DISTINCT rkey) AS n FROM script_seen";
    let id = start(&world.server, json!({ "collection": NOTES })).await;
    for kill in 1..=KILLS {
        let enough = kill * 60;
        world
            .server
            .eventually("some records", async |server| number(server, distinct).await >= enough)
            .await;
        assert!(number(&world.server, distinct).await < RECORDS, "the job has not ended");
        world.server.kill();
        world.server.start_again().await;
    }
    let job = until(&world.server, &id, "completed").await;
    assert_eq!(number(&world.server, distinct).await, RECORDS, "none is left out");
    assert_eq!(job["result"]["failed"], 0, "{job}");
}
