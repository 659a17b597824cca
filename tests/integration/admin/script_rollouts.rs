//! `/admin/scripts/{id}/rollout`

use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{LIST, World};
use crate::support::instance::{Answer, Instance, query_lexicon};

crate::in_both_worlds!(
    a_part_of_the_callers_runs_the_candidate,
    a_candidate_that_fails_is_returned,
    saving_the_script_ends_its_rollout,
    bad_rollouts_are_refused
);

/// Clients whose part is chosen by their keys.
const CLIENTS: usize = 24;

const CURRENT: &str = "function handle() return { version = 1 } end";
const CANDIDATE: &str = "function handle() return { version = 2 } end";

fn path() -> String {
    format!("/admin/scripts/xrpc.query%3A{LIST}/rollout")
}

async fn send(server: &Instance, method: Method, body: Value) -> Answer {
    server.admin(method, &path(), Some(&body).filter(|body| !body.is_null())).await
}

async fn rollout(server: &Instance) -> Value {
    let answer = send(server, Method::GET, Value::Null).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.body
}

async fn start(world: &World) {
    world.server.upload(query_lexicon(LIST), None).await;
    world.server.bind(LIST, CURRENT).await;
}

async fn clients(server: &Instance) -> Vec<String> {
    let mut keys = Vec::new();
    for n in 0..CLIENTS {
        keys.push(server.create_client(&format!("client{n}")).await);
    }
    keys
}

/// The version that answers each client; 0 for an error.
async fn versions(server: &Instance, keys: &[String]) -> Vec<u64> {
    let mut versions = Vec::new();
    for key in keys {
        let path = format!("/xrpc/{LIST}");
        let answer = server.request(Method::GET, &path, &[("x-client-key", key)], None).await;
        versions.push(answer.body["version"].as_u64().unwrap_or_default());
    }
    versions
}

async fn events(server: &Instance, kind: &str) -> Vec<Value> {
    let answer = server.admin(Method::GET, &format!("/admin/events?event_type={kind}"), None).await;
    answer.body["events"].as_array().unwrap_or_else(|| panic!("{}", answer.text)).clone()
}

async fn a_part_of_the_callers_runs_the_candidate(world: World) {
    let server = &world.server;
    start(&world).await;
    assert_eq!(send(server, Method::GET, Value::Null).await.status, 404);
    let keys = clients(server).await;
    let started =
        send(server, Method::POST, json!({ "body": CANDIDATE, "percent": 50, "revision": 1 })).await;
    assert_eq!(started.status, 201, "{}", started.text);
    assert_eq!((&started.body["state"], &started.body["revision"]), (&json!("running"), &json!(1)));

    let half = versions(server, &keys).await;
    assert!(half.contains(&1) && half.contains(&2), "{half:?}");
    assert_eq!(versions(server, &keys).await, half, "a caller keeps its version");
    let runs = rollout(server).await;
    let candidates = half.iter().filter(|version| **version == 2).count();
    assert_eq!(runs["candidate"]["runs"], 2 * candidates, "{runs}");
    assert_eq!(runs["current"]["runs"], 2 * (CLIENTS - candidates), "{runs}");
    assert!(runs["candidate"]["mean_instructions"].as_u64().is_some_and(|n| n > 0), "{runs}");
    assert!(runs["candidate"]["mean_ms"].as_f64().is_some_and(|ms| ms > 0.0), "{runs}");
    let stats = server.admin(Method::GET, "/admin/stats/scripts", None).await;
    let named: Vec<_> =
        stats.body["scripts"].as_array().unwrap().iter().map(|s| s["version"].clone()).collect();
    assert!(
        named.contains(&json!("revision 1")) && named.contains(&json!("candidate of revision 1")),
        "{named:?}"
    );

    let lower = send(server, Method::PUT, json!({ "percent": 1 })).await;
    assert_eq!((lower.status.as_u16(), &lower.body["percent"]), (200, &json!(1)), "{}", lower.text);
    let few = versions(server, &keys).await;
    assert!(few.iter().zip(&half).all(|(few, half)| few <= half), "{few:?} of {half:?}");
    assert_eq!(send(server, Method::PUT, json!({ "percent": 100 })).await.status, 200);
    assert_eq!(versions(server, &keys).await, vec![2; CLIENTS]);
    let stored = server.admin(Method::GET, &format!("/admin/scripts/xrpc.query%3A{LIST}"), None).await;
    assert_eq!(stored.body["body"], CURRENT, "the saved body stays until it is promoted");

    let promoted = server.admin(Method::POST, &format!("{}/promote", path()), None).await;
    assert_eq!(
        (promoted.status.as_u16(), &promoted.body["state"]),
        (200, &json!("promoted")),
        "{}",
        promoted.text
    );
    let stored = server.admin(Method::GET, &format!("/admin/scripts/xrpc.query%3A{LIST}"), None).await;
    assert_eq!((&stored.body["body"], &stored.body["revision"]), (&json!(CANDIDATE), &json!(2)));
    assert_eq!(versions(server, &keys[..2]).await, [2, 2]);
    for kind in ["started", "changed", "promoted"] {
        let found = events(server, &format!("script.rollout_{kind}")).await;
        assert!(!found.is_empty(), "{kind}");
        assert_eq!(found[0]["subject"], format!("xrpc.query:{LIST}"), "{kind}");
    }
    let again = server.admin(Method::POST, &format!("{}/promote", path()), None).await;
    assert_eq!(again.status, 404, "{}", again.text);
}

async fn a_candidate_that_fails_is_returned(world: World) {
    let server = &world.server;
    start(&world).await;
    let keys = clients(server).await;
    let failing = "function handle() error('broken') end";
    let terms = json!({ "body": failing, "percent": 50, "min_runs": 5, "max_errors": 10 });
    assert_eq!(send(server, Method::POST, terms).await.status, 201);
    let before = versions(server, &keys).await;
    assert!(before.contains(&0) && before.contains(&1), "{before:?}");
    let error = &events(server, "script.error").await[0];
    assert_eq!(error["detail"]["version"], "candidate of revision 1", "{error}");
    let returned = "the candidate is returned";
    server
        .eventually(returned, async |server| !events(server, "script.rollout_returned").await.is_empty())
        .await;
    let ended = rollout(server).await;
    assert_eq!(ended["state"], "returned", "{ended}");
    assert!(ended["reason"].as_str().unwrap().starts_with("100 % of "), "{ended}");
    assert_eq!(events(server, "script.rollout_returned").await[0]["actor_did"], Value::Null);
    assert_eq!(versions(server, &keys).await, vec![1; CLIENTS]);

    // The next rollout counts from zero, and an admin returns it.
    let again = send(server, Method::POST, json!({ "body": CANDIDATE, "percent": 100 })).await;
    assert_eq!((again.status.as_u16(), &again.body["candidate"]["runs"]), (201, &json!(0)), "{}", again.text);
    assert_eq!(versions(server, &keys[..1]).await, [2]);
    let ended = send(server, Method::DELETE, Value::Null).await;
    assert_eq!((ended.status.as_u16(), &ended.body["state"]), (200, &json!("returned")), "{}", ended.text);
    assert_eq!(ended.body["candidate"]["runs"], 1, "{}", ended.text);
    assert_eq!(versions(server, &keys[..1]).await, [1]);
    assert_eq!(send(server, Method::DELETE, Value::Null).await.status, 404);
}

async fn saving_the_script_ends_its_rollout(world: World) {
    let server = &world.server;
    start(&world).await;
    let keys = clients(server).await;
    let everyone = json!({ "body": CANDIDATE, "percent": 100 });
    assert_eq!(send(server, Method::POST, everyone.clone()).await.status, 201);
    server.bind(LIST, CURRENT).await;
    assert_eq!(rollout(server).await["state"], "running", "the body is the same");
    server.bind(LIST, "function handle() return { version = 3 } end").await;
    assert_eq!(rollout(server).await["state"], "replaced");
    assert_eq!(versions(server, &keys[..1]).await, [3]);

    assert_eq!(send(server, Method::POST, everyone).await.status, 201);
    let script = format!("/admin/scripts/xrpc.query%3A{LIST}");
    let patch = json!({ "body": CANDIDATE });
    assert_eq!(server.admin(Method::PATCH, &script, Some(&patch)).await.status, 200);
    assert_eq!(rollout(server).await["state"], "promoted", "the saved body is the candidate");
    assert_eq!(server.admin(Method::DELETE, &script, None).await.status, 204);
    assert_eq!(send(server, Method::GET, Value::Null).await.status, 404);
}

async fn bad_rollouts_are_refused(world: World) {
    let server = &world.server;
    start(&world).await;
    for (body, says) in [
        (json!({ "body": CANDIDATE, "percent": 0 }), "percent must be"),
        (json!({ "body": CANDIDATE, "percent": 101 }), "percent must be"),
        (json!({ "body": CANDIDATE }), "percent"),
        (json!({ "body": CANDIDATE, "percent": 1, "max_errors": -1 }), "max_errors must be"),
        (json!({ "body": CANDIDATE, "percent": 1, "min_runs": 0 }), "min_runs must be"),
        (json!({ "body": CANDIDATE, "percent": 1, "max_time": 1e9 as i64 }), "max_time must be"),
        (json!({ "body": CURRENT, "percent": 1 }), "own body"),
        (json!({ "body": "function handle( end", "percent": 1 }), "does not load"),
    ] {
        let answer = send(server, Method::POST, body.clone()).await;
        assert_eq!(answer.status, 400, "{body}: {}", answer.text);
        assert!(answer.text.contains(says), "{body}: {}", answer.text);
    }
    let stale = json!({ "body": CANDIDATE, "percent": 1, "revision": 7 });
    assert_eq!(send(server, Method::POST, stale).await.status, 409);
    let one = json!({ "body": CANDIDATE, "percent": 1 });
    assert_eq!(send(server, Method::PUT, json!({ "percent": 1 })).await.status, 404);
    assert_eq!(send(server, Method::POST, one.clone()).await.status, 201);
    assert_eq!(send(server, Method::POST, one.clone()).await.status, 409, "one goes on");
    for id in ["lib%3Anotes", "xrpc.view%3Acom.example.view", "schedule%3Anightly"] {
        let path = format!("/admin/scripts/{id}/rollout");
        assert_eq!(server.admin(Method::POST, &path, Some(&one)).await.status, 400, "{id}");
    }
    let unknown = server.admin(Method::POST, "/admin/scripts/job.run%3Anone/rollout", Some(&one)).await;
    assert_eq!(unknown.status, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_line_starts_and_ends_rollouts() {
    let world = World::sqlite().await;
    start(&world).await;
    let server = &world.server;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("new.lua");
    std::fs::write(&file, CANDIDATE).unwrap();
    let trigger = format!("xrpc.query:{LIST}");
    let url = format!("http://{}", server.address);
    let run = |more: &[&str]| {
        let common = ["script", "rollout", &trigger, "--url", &url, "--key", &server.admin_key];
        let output = server.run(&[&common, more].concat());
        (
            output.status.success(),
            String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned(),
        )
    };
    let file = file.to_str().unwrap();
    let (ok, text) = run(&["--body", file, "--percent", "100", "--max-time", "0"]);
    assert!(ok && text.contains("running, 100 % of callers"), "{text}");
    assert_eq!(server.xrpc(LIST).await.body["version"], 2);
    let (ok, text) = run(&[]);
    assert!(ok && text.contains("new: 1 runs, 0 failed"), "{text}");
    let (ok, text) = run(&["--percent", "10"]);
    assert!(ok && text.contains("running, 10 % of callers"), "{text}");
    let (ok, text) = run(&["--return"]);
    assert!(ok && text.contains("returned"), "{text}");
    assert!(run(&["--body", file, "--percent", "1"]).0);
    let (ok, text) = run(&["--promote"]);
    assert!(ok && text.contains("promoted"), "{text}");
    assert!(!run(&["--promote"]).0, "none goes on");
}
