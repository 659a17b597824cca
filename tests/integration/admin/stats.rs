//! `/admin/stats/scripts`

use http::Method;
use serde_json::json;

use crate::fixtures::World;
use crate::support::instance::query_lexicon;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_are_counted_each_for_itself() {
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
    let seen: Vec<_> = scripts.iter().map(|s| json!([s["id"], s["runs"], s["failures"]])).collect();
    let expected = json!([
        ["xrpc.query:com.example.dear", 2, 1],
        ["xrpc.query:com.example.cheap", 2, 0],
        ["xrpc.query:com.example.idle", 0, 0],
    ]);
    assert_eq!(json!(seen), expected, "{}", stats.text);
    let (dear, cheap, idle) = (&scripts[0], &scripts[1], &scripts[2]);
    assert!(
        dear["cpu_ms"].as_f64() > cheap["cpu_ms"].as_f64() && dear["fuel"].as_u64() > cheap["fuel"].as_u64()
    );
    assert!(dear["p99_ms"].as_f64().unwrap() >= dear["p50_ms"].as_f64().unwrap());
    assert!(dear["last_run_at"].is_string() && idle["last_run_at"].is_null() && idle["p99_ms"].is_null());

    // Another source is another script.
    server.bind("com.example.dear", "function handle() return 2 end").await;
    let stats = server.admin(Method::GET, "/admin/stats/scripts", None).await;
    let ids: Vec<_> = stats.body["scripts"].as_array().unwrap().iter().map(|s| &s["id"]).collect();
    assert_eq!(ids[0], "xrpc.query:com.example.cheap", "{}", stats.text);
}
