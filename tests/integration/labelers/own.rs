//! The labels of this instance: another instance follows them, and everyone can query them.

use belvedere_protocol::crypto::PublicKey;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::*;
use crate::support::instance::{OPERATOR, query_lexicon};

const QUERY: &str = "/xrpc/com.atproto.label.queryLabels";
const QUERY_LABELS: &str = "com.atproto.label.queryLabels";

/// Makes the instance a labeler under the DID of the tests' labeler. Returns its key.
async fn become_labeler(world: &World) -> PublicKey {
    let server = &world.server;
    let identity = json!({ "mode": "did_plc", "did": LABELER });
    let answer = server.admin(Method::PUT, "/admin/service-identity", Some(&identity)).await;
    assert!(answer.status.is_success(), "{}", answer.text);
    let method = json!({ "fragment_id": "#atproto_label" });
    let made = server.admin(Method::POST, "/admin/verification-methods", Some(&method)).await;
    PublicKey::from_multikey(made.body["public_key_multibase"].as_str().unwrap()).unwrap()
}

async fn issue(world: &World, label: Value) -> Value {
    let answer = world.server.admin(Method::POST, "/admin/labels", Some(&label)).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.body["label"].clone()
}

async fn query(world: &World, parameters: &str) -> Value {
    let answer = world.server.request(Method::GET, &format!("{QUERY}?{parameters}"), &[], None).await;
    assert_eq!(answer.status, 200, "{parameters}: {}", answer.text);
    answer.body
}

crate::in_both_worlds!(
    another_instance_follows_the_labels,
    labels_are_queried_by_subject,
    before_there_is_a_did_there_are_no_labels,
    a_cursor_of_the_future_is_an_error,
    scripts_query_labels_and_replace_the_query,
    scripts_apply_and_negate_labels
);

async fn another_instance_follows_the_labels(world: World) {
    let key = become_labeler(&world).await;
    let mut reader = World::sqlite().await.with_notes().await;
    let note = reader.note(ALICE, "a", json!({ "text": "a" })).await;
    assert_eq!(issue(&world, json!({ "uri": note, "val": "spam" })).await["val"], "spam");
    reader.plc.labeler(LABELER, &format!("http://{}", world.server.address), &key);
    follow(&reader.server).await;
    let has = async |values: &[&str]| {
        let labelled = async |_: &Instance| on(&reader, &note).await == theirs(values);
        reader.server.eventually(&format!("the labels are {values:?}"), labelled).await;
    };
    has(&["spam"]).await;
    issue(&world, json!({ "uri": note, "val": "rude", "exp": "2999-01-01T00:00:00Z" })).await;
    has(&["rude", "spam"]).await;
    issue(&world, json!({ "uri": note, "val": "spam", "neg": true })).await;
    has(&["rude"]).await;
    assert_eq!(events(&reader, "labeler.labels_refused").await, Vec::<Value>::new());
}

async fn labels_are_queried_by_subject(mut world: World) {
    world = world.with_notes().await;
    become_labeler(&world).await;
    let note = world.note(ALICE, "a", json!({ "text": "a" })).await;
    issue(&world, json!({ "uri": note, "val": "spam" })).await;
    issue(&world, json!({ "uri": ALICE, "val": "rude" })).await;
    assert_eq!(issue(&world, json!({ "uri": ALICE, "val": "rude" })).await, Value::Null, "nothing changes");
    assert_eq!(issue(&world, json!({ "uri": ALICE, "val": "never", "neg": true })).await, Value::Null);
    assert_eq!(on(&world, &note).await, theirs(&["spam"]));
    let values = async |parameters: &str| {
        let labels = query(&world, parameters).await["labels"].as_array().unwrap().clone();
        labels.iter().map(|label| label["val"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(values(&format!("uriPatterns={note}")).await, ["spam"]);
    assert_eq!(values(&format!("uriPatterns=at://{ALICE}/*")).await, ["spam"]);
    assert_eq!(values(&format!("uriPatterns={ALICE}&uriPatterns={note}")).await, ["spam", "rude"]);
    assert_eq!(values("uriPatterns=*").await, ["spam", "rude"]);
    assert_eq!(values("uriPatterns=*&sources=did:plc:other").await, Vec::<String>::new());
    assert_eq!(values(&format!("uriPatterns=*&sources={LABELER}")).await.len(), 2);
    let first = query(&world, "uriPatterns=*&limit=1").await;
    let cursor = first["cursor"].as_str().unwrap();
    assert_eq!(values(&format!("uriPatterns=*&limit=1&cursor={cursor}")).await, ["rude"]);
    let label = &first["labels"][0];
    assert_eq!((&label["src"], &label["ver"], label.get("neg")), (&json!(LABELER), &json!(1), None));
    assert_eq!(label["sig"]["$bytes"].as_str().unwrap().len(), 86);
    for bad in
        ["", "uriPatterns=a*b", "uriPatterns=a%01", "uriPatterns=*&limit=251", "uriPatterns=*&cursor=x"]
    {
        let answer = world.server.request(Method::GET, &format!("{QUERY}?{bad}"), &[], None).await;
        assert_eq!(answer.status, 400, "{bad}: {}", answer.text);
    }
    for bad in [
        json!({ "uri": "alice.test", "val": "x" }),
        json!({ "uri": ALICE, "val": "" }),
        json!({ "uri": ALICE, "val": "a\u{0}b" }),
        json!({ "uri": ALICE, "val": "x", "cid": "x" }),
        json!({ "uri": ALICE, "val": "x", "exp": "2020-01-01T00:00:00Z" }),
    ] {
        let answer = world.server.admin(Method::POST, "/admin/labels", Some(&bad)).await;
        assert_eq!(answer.status, 400, "{bad}: {}", answer.text);
    }
    let listed = world.server.admin(Method::GET, &format!("/admin/labels?uri={ALICE}"), None).await;
    assert_eq!(listed.body["labels"][0]["created_by"], OPERATOR, "{}", listed.text);
}

async fn before_there_is_a_did_there_are_no_labels(world: World) {
    let label = json!({ "uri": ALICE, "val": "spam" });
    let refused = world.server.admin(Method::POST, "/admin/labels", Some(&label)).await;
    assert_eq!(refused.status, 409, "{}", refused.text);
    for path in [format!("{QUERY}?uriPatterns=*"), "/xrpc/com.atproto.label.subscribeLabels".to_owned()] {
        let answer = world.server.request(Method::GET, &path, &[], None).await;
        assert_eq!(answer.status, 501, "{path}: {}", answer.text);
        assert!(answer.error().contains("#atproto_label"), "{}", answer.text);
    }
    become_labeler(&world).await;
    let answer =
        world.server.request(Method::GET, "/xrpc/com.atproto.label.subscribeLabels", &[], None).await;
    assert_eq!(answer.status, 426, "{}", answer.text);
}

async fn a_cursor_of_the_future_is_an_error(world: World) {
    become_labeler(&world).await;
    let mut stream = TcpStream::connect(&world.server.address).await.unwrap();
    let head = "GET /xrpc/com.atproto.label.subscribeLabels?cursor=99 HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\n\
                upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut received = Vec::new();
    while !received.windows(12).any(|part| part == b"FutureCursor") {
        let mut buffer = [0; 1024];
        let n = stream.read(&mut buffer).await.unwrap();
        assert!(n > 0, "{}", String::from_utf8_lossy(&received));
        received.extend_from_slice(&buffer[..n]);
    }
    let text = String::from_utf8_lossy(&received).to_lowercase();
    assert!(text.starts_with("http/1.1 101 ") && text.contains("s3pplmbitxaq9kygzzhzrbk+xoo="), "{text}");
}

async fn scripts_query_labels_and_replace_the_query(world: World) {
    become_labeler(&world).await;
    issue(&world, json!({ "uri": ALICE, "val": "spam" })).await;
    world.server.upload(query_lexicon("com.example.labels"), None).await;
    let source = format!(
        "function handle()\n  local answer = xrpc.query(\"{QUERY_LABELS}\", {{ uriPatterns = \"{ALICE}\" }})\n  \
         return {{ status = answer.status, found = json.decode(answer.body).labels[1].val }}\nend"
    );
    world.server.bind("com.example.labels", &source).await;
    let answer = world.server.xrpc("com.example.labels").await;
    assert_eq!(answer.body, json!({ "status": 200, "found": "spam" }), "{}", answer.text);

    world.server.upload(query_lexicon(QUERY_LABELS), None).await;
    world.server.bind(QUERY_LABELS, "function handle() return { own = true } end").await;
    let answer = world.server.xrpc(&format!("{QUERY_LABELS}?uriPatterns=*")).await;
    assert_eq!(answer.body, json!({ "own": true }), "{}", answer.text);
    let body = json!({ "id": "xrpc.query:com.atproto.label.subscribeLabels", "body": "function handle() return {} end" });
    let refused = world.server.admin(Method::POST, "/admin/scripts", Some(&body)).await;
    assert!(refused.error().contains("it is a stream"), "{}", refused.text);
}

async fn scripts_apply_and_negate_labels(mut world: World) {
    world = world.with_notes().await;
    let script = format!(
        "function handle()\n  local ok, why = pcall(labels.apply, \"{ALICE}\", \"spam\")\n  \
         return {{ ok = ok, why = tostring(why) }}\nend"
    );
    world.server.upload(query_lexicon("com.example.label"), None).await;
    world.server.bind("com.example.label", &script).await;
    let refused = world.server.xrpc("com.example.label").await;
    assert!(refused.text.contains("a query changes nothing"), "{}", refused.text);
    let trial = async || {
        let source = format!("function handle()\n  return labels.apply(\"{ALICE}\", \"spam\")\nend");
        let body = json!({ "id": "job.run:sweep", "body": source, "event": { "type": "job", "input": {} } });
        world.server.admin(Method::POST, "/admin/scripts/dry-run", Some(&body)).await
    };
    assert!(trial().await.text.contains("#atproto_label"), "{}", trial().await.text);
    become_labeler(&world).await;
    assert!(trial().await.text.contains("label.issue"), "{}", trial().await.text);
    assert_eq!(query(&world, "uriPatterns=*").await["labels"], json!([]), "a dry run issues nothing");

    let script = "function handle()\n  local exp = \"2999-01-01T00:00:00Z\"\n  labels.apply(uri, \"seen\", { exp = exp })\n  \
                  labels.apply(uri, \"gone\")\n  labels.negate(uri, \"gone\")\n  return record\nend";
    world.server.bind_to(&format!("record.index:{NOTES}"), script).await;
    let note = world.note(ALICE, "a", json!({ "text": "a" })).await;
    assert_eq!(on(&world, &note).await, theirs(&["seen"]));
}
