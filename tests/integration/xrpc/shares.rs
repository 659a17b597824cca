//! Limits that keep one client from slowing down others: bytes of pages, concurrent reads, log lines.

use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{ALICE, LIST, NOTES, World};
use crate::support::instance::{Answer, Instance, query_lexicon};

/// Binds a script to a query over the notes.
async fn bind(world: &World, nsid: &str, source: &str) {
    world.server.upload(query_lexicon(nsid), Some(NOTES)).await;
    world.server.bind(nsid, source).await;
}

async fn call_as(server: &Instance, key: &str, path: &str) -> Answer {
    server.request(Method::GET, &format!("/xrpc/{path}"), &[("x-client-key", key)], None).await
}

/// All rkeys of a list, page by page, and the number of pages.
async fn walk(mut page: impl AsyncFnMut(String) -> Value) -> (Vec<String>, usize) {
    let (mut seen, mut pages, mut rest) = (Vec::new(), 0, String::new());
    loop {
        let body = page(rest).await;
        let records = body["records"].as_array().unwrap();
        assert!(!records.is_empty());
        seen.extend(
            records.iter().map(|r| r["uri"].as_str().unwrap().rsplit('/').next().unwrap().to_owned()),
        );
        pages += 1;
        match body["cursor"].as_str() {
            Some(cursor) => rest = format!("&cursor={cursor}"),
            None => return (seen, pages),
        }
    }
}

crate::in_both_worlds!(
    pages_of_large_records_end_at_a_mebibyte,
    one_clients_statements_do_not_block_others_reads,
    log_lines_of_a_client_are_bounded_and_drops_are_reported
);

async fn pages_of_large_records_end_at_a_mebibyte(mut world: World) {
    world = world.with_notes().await;
    let large = "x".repeat(600_000);
    for n in 0..8 {
        let text = if n == 3 { "small" } else { &large };
        world.note(ALICE, &format!("n{n}"), json!({ "text": text, "n": n })).await;
    }
    bind(
        &world,
        "com.example.queried",
        "function handle()
                return db.query{ collection = collection, sort = 'n', limit = 100, cursor = params.cursor }
            end",
    )
    .await;
    bind(&world, "com.example.loaded", "function handle()
                local uris = {}
                for n in params.keys:gmatch('%d') do uris[#uris + 1] = 'at://did:plc:alicealicealicealicealic/com.example.note/n' .. n end
                return #Record.load_all(uris)
            end").await;
    let server = &world.server;
    let newest = ["n7", "n6", "n5", "n4", "n3", "n2", "n1", "n0"].map(str::to_owned);
    let list = async |rest: String| server.xrpc(&format!("{LIST}?limit=100{rest}")).await.body;
    assert_eq!(walk(list).await, (newest.to_vec(), 7));
    let admin = async |rest: String| {
        server
            .admin(Method::GET, &format!("/admin/records?collection={NOTES}&limit=100{rest}"), None)
            .await
            .body
    };
    assert_eq!(walk(admin).await, (newest.to_vec(), 7));
    let queried = async |rest: String| server.xrpc(&format!("com.example.queried?x=1{rest}")).await.body;
    assert_eq!(walk(queried).await, (newest.to_vec(), 7));

    let few = server.xrpc("com.example.loaded?keys=0123").await;
    assert_eq!((few.status.as_u16(), few.body), (200, json!(4)), "{}", few.text);
    assert_eq!(server.xrpc("com.example.loaded?keys=01234567").await.status, 500);
    let events = server.admin(Method::GET, "/admin/events?event_type=script.error", None).await;
    let error = events.body["events"][0]["detail"]["error"].as_str().unwrap().to_owned();
    assert!(error.contains("load fewer at once"), "{error}");
}

async fn one_clients_statements_do_not_block_others_reads(mut world: World) {
    world = world.with_notes().await;
    for n in 0..60 {
        world.push(|at, rev| {
            let record = json!({ "$type": NOTES, "text": format!("note {n}"), "n": n });
            let (rkey, rev) = (format!("n{n}"), rev.to_owned());
            belvedere_standins::jetstream::Frame::create(
                at,
                belvedere_standins::jetstream::Place {
                    did: ALICE,
                    collection: NOTES,
                    rkey: &rkey,
                    rev: &rev,
                },
                &record,
            )
        });
    }
    world.server.eventually("the notes", async |server| server.records().await == 60).await;
    // Some hundreds of millions of rows: it is aborted at its deadline.
    bind(&world, "com.example.greedy", "function handle()
                return db.raw('SELECT count(*) AS n FROM records a, records b, records c, records d, records e '
                    .. 'WHERE a.indexed_us + b.indexed_us + c.indexed_us + d.indexed_us + e.indexed_us = 7')
            end").await;
    bind(&world, "com.example.modest", "function handle()
                local like = db.query{ collection = collection, filter = { field = 'text', op = 'LIKE', value = '%5%' } }
                local sorted = db.query{ collection = collection, sort = 'n', limit = 1 }
                local found = db.search{ collection = collection, field = 'text', query = 'note' }
                return { #like.records, sorted.records[1].n, #found.records, db.count(collection) }
            end").await;
    let server = &world.server;
    let key = server.create_client("greedy").await;
    let greedy = async {
        tokio::join!(
            call_as(server, &key, "com.example.greedy"),
            call_as(server, &key, "com.example.greedy"),
            call_as(server, &key, "com.example.greedy"),
            call_as(server, &key, "com.example.greedy"),
        )
    };
    let mut greedy = std::pin::pin!(greedy);
    let modest = async {
        for _ in 0..2 {
            let answer = server.xrpc("com.example.modest").await;
            assert_eq!(answer.body, json!([15, 59, 10, 60]), "{}", answer.text);
            assert_eq!(server.xrpc(LIST).await.status, 200);
        }
    };
    tokio::select! {
        biased;
        ended = &mut greedy => panic!("the statements ended before the others' reads: {ended:?}"),
        () = modest => {}
    }
    let (a, b, c, d) = greedy.await;
    for answer in [a, b, c, d] {
        assert_eq!(answer.status, 500, "{}", answer.text);
    }
}

async fn log_lines_of_a_client_are_bounded_and_drops_are_reported(world: World) {
    bind(
        &world,
        "com.example.logs",
        "function handle()
                local line = ('x'):rep(4000)
                for i = 1, 100 do log(line) end
                return true
            end",
    )
    .await;
    bind(&world, "com.example.says", "function handle() log('one line') return true end").await;
    let server = &world.server;
    for _ in 0..6 {
        assert_eq!(server.xrpc("com.example.logs").await.body, json!(true));
    }
    // Another client's line is logged, and after a while the number of this client's dropped lines is too.
    let key = server.create_client("greedy").await;
    assert_eq!(call_as(server, &key, "com.example.says").await.body, json!(true));
    let path = "/admin/events?event_type=script.log&limit=1";
    let newest = server.admin(Method::GET, path, None).await;
    assert_eq!(newest.body["events"][0]["detail"]["message"], "one line");
    let reported = async |server: &Instance| {
        server.xrpc("com.example.says").await;
        let events = server.admin(Method::GET, "/admin/events?event_type=script.log&limit=100", None).await;
        events.body["events"]
            .as_array()
            .unwrap()
            .iter()
            .any(|event| event["detail"]["message"].as_str().unwrap().contains("lines were dropped"))
    };
    server.eventually("the report of what was dropped", reported).await;
}
