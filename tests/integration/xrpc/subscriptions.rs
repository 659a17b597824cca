//! Subscriptions: a WebSocket that gets the changes of a collection.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use belvedere_standins::jetstream::{Frame, Place};
use belvedere_standins::websocket::{Received, WebSocket};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::fixtures::{ALICE, BOB, NOTES, World};
use crate::support::instance::Instance;

pub const WATCH: &str = "com.example.watchNotes";

/// Longer than any message takes, also when another host has to follow the stream first.
pub const SOON: Duration = Duration::from_mins(1);

pub fn lexicon() -> Value {
    let seq = json!({ "type": "integer" });
    let uri = json!({ "type": "string", "format": "at-uri" });
    let written = json!({ "type": "object", "required": ["seq", "uri", "record"], "properties": {
        "seq": seq, "uri": uri, "cid": { "type": "string", "format": "cid" }, "record": { "type": "unknown" } } });
    json!({ "lexicon": 1, "id": WATCH, "defs": {
        "main": { "type": "subscription", "subprotocol": "xrpc.v1.json",
            "parameters": { "type": "params", "properties": {
                "cursor": { "type": "integer" },
                "did": { "type": "array", "items": { "type": "string", "format": "did" } },
                "level": { "type": "integer", "maximum": 3 } } },
            "message": { "schema": { "type": "union", "refs": ["#create", "#update", "#delete", "#info"] } } },
        "create": written,
        "update": written,
        "delete": { "type": "object", "required": ["seq", "uri"], "properties": { "seq": seq, "uri": uri } },
        "info": { "type": "object", "required": ["name"], "properties": {
            "name": { "type": "string" }, "message": { "type": "string" } } } } })
}

async fn watched(world: World) -> World {
    let world = world.with_notes().await;
    world.server.upload(lexicon(), Some(NOTES)).await;
    world
}

pub async fn connect(
    server: &Instance,
    query: &str,
    protocols: Option<&str>,
) -> Result<WebSocket, StatusCode> {
    let path = format!("/xrpc/{WATCH}?client_key={}&{query}", server.client_key);
    let headers: Vec<_> = protocols.map(|tokens| ("sec-websocket-protocol", tokens)).into_iter().collect();
    WebSocket::connect(server.address, &path, &headers).await
}

pub async fn receive(socket: &mut WebSocket) -> Received {
    tokio::time::timeout(SOON, socket.receive()).await.unwrap()
}

/// The kind of the next message, and its fields.
pub async fn next(socket: &mut WebSocket) -> (String, Value) {
    let received = receive(socket).await;
    let Received::Json(frame) = received else { panic!("{received:?}") };
    assert_eq!(frame["$type"], "message", "{frame}");
    let kind = frame["payload"]["$type"].as_str().unwrap();
    (kind.strip_prefix(WATCH).unwrap().to_owned(), frame["payload"].clone())
}

crate::in_both_worlds!(
    changes_arrive_as_they_are_committed,
    a_cursor_resumes_after_the_message_with_its_number,
    subprotocols_are_negotiated,
    bad_requests_are_refused_before_the_upgrade,
    hidden_records_are_not_shown,
    a_burst_is_read_from_the_table,
    the_connections_of_an_address_are_bounded
);

async fn changes_arrive_as_they_are_committed(world: World) {
    let mut world = watched(world).await;
    let mut all = connect(&world.server, "", None).await.unwrap();
    let mut of_bob = connect(&world.server, &format!("did={BOB}"), None).await.unwrap();
    let uri = world.note(ALICE, "a", json!({ "text": "one \"é\"" })).await;
    let (kind, created) = next(&mut all).await;
    assert_eq!(
        (&*kind, &created["uri"], &created["record"]["text"]),
        ("#create", &json!(uri), &json!("one \"é\""))
    );
    let (at_alice, note) = (ALICE, json!({ "$type": NOTES, "text": "two" }));
    world
        .push(|at, rev| Frame::update(at, Place { did: at_alice, collection: NOTES, rkey: "a", rev }, &note));
    let (kind, updated) = next(&mut all).await;
    assert_eq!((&*kind, &updated["record"]["text"]), ("#update", &json!("two")));
    world.delete_note(ALICE, "a").await;
    let (kind, deleted) = next(&mut all).await;
    assert_eq!((&*kind, &deleted["uri"]), ("#delete", &json!(uri)));
    let numbers = [&created, &updated, &deleted].map(|message| message["seq"].as_i64().unwrap());
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");

    let of_bobs = world.note(BOB, "b", json!({ "text": "b" })).await;
    for socket in [&mut all, &mut of_bob] {
        assert_eq!(next(socket).await.1["uri"], json!(of_bobs));
    }
    // Without its lexicon there is no subscription, and no change is noted.
    let removed = world.server.admin(Method::DELETE, &format!("/admin/lexicons/{WATCH}"), None).await;
    assert!(removed.status.is_success(), "{}", removed.text);
    assert_eq!(
        receive(&mut all).await,
        Received::Closed(1001, "the subscription has changed: connect again".to_owned())
    );
}

async fn a_cursor_resumes_after_the_message_with_its_number(world: World) {
    let mut world = watched(world).await;
    let mut uris = Vec::new();
    for n in 0..5 {
        uris.push(world.note(ALICE, &format!("n{n}"), json!({ "text": "x" })).await);
    }
    let mut socket = connect(&world.server, "cursor=0", None).await.unwrap();
    let mut numbers = Vec::new();
    for uri in &uris {
        let (_, message) = next(&mut socket).await;
        assert_eq!(message["uri"], json!(uri));
        numbers.push(message["seq"].as_i64().unwrap());
    }
    let mut again = connect(&world.server, &format!("cursor={}", numbers[2]), None).await.unwrap();
    assert_eq!(next(&mut again).await.1["seq"], numbers[3]);
    assert_eq!(next(&mut again).await.1["seq"], numbers[4]);
    let later = world.note(BOB, "later", json!({ "text": "x" })).await;
    assert_eq!(next(&mut again).await.1["uri"], json!(later));

    let future = format!("cursor={}", numbers[4] + 1_000);
    let mut socket = connect(&world.server, &future, None).await.unwrap();
    let Received::Json(error) = receive(&mut socket).await else { panic!("no error") };
    assert_eq!((&error["$type"], &error["error"]), (&json!("error"), &json!("FutureCursor")));
    assert_eq!(receive(&mut socket).await, Received::Closed(1008, "FutureCursor".to_owned()));

    world.execute("DELETE FROM record_changes WHERE seq <= (SELECT min(seq) + 2 FROM record_changes)").await;
    let mut outdated = connect(&world.server, &format!("cursor={}", numbers[0]), None).await.unwrap();
    let (kind, info) = next(&mut outdated).await;
    assert_eq!((&*kind, &info["name"], info.get("seq")), ("#info", &json!("OutdatedCursor"), None));
    assert_eq!(next(&mut outdated).await.1["seq"], numbers[3]);
}

async fn subprotocols_are_negotiated(world: World) {
    let mut world = watched(world).await;
    let mut sockets = Vec::new();
    for (offered, chosen) in [
        (None, None),
        (Some("xrpc.v9.xml"), None),
        (Some("xrpc.v0.cbor"), Some("xrpc.v0.cbor")),
        (Some("x, xrpc.v1.cbor, xrpc.v0.cbor"), Some("xrpc.v1.cbor")),
        (Some("xrpc.v1.json,xrpc.v0.cbor"), Some("xrpc.v1.json")),
    ] {
        let path = format!("/xrpc/{WATCH}?client_key={}", world.server.client_key);
        let connected = raw_handshake(&world.server, &path, offered).await;
        assert_eq!(connected.as_deref(), chosen, "{offered:?}");
        // Libraries of clients refuse a server that chooses none of what they offer.
        if chosen.is_some() || offered.is_none() {
            sockets.push((connect(&world.server, "", offered).await.unwrap(), chosen));
        }
    }
    world.note(ALICE, "a", json!({ "text": "x" })).await;
    for (mut socket, chosen) in sockets {
        match (receive(&mut socket).await, chosen) {
            (Received::Json(frame), None | Some("xrpc.v1.json")) => assert_eq!(frame["$type"], "message"),
            (Received::Bytes(bytes), Some("xrpc.v0.cbor")) => {
                assert!(bytes.starts_with(b"\xa2atg#createbop\x01"), "{bytes:?}");
            }
            (Received::Bytes(bytes), Some("xrpc.v1.cbor")) => {
                assert!(bytes.starts_with(b"\xa2e$typegmessagegpayload"), "{bytes:?}");
            }
            other => panic!("{other:?}"),
        }
    }
}

/// The subprotocol that the server chooses.
async fn raw_handshake(server: &Instance, path: &str, offered: Option<&str>) -> Option<String> {
    let mut headers = vec![
        ("connection", "Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    headers.extend(offered.map(|tokens| ("sec-websocket-protocol", tokens)));
    let answer = server.request(Method::GET, path, &headers, None).await;
    assert_eq!(answer.status, 101, "{}", answer.text);
    answer.headers.get("sec-websocket-protocol").map(|token| token.to_str().unwrap().to_owned())
}

async fn bad_requests_are_refused_before_the_upgrade(world: World) {
    let world = watched(world).await;
    for bad in ["cursor=-1", "cursor=x", "did=alice.test", "level=4", "did=did:plc:a%00"] {
        assert_eq!(connect(&world.server, bad, None).await.unwrap_err(), 400, "{bad}");
    }
    let many: Vec<String> = (0..101).map(|n| format!("did=did:web:a{n}.example")).collect();
    assert_eq!(connect(&world.server, &many.join("&"), None).await.unwrap_err(), 400);
    let stranger = WebSocket::connect(world.server.address, &format!("/xrpc/{WATCH}"), &[]).await;
    assert_eq!(stranger.unwrap_err(), 401, "without a client key");
    let plain = world.server.xrpc(WATCH).await;
    assert_eq!(plain.status, 426, "{}", plain.text);
    world.server.upload(lexicon(), None).await;
    assert_eq!(connect(&world.server, "", None).await.unwrap_err(), 501);
}

async fn hidden_records_are_not_shown(world: World) {
    let mut world = watched(world).await;
    let mut live = connect(&world.server, "", None).await.unwrap();
    let hidden = world.note(ALICE, "hidden", json!({ "text": "x" })).await;
    world.note(BOB, "gone", json!({ "text": "x" })).await;
    let shown = world.note(BOB, "shown", json!({ "text": "x" })).await;
    world.account(ALICE, Some("suspended"));
    world.wait_for(&hidden, false).await;
    world.delete_note(BOB, "gone").await;
    for _ in 0..4 {
        next(&mut live).await;
    }
    let mut late = connect(&world.server, "cursor=0", None).await.unwrap();
    let (_, first) = next(&mut late).await;
    assert!(first["uri"].as_str().unwrap().ends_with("/gone"), "the account's record is left out: {first}");
    assert_eq!(next(&mut late).await.1["uri"], json!(shown));
    assert_eq!(next(&mut late).await.0, "#delete");
}

/// More changes than the queue of a connection has room for, while the client reads nothing.
async fn a_burst_is_read_from_the_table(world: World) {
    const CHANGES: u64 = 3_000;
    let mut world = watched(world).await;
    let mut socket = connect(&world.server, "", None).await.unwrap();
    let record = json!({ "$type": NOTES, "text": "x".repeat(4_000) });
    for _ in 0..CHANGES {
        world.push(|at, rev| {
            Frame::create(at, Place { did: ALICE, collection: NOTES, rkey: rev, rev }, &record)
        });
    }
    world.server.eventually("all are indexed", async |server| server.records().await == CHANGES).await;
    let (mut cursor, mut seen) = (0, BTreeMap::new());
    while (seen.len() as u64) < CHANGES {
        let (_, message) = next(&mut socket).await;
        note(&mut cursor, &mut seen, &message);
    }
    let uris: BTreeSet<&String> = seen.values().collect();
    assert_eq!(uris.len() as u64, CHANGES, "each once");
}

async fn the_connections_of_an_address_are_bounded(world: World) {
    let world = watched(world).await;
    let mut sockets = Vec::new();
    for _ in 0..64 {
        sockets.push(connect(&world.server, "", None).await.unwrap());
    }
    assert_eq!(connect(&world.server, "", None).await.unwrap_err(), 429);
    let elsewhere = [("x-forwarded-for", "203.0.113.9")];
    let path = format!("/xrpc/{WATCH}?client_key={}", world.server.client_key);
    assert!(WebSocket::connect(world.server.address, &path, &elsewhere).await.is_ok(), "another address");
    // A message of the client ends its connection.
    sockets[0].send("hello").await;
    assert_eq!(receive(&mut sockets[0]).await, Received::Lost);
    world
        .server
        .eventually("its place is free", async |server| connect(server, "", None).await.is_ok())
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_cost_tokens_if_the_operator_wants_it() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", directory.path().join("costs.db").display());
    let limits = [("DEFAULT_RATE_LIMIT_CAPACITY", "10"), ("DEFAULT_RATE_LIMIT_REFILL_RATE", "5")];
    let mut world = watched(World::on_with(&url, Some(directory), &limits).await).await;
    let cost = json!({ "value": "10" });
    let set = world.server.admin(Method::PUT, "/admin/settings/rate_limit.message_cost", Some(&cost)).await;
    assert!(set.status.is_success(), "{}", set.text);
    let mut socket = connect(&world.server, "", None).await.unwrap();
    for rkey in ["a", "b"] {
        world.note(ALICE, rkey, json!({ "text": "x" })).await;
    }
    next(&mut socket).await;
    let first = std::time::Instant::now();
    next(&mut socket).await;
    assert!(first.elapsed() > Duration::from_secs(1), "ten tokens need two seconds: {:?}", first.elapsed());
}

fn note(cursor: &mut i64, seen: &mut BTreeMap<i64, String>, message: &Value) {
    let seq = message["seq"].as_i64().unwrap();
    assert!(seq > *cursor, "{seq} after {cursor}");
    *cursor = seq;
    seen.insert(seq, message["uri"].as_str().unwrap().to_owned());
}
