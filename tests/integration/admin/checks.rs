//! `/admin/checks`

use crate::fixtures::World;
use http::Method;
use serde_json::json;

use crate::fixtures::BOB;

crate::in_both_worlds!(everything_that_the_server_needs_is_checked);

async fn everything_that_the_server_needs_is_checked(world: World) {
    let server = &world.server;
    let answer = server.admin(Method::GET, "/admin/checks", None).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let checks = answer.body["checks"].as_array().unwrap();
    let of = |id: &str| {
        checks.iter().find(|check| check["id"] == id).unwrap_or_else(|| panic!("{id}: {}", answer.text))
    };
    for id in [
        "configuration",
        "data_folder",
        "proxies",
        "secrets",
        "database",
        "migrations",
        "script_engine",
        "plc",
        "relay",
    ] {
        assert_eq!(of(id)["ok"], true, "{}", answer.text);
    }
    // The stand-in closes a connection that is not a WebSocket.
    assert_eq!(
        (&of("jetstream")["ok"], &answer.body["ok"]),
        (&json!(false), &json!(false)),
        "{}",
        answer.text
    );
    let is_there = |id: &str| checks.iter().any(|check| check["id"] == id);
    for id in ["connections", "script_sql"] {
        assert_eq!(is_there(id), world.is_postgres(), "{id}");
    }
    assert!(!answer.text.contains("password"), "{}", answer.text);
    // The same result serves callers that come soon after.
    let again = server.admin(Method::GET, "/admin/checks", None).await;
    assert_eq!(again.body["checked_at"], answer.body["checked_at"]);
    let key = server.create_key(&["--did", BOB, "--permissions", "stats:read"]);
    let headers = [("authorization", &*format!("Bearer {key}"))];
    assert_eq!(server.request(Method::GET, "/admin/checks", &headers, None).await.status, 403);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_can_not_be_reached_is_named() {
    let (url, _directory) = belvedere_standins::database::sqlite_url();
    let server = crate::support::instance::Instance::start(&url, "ws://127.0.0.1:9/?token=hidden").await;
    let answer = server.admin(Method::GET, "/admin/checks", None).await;
    assert_eq!(answer.body["ok"], false, "{}", answer.text);
    let checks = answer.body["checks"].as_array().unwrap();
    let relay = checks.iter().find(|check| check["id"] == "relay").unwrap();
    assert_eq!(relay["ok"], false);
    assert!(relay["detail"].as_str().unwrap().contains("RELAY_URL"), "{relay}");
    assert!(!answer.text.contains("hidden"), "{}", answer.text);
}
