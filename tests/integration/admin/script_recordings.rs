//! `/admin/scripts/{id}/recording` and `/admin/scripts/{id}/replay`

use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{ALICE, LIST, NOTES, World};
use crate::support::instance::{Answer, Instance, query_lexicon};

crate::in_both_worlds!(
    runs_are_recorded_and_replayed_on_another_body,
    no_secret_is_stored,
    bad_recordings_are_refused
);

const MARK: &str = "m4rk3r";

fn path(what: &str) -> String {
    format!("/admin/scripts/xrpc.query%3A{LIST}/{what}")
}

async fn send(server: &Instance, method: Method, what: &str, body: Value) -> Answer {
    server.admin(method, &path(what), Some(&body).filter(|body| !body.is_null())).await
}

/// Waits until so many runs are stored.
async fn stored(server: &Instance, runs: u64) {
    server
        .eventually("the runs are stored", async |server| {
            let recording = send(server, Method::GET, "recording", Value::Null).await;
            recording.body["runs"].as_u64() == Some(runs)
        })
        .await;
}

async fn replay(server: &Instance, body: Value) -> Value {
    let answer = send(server, Method::POST, "replay", body).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.body
}

async fn runs_are_recorded_and_replayed_on_another_body(world: World) {
    let mut world = world.with_notes().await;
    for n in 0..3 {
        world.note(ALICE, &format!("n{n}"), json!({ "text": "hello" })).await;
    }
    let server = &world.server;
    server.upload(query_lexicon(LIST), None).await;
    let source = |extra: &str| {
        format!(
            "function handle()\n local page = db.query({{ collection = '{NOTES}', limit = 2 }})\n {extra}\n return {{ n = #page.records, at = now(), x = math.random(1, 1000) }}\nend"
        )
    };
    server.bind(LIST, &source("")).await;
    assert_eq!(send(server, Method::GET, "recording", Value::Null).await.status, 404);
    let started = send(server, Method::PUT, "recording", json!({ "percent": 100, "minutes": 5 })).await;
    assert_eq!(started.status, 200, "{}", started.text);
    for _ in 0..10 {
        assert_eq!(server.xrpc(LIST).await.status, 200);
    }
    stored(server, 10).await;

    let same = replay(server, json!({})).await;
    assert_eq!(
        (&same["runs"], &same["identical"], &same["differences"]),
        (&json!(10), &json!(10), &json!([])),
        "{same}"
    );
    assert_eq!(same["instructions"], same["recorded_instructions"], "{same}");
    let records = server.records().await;
    let other = source("db.count({ collection = 'com.example.note' })");
    let other = replay(server, json!({ "body": other, "runs": 4 })).await;
    assert_eq!((&other["runs"], &other["identical"]), (&json!(4), &json!(0)), "{other}");
    let kinds: Vec<_> =
        other["differences"].as_array().unwrap().iter().map(|one| (&one["kind"], &one["place"])).collect();
    assert!(kinds.contains(&(&json!("asked"), &json!("db.count"))), "{other}");
    let changed = source("").replace("n = #page.records", "n = 2 + #page.records");
    let changed = replay(server, json!({ "body": changed })).await;
    let group =
        json!([{ "kind": "answer", "place": "n", "is_write": false, "runs": 10, "example": "2 → 4" }]);
    assert_eq!((&changed["differences"], &changed["is_complete"]), (&group, &json!(true)), "{changed}");
    let failing = replay(server, json!({ "body": source("error('no ' .. now())") })).await;
    let group = &failing["differences"][0];
    assert_eq!((&group["kind"], &group["runs"]), (&json!("error"), &json!(10)), "{failing}");
    assert_eq!(server.records().await, records, "nothing is written");

    let file = tempfile::tempdir().unwrap();
    let body = file.path().join("new.lua");
    std::fs::write(&body, source("")).unwrap();
    let (url, trigger) = (format!("http://{}", server.address), format!("xrpc.query:{LIST}"));
    let run = |arguments: &[&str]| {
        let common = ["--url", &url, "--key", &server.admin_key];
        let output = server.run(&[arguments, &common].concat());
        (
            output.status.success(),
            String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned(),
        )
    };
    let (ok, text) = run(&["script", "replay", &trigger, "--body", body.to_str().unwrap()]);
    assert!(ok && text.contains("10 runs in") && text.contains("10 identical"), "{text}");
    let (ok, text) = run(&["script", "record", &trigger, "--minutes", "2"]);
    assert!(ok && text.contains("100 % of runs until"), "{text}");

    assert_eq!(send(server, Method::DELETE, "recording", Value::Null).await.status, 204);
    assert_eq!(send(server, Method::DELETE, "recording", Value::Null).await.status, 404);
    assert_eq!(send(server, Method::POST, "replay", json!({})).await.status, 404);
    assert_eq!(server.xrpc(LIST).await.status, 200);
}

async fn no_secret_is_stored(world: World) {
    let server = &world.server;
    server.upload(query_lexicon(LIST), None).await;
    let variable = json!({ "key": "SECRET", "value": format!("{MARK}-variable") });
    assert!(server.admin(Method::POST, "/admin/script-variables", Some(&variable)).await.status.is_success());
    let source = "function handle()
        local v = env.SECRET
        local r = db.raw('SELECT $1 AS x', { v })
        local token = db.raw('SELECT $1 AS x', { params.token })
        return { v = v, token = params.token, n = #r, cookie = params.session_cookie, raw = token }
    end";
    server.bind(LIST, source).await;
    assert_eq!(send(server, Method::PUT, "recording", json!({})).await.status, 200);
    let query = format!("{LIST}?token={MARK}-token&session_cookie={MARK}-cookie&q=plain");
    let answer = server.xrpc(&query).await;
    assert!(answer.text.contains(&format!("{MARK}-variable")), "{}", answer.text);
    stored(server, 1).await;
    let rows = world.recorded().await;
    assert_eq!(rows.len(), 1);
    let text = String::from_utf8_lossy(&rows[0]).into_owned();
    assert!(!text.contains(MARK), "{text}");
    assert!(text.contains("plain") && text.contains("SECRET-SECRETSE"), "{text}");
    assert!(!text.contains(&server.client_key) && !text.contains(&server.admin_key), "{text}");
    let same = replay(server, json!({})).await;
    assert_eq!(same["identical"], 1, "{same}");
}

async fn bad_recordings_are_refused(world: World) {
    let server = &world.server;
    server.upload(query_lexicon(LIST), None).await;
    assert_eq!(send(server, Method::PUT, "recording", json!({})).await.status, 404);
    server.bind(LIST, "function handle() return 1 end").await;
    for (body, says) in [
        (json!({ "percent": 0 }), "percent must be"),
        (json!({ "percent": 101 }), "percent must be"),
        (json!({ "minutes": 0 }), "minutes must be"),
        (json!({ "minutes": 10_081 }), "minutes must be"),
        (json!({ "minutes": "x" }), "error"),
    ] {
        let answer = send(server, Method::PUT, "recording", body.clone()).await;
        assert_eq!(answer.status, 400, "{body}: {}", answer.text);
        assert!(answer.text.contains(says), "{body}: {}", answer.text);
    }
    for id in ["job.run%3Anightly", "lib%3Anotes", "setup%3Atables"] {
        let path = format!("/admin/scripts/{id}/recording");
        assert_eq!(server.admin(Method::PUT, &path, Some(&json!({}))).await.status, 400, "{id}");
    }
    assert_eq!(send(server, Method::POST, "replay", json!({})).await.status, 404, "nothing is recorded");
    assert_eq!(send(server, Method::POST, "replay", json!({ "runs": 0 })).await.status, 400);
    let unknown = "/admin/scripts/xrpc.query%3Acom.example.unknown/replay";
    assert_eq!(server.admin(Method::POST, unknown, Some(&json!({}))).await.status, 404);
    let broken = send(server, Method::POST, "replay", json!({ "body": "function handle( end" })).await;
    assert_eq!(broken.status, 400, "{}", broken.text);
}
