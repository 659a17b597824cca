//! `/admin/stats/scripts` and `/admin/stats/indexes`

use http::Method;
use serde_json::json;

use crate::fixtures::{ALICE, NOTES, World};
use crate::support::instance::query_lexicon;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_script_is_counted_separately() {
    let world = World::sqlite().await;
    let server = &world.server;
    for (nsid, source) in [
        ("com.example.cheap", "function handle() return 1 end"),
        (
            "com.example.dear",
            "function handle() for i = 1, 200000 do end if params.fail then error('no') end end",
        ),
        ("com.example.idle", "function handle() end"),
    ] {
        server.upload(query_lexicon(nsid), None).await;
        server.bind(nsid, source).await;
    }
    for path in ["com.example.cheap", "com.example.cheap", "com.example.dear", "com.example.dear?fail=1"] {
        server.xrpc(path).await;
    }
    let stats = server.admin(Method::GET, "/admin/stats/scripts", None).await;
    let scripts = stats.body["scripts"].as_array().unwrap();
    // The most expensive first. Costs are measured times, so on a busy machine the order can vary.
    let costs: Vec<_> = scripts.iter().map(|s| s["cpu_ms"].as_f64().unwrap()).collect();
    assert!(costs.is_sorted_by(|a, b| a >= b) && costs.len() == 3, "{}", stats.text);
    let of =
        |name: &str| scripts.iter().find(|s| s["id"] == format!("xrpc.query:com.example.{name}")).unwrap();
    let (dear, cheap, idle) = (of("dear"), of("cheap"), of("idle"));
    let counts = [dear, cheap, idle].map(|s| (s["runs"].as_u64().unwrap(), s["failures"].as_u64().unwrap()));
    assert_eq!(counts, [(2, 1), (2, 0), (0, 0)], "{}", stats.text);
    assert!(dear["fuel"].as_u64() > cheap["fuel"].as_u64(), "{}", stats.text);
    assert!(dear["p99_ms"].as_f64().unwrap() >= dear["p50_ms"].as_f64().unwrap());
    assert!(dear["last_run_at"].is_string() && idle["last_run_at"].is_null() && idle["p99_ms"].is_null());

    // A script with a new source is counted as a new script.
    server.bind("com.example.dear", "function handle() return 2 end").await;
    let stats = server.admin(Method::GET, "/admin/stats/scripts", None).await;
    let dear =
        stats.body["scripts"].as_array().unwrap().iter().find(|s| s["id"] == "xrpc.query:com.example.dear");
    assert_eq!(dear.unwrap()["runs"], 0, "{}", stats.text);
}

crate::in_both_worlds!(fields_in_use_are_shown);

async fn fields_in_use_are_shown(mut world: World) {
    world = world.with_notes().await;
    world.note(ALICE, "one", json!({ "text": "An apple", "n": 1 })).await;
    let server = &world.server;
    server.upload(query_lexicon("com.example.fields"), Some(NOTES)).await;
    let source = "function handle() \
        local function try(search) local ok, e = pcall(db.search, search) return ok or e.code .. ': ' .. e.message end \
        return { \
            found = db.search{ collection = collection, field = 'text', query = 'APPLE' }.records[1].text, \
            rows = #db.query{ collection = collection, filter = { field = 'n', value = 1 } }.records, \
            field = try{ collection = collection, field = '$type', query = 'x' }, \
            query = try{ collection = collection, field = 'text' }, \
            empty = try{ collection = collection, field = 'text', query = '' }, \
            table = try('x') } end";
    server.bind("com.example.fields", source).await;
    let answer = server.xrpc("com.example.fields").await;
    assert_eq!(
        (&answer.body["found"], &answer.body["rows"]),
        (&json!("An apple"), &json!(1)),
        "{}",
        answer.text
    );
    for (key, message) in [
        ("field", "invalid search field"),
        ("query", "query is required"),
        ("empty", "the search query is empty"),
        ("table", "table expected, got string"),
    ] {
        let text = answer.body[key].as_str().unwrap();
        assert!(text.starts_with("bad-input: ") && text.contains(message), "{key}: {text}");
    }
    // The counts are written to the database every few seconds.
    server
        .eventually("the fields are shown", async |server| {
            let stats = server.admin(Method::GET, "/admin/stats/indexes", None).await;
            assert_eq!((stats.status.as_u16(), &stats.body["limit"]), (200, &json!(32)));
            let mut seen: Vec<_> = stats.body["indexes"]
                .as_array()
                .unwrap()
                .iter()
                .map(|i| {
                    json!([i["collection"], i["field"], i["kind"], i["state"], i["scans"], i["declared"]])
                        .to_string()
                })
                .collect();
            seen.sort();
            seen == [
                json!([NOTES, "n", "filter", "candidate", 1, false]),
                json!([NOTES, "text", "search", "candidate", 1, true]),
            ]
            .map(|seen| seen.to_string())
        })
        .await;
}
