//! Servers that are not replicas of the database are not used, and the reason says what to do.

use belvedere_standins::postgres::{self, OwnServer};
use http::Method;

use super::{DATABASE, PATIENT, first, go_on, hold, replicas, servers, wait_until_used, world};
use crate::fixtures::{LIST, World};
use crate::support::instance::Instance;

/// Waits until a reason contains a text.
async fn wait_for_reason(server: &Instance, n: usize, text: &str) {
    server
        .eventually(text, async |server| {
            replicas(server).await[n]["reason"].as_str().is_some_and(|reason| reason.contains(text))
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_servers_are_not_used() {
    let (primary, replica) = servers(&[]).await;
    let other_cluster = postgres::create_database().await;
    let unreachable = "postgres://me:hunter2@127.0.0.1:9/notes";
    let urls = [&*primary.url(DATABASE), &*replica.url("postgres"), &*other_cluster, unreachable].join(",");
    let world = world(&primary, &urls, &[]).await;
    let server = &world.server;
    for (n, reason) in [
        "not in recovery. Make it follow",
        "names another database",
        "a replica of another server",
        "can't be reached",
    ]
    .into_iter()
    .enumerate()
    {
        wait_for_reason(server, n, reason).await;
    }
    assert_eq!(server.xrpc(LIST).await.status, 200);
    for path in ["/health", "/readyz"] {
        assert_eq!(server.request(Method::GET, path, &[], None).await.status, 200);
    }
    let checks = server.admin(Method::GET, "/admin/checks", None).await;
    let of_replicas: Vec<_> =
        checks.body["checks"].as_array().unwrap().iter().filter(|check| check["id"] == "replica").collect();
    assert_eq!(of_replicas.len(), 4, "{}", checks.text);
    assert!(of_replicas.iter().all(|check| check["ok"] == false), "{}", checks.text);
    let doctor = server.run(&["doctor"]);
    let text = String::from_utf8_lossy(&doctor.stdout);
    assert_eq!(text.matches("FAIL  replica 127.0.0.1:").count(), 4, "{text}");
    assert!(
        !text.contains("hunter2") && !server.log().contains("hunter2") && !checks.text.contains("hunter2")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_without_the_migrations_is_not_used_yet() {
    let (primary, replica) = servers(&[]).await;
    hold(&primary, &replica).await;
    let urls = replica.url(DATABASE);
    let world: World = world(&primary, &urls, &[PATIENT]).await;
    let server = &world.server;
    wait_for_reason(server, 0, "migrations have not been replayed").await;
    assert_eq!(server.xrpc(LIST).await.status, 200);
    go_on(&replica).await;
    wait_until_used(server, true).await;
    let doctor = server.run(&["doctor"]);
    let text = String::from_utf8_lossy(&doctor.stdout);
    assert!(text.contains("ok    replica 127.0.0.1:"), "{text}");
    assert_eq!(first(server).await["reason"], serde_json::Value::Null);
}

/// When the primary fails over, hosts that restart must come up, whatever became of the replicas.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_starts_while_replicas_are_away() {
    let (primary, replica) = servers(&[]).await;
    replica.signal("STOP").await;
    let frozen: &OwnServer = &replica;
    let world = world(&primary, &frozen.url(DATABASE), &[]).await;
    wait_for_reason(&world.server, 0, "does not answer").await;
    assert_eq!(world.server.xrpc(LIST).await.status, 200);
    replica.signal("CONT").await;
    wait_until_used(&world.server, true).await;
}
