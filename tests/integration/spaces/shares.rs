//! One account that exports, reads and writes as much as it can does not keep others from doing so.

use http::Request;
use http_body_util::Full;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::{Group, error};
use crate::fixtures::{ALICE, BOB, World};

crate::in_both_worlds!(exports_that_are_not_read_leave_permits_to_others);

/// The share of one account in the permits for exports.
const SHARE: usize = 2;

async fn exports_that_are_not_read_leave_permits_to_others(world: World) {
    let group = Group::of(world).await;
    let space = group.space("main", json!({})).await;
    group.join(&space, BOB, true, true).await;
    for part in 0..4 {
        let writes: Vec<Value> = (0..10)
            .map(|n| {
                json!({ "action": "create", "collection": "com.example.note", "rkey": format!("{part}-{n}"),
                    "value": { "text": "x".repeat(50_000) } })
            })
            .collect();
        let body = json!({ "space": space, "writes": writes });
        assert_eq!(group.post(&group.alice, "space.applyWrites", body).await.status, 200);
    }
    // Alice requests twice her share, with windows that stay closed.
    let stream = TcpStream::connect(group.world.server.address).await.unwrap();
    let mut builder = http2::Builder::new(TokioExecutor::new());
    let (mut sender, connection) =
        builder.initial_stream_window_size(0).handshake(TokioIo::new(stream)).await.unwrap();
    let connection = tokio::spawn(async move { drop(connection.await) });
    let path = format!("/xrpc/com.atproto.space.getRepo?space={space}&repo={ALICE}");
    let mut answers = Vec::new();
    for _ in 0..2 * SHARE {
        let bearer = format!("Bearer {}", group.alice.token(&group.world.server.did(), json!({})));
        let request = Request::get(format!("http://{}{path}", group.world.server.address))
            .header("x-client-key", &group.world.server.client_key)
            .header("authorization", bearer)
            .body(Full::<bytes::Bytes>::default())
            .unwrap();
        answers.push(tokio::spawn(sender.send_request(request)));
    }
    let begun = || answers.iter().filter(|answer| answer.is_finished()).count();
    group.world.server.eventually("her share is used", async |_| begun() == SHARE).await;
    // Another member exports, reads and writes meanwhile.
    let export = path.trim_start_matches("/xrpc/com.atproto.");
    for n in 0..5 {
        assert_eq!(group.get(&group.bob, export).await.status, 200);
        let list = group.get(&group.bob, &format!("space.listRecords?space={space}&limit=5")).await;
        assert_eq!(list.body["records"].as_array().unwrap().len(), 5);
        assert_eq!(group.note(&group.bob, &space, &format!("n{n}")).await.status, 200);
    }
    assert_eq!(begun(), SHARE, "the others wait for the first");
    // When the client leaves, its permits are free.
    connection.abort();
    drop(answers);
    let again = group.get(&group.alice, export).await;
    assert_eq!(error(&again), (200, ""));
}
