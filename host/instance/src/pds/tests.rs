//! Requests to a PDS, and the meaning of its responses.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use futures_util::future::join_all;
use http::StatusCode;
use serde_json::json;

use super::standin::FakePds;
use super::*;
use belvedere_protocol::atproto::Did;
use belvedere_web::fair_share::Tenant;
use belvedere_web::net::Client;
use belvedere_web::net::testing::loopback;

const ALICE: &str = "did:plc:alice";

fn agent<'a>(net: &'a Client, session: &'a Session) -> Agent<'a> {
    static PERMITS: LazyLock<PdsPools> = LazyLock::new(PdsPools::default);
    Agent::new(net, session, &PERMITS, &Tenant::Instance)
}

fn write(rkey: Option<&str>, action: WriteAction) -> Write {
    let rkey = rkey.map(|rkey| RecordKey::try_from(rkey).unwrap());
    Write { collection: Nsid::try_from("com.example.note").unwrap(), rkey, action, swap: None }
}

fn record(text: &str) -> Bytes {
    json!({ "$type": "com.example.note", "text": text }).to_string().into()
}

#[tokio::test]
async fn each_write_has_its_method() {
    let (pds, net) = (FakePds::start().await, loopback());
    let session = pds.session(ALICE);
    let agent = agent(&net, &session);
    let made = agent.write(&write(None, WriteAction::Create(record("a\"b")))).await.unwrap();
    let (uri, cid) = made.records[0].clone().unwrap();
    assert_eq!(uri.to_string(), "at://did:plc:alice/com.example.note/3madebythepds");
    assert_eq!(made.rev, Some(pds.rev()));
    let put = agent.write(&write(Some("k"), WriteAction::Put(record("new")))).await.unwrap();
    assert_ne!(put.records[0].clone().unwrap().1, cid);
    let gone = agent.write(&write(Some("k"), WriteAction::Delete)).await.unwrap();
    assert_eq!(gone, CommitResult { rev: Some(pds.rev()), records: vec![None] });
    let (repo, collection) = (ALICE, "com.example.note");
    let note = |text| json!({ "$type": collection, "text": text });
    assert_eq!(
        pds.asked(),
        [
            (
                "createRecord".to_owned(),
                json!({ "repo": repo, "collection": collection, "record": note("a\"b") })
            ),
            (
                "putRecord".to_owned(),
                json!({ "repo": repo, "collection": collection, "rkey": "k", "record": note("new") })
            ),
            ("deleteRecord".to_owned(), json!({ "repo": repo, "collection": collection, "rkey": "k" })),
        ]
    );
}

#[tokio::test]
async fn many_writes_are_one_commit() {
    let (pds, net) = (FakePds::start().await, loopback());
    let session = pds.session(ALICE);
    let writes = [
        write(Some("a"), WriteAction::Create(record("a"))),
        write(Some("b"), WriteAction::Put(record("b"))),
        write(Some("c"), WriteAction::Delete),
    ];
    let committed = agent(&net, &session).apply_writes(&writes).await.unwrap();
    let keys: Vec<_> =
        committed.records.iter().map(|record| record.as_ref().map(|(uri, _)| uri.rkey.to_string())).collect();
    assert_eq!(keys, [Some("a".to_owned()), Some("b".to_owned()), None]);
    let (method, body) = pds.asked().remove(0);
    assert_eq!((method.as_str(), &body["repo"]), ("applyWrites", &json!(ALICE)));
    assert_eq!(
        body["writes"],
        json!([
            { "$type": "com.atproto.repo.applyWrites#create", "collection": "com.example.note", "rkey": "a",
                "value": { "$type": "com.example.note", "text": "a" } },
            { "$type": "com.atproto.repo.applyWrites#update", "collection": "com.example.note", "rkey": "b",
                "value": { "$type": "com.example.note", "text": "b" } },
            { "$type": "com.atproto.repo.applyWrites#delete", "collection": "com.example.note", "rkey": "c" },
        ])
    );
}

#[tokio::test]
async fn blobs_are_uploaded_unchanged() {
    let (pds, net) = (FakePds::start().await, loopback());
    let session = pds.session(ALICE);
    let agent = agent(&net, &session);
    let answer = agent.upload_blob(Bytes::from_static(b"bytes"), "image/png").await.unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(answer, json!({ "blob": { "$type": "blob", "size": 5, "mimeType": "image/png" } }));
    assert!(matches!(agent.upload_blob(Bytes::new(), "a\nb").await, Err(PdsError::Malformed(_))));
}

#[tokio::test]
async fn a_refusal_is_kept_complete() {
    let (pds, net) = (FakePds::start().await, loopback());
    let session = pds.session(ALICE);
    let agent = agent(&net, &session);
    let body = r#"{"error":"InvalidRecord","message":"no text"}"#;
    pds.refuse(400, body);
    let error = agent.write(&write(None, WriteAction::Create(record("x")))).await.unwrap_err();
    assert_eq!(error.to_string(), "the PDS answered 400: InvalidRecord: no text");
    let PdsError::Refused(refusal) = error else { panic!("{error:?}") };
    assert_eq!((refusal.status, &refusal.body[..]), (StatusCode::BAD_REQUEST, body.as_bytes()));
    assert!(!refusal.is_not_found());
    for (status, body, reason) in [
        (502, "<html>", "no reason given"),
        (400, r#"{"error":"RecordNotFound"}"#, "RecordNotFound"),
        (404, r#"{"message":"nothing here"}"#, "nothing here"),
    ] {
        pds.refuse(status, body);
        let error = agent.write(&write(Some("k"), WriteAction::Delete)).await.unwrap_err();
        let PdsError::Refused(refusal) = error else { panic!("{error:?}") };
        assert_eq!((refusal.reason().as_str(), refusal.is_not_found()), (reason, status != 502));
    }
}

#[tokio::test]
async fn invalid_responses_are_distinguished_from_refusals() {
    let (pds, net) = (FakePds::start().await, loopback());
    let session = pds.session(ALICE);
    let agent = agent(&net, &session);
    for body in [
        "",
        "[]",
        "{}",
        r#"{"uri":"at://x","cid":"bafyreic"}"#,
        r#"{"uri":"at://did:plc:alice/com.example.note/k","cid":"c"}"#,
    ] {
        pds.refuse(200, body);
        let error = agent.write(&write(None, WriteAction::Create(record("x")))).await.unwrap_err();
        assert!(matches!(error, PdsError::Malformed(_)), "{body}: {error}");
    }
    // Old PDSs answer a delete with an empty body.
    pds.refuse(200, "");
    let gone = agent.write(&write(Some("k"), WriteAction::Delete)).await.unwrap();
    assert_eq!(gone, CommitResult { rev: None, records: vec![None] });
    pds.refuse(200, r#"{"results":[]}"#);
    let error = agent.apply_writes(&[write(Some("k"), WriteAction::Delete)]).await.unwrap_err();
    assert!(matches!(error, PdsError::Malformed(_)), "{error}");
}

#[tokio::test]
async fn a_credential_is_never_shown() {
    let pds = FakePds::start().await;
    let session = pds.session(ALICE);
    let shown = format!("{session:?}");
    assert!(!shown.contains("token-of"), "{shown}");
    let sessions = Sessions::fixed([session]);
    let has = async |sessions: &Sessions, text| {
        let did = Did::try_from(text).unwrap();
        sessions.find(SessionSelector::Account { did: &did, client: None }).await.unwrap().is_some()
    };
    assert!(has(&sessions, ALICE).await && !has(&sessions, "did:plc:bob").await);
    assert!(!has(&Sessions::none(), ALICE).await);
}

/// A server that accepts connections and never answers.
async fn silent() -> (String, tokio::task::JoinHandle<()>, Arc<AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (url, accepted) =
        (format!("http://{}", listener.local_addr().unwrap()), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&accepted);
    let task = tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            open.push(stream);
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    (url, task, accepted)
}

#[tokio::test]
async fn a_slow_pds_delays_neither_other_pdss_nor_other_tenants() {
    let (pds, net, permits) = (FakePds::start().await, loopback(), PdsPools::default());
    let (slow, _server, accepted) = silent().await;
    // Another host name counts as another operator.
    let slow = Session { endpoint: slow.replace("127.0.0.1", "localhost"), ..pds.session(ALICE) };
    let (session, bob) = (pds.session(ALICE), pds.session("did:plc:bob"));
    let (a, b) = (Tenant::client("a"), Tenant::client("b"));
    let create = write(None, WriteAction::Create(record("x")));
    let (calls, uploads) = PdsPools::max_per_route_and_account();
    let waiting = async {
        let agent = Agent::new(&net, &slow, &permits, &a);
        let writes = (0..2 * calls).map(|_| agent.write(&create));
        let blobs = (0..2 * uploads).map(|_| agent.upload_blob(Bytes::from_static(b"x"), "image/png"));
        futures_util::future::join(join_all(writes), join_all(blobs)).await
    };
    let served = async {
        while accepted.load(Ordering::SeqCst) < calls + uploads {
            tokio::task::yield_now().await;
        }
        for tenant in [&a, &b] {
            Agent::new(&net, &session, &permits, tenant).write(&create).await.unwrap();
            let bob = Agent::new(&net, &bob, &permits, tenant);
            bob.upload_blob(Bytes::from_static(b"x"), "image/png").await.unwrap();
        }
    };
    tokio::select! {
        ended = waiting => panic!("{ended:?}"),
        () = served => {}
    }
    assert_eq!(accepted.load(Ordering::SeqCst), calls + uploads);
}
