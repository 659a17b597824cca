//! Tests `belvedere_instance::pds` against a real PDS.

use belvedere_instance::config::Secret;
use belvedere_instance::pds::{
    Agent, CommitResult, Credential, PdsError, PdsPools, Session, Write, WriteAction,
};
use belvedere_protocol::atproto::{Did, Nsid, RecordKey};
use belvedere_web::fair_share::Tenant;
use belvedere_web::net::{Client, OutboundPolicy};
use bytes::Bytes;
use serde_json::{Value, json};

use crate::network::network;
use crate::pds::Account;

const NOTE: &str = "com.example.writes.note";

fn session(account: &Account) -> Session {
    Session {
        did: Did::try_from(account.did.as_str()).unwrap(),
        endpoint: account.endpoint().to_owned(),
        credential: Credential::Bearer(Secret::new(account.token().to_owned())),
        permits: None,
    }
}

fn write(rkey: Option<&str>, action: WriteAction) -> Write {
    let rkey = rkey.map(|rkey| RecordKey::try_from(rkey).unwrap());
    Write { collection: Nsid::try_from(NOTE).unwrap(), rkey, action, swap: None }
}

fn note(text: &str) -> Bytes {
    json!({ "$type": NOTE, "text": text }).to_string().into()
}

/// URI and CID of the single record of a commit.
fn uri_and_cid(committed: &CommitResult) -> (String, String) {
    let (uri, cid) = committed.records[0].as_ref().unwrap();
    (uri.to_string(), cid.to_string())
}

#[tokio::test]
async fn writes_and_blobs_reach_the_pds() {
    let alice = network().await.account().await;
    let net = Client::new(OutboundPolicy { allow_loopback: true, ..OutboundPolicy::default() }).unwrap();
    let session = session(&alice);
    let (places, tenant) = (PdsPools::default(), Tenant::Instance);
    let agent = Agent::new(&net, &session, &places, &tenant);

    // The PDS generates the key of a new record, and the CID that we compute is the same as the PDS's.
    let created = agent.write(&write(None, WriteAction::Create(note("first")))).await.unwrap();
    let (uri, cid) = uri_and_cid(&created);
    assert_eq!(
        belvedere_protocol::atproto::record::inspect(&note("first")).unwrap().cid.unwrap().to_string(),
        cid,
        "the index stores the record with this CID before the stream delivers it"
    );
    let rkey = uri.rsplit('/').next().unwrap().to_owned();
    let put = agent.write(&write(Some(&rkey), WriteAction::Put(note("second")))).await.unwrap();
    assert_eq!(uri_and_cid(&put).0, uri);
    assert!(put.rev > created.rev && created.rev.is_some(), "commits have ascending revs");
    assert_eq!(
        alice.records(NOTE).await[&uri],
        (uri_and_cid(&put).1, json!({ "$type": NOTE, "text": "second" }))
    );

    let many = [
        write(Some("a"), WriteAction::Create(note("a"))),
        write(Some(&rkey), WriteAction::Put(note("third"))),
        write(None, WriteAction::Create(note("b"))),
    ];
    let done = agent.apply_writes(&many).await.unwrap();
    assert!(done.rev > put.rev && done.records.iter().all(Option::is_some), "{done:?}");
    let texts = async || {
        let records = alice.records(NOTE).await;
        let mut texts: Vec<Value> = records.into_values().map(|(_, value)| value["text"].clone()).collect();
        texts.sort_by_key(Value::to_string);
        texts
    };
    assert_eq!(texts().await, [json!("a"), json!("b"), json!("third")]);
    // If one write fails, none is applied.
    let refused = agent
        .apply_writes(&[
            write(Some("c"), WriteAction::Create(note("c"))),
            write(Some("gone"), WriteAction::Put(note("x"))),
        ])
        .await;
    // This PDS responds with 500.
    assert!(matches!(&refused, Err(PdsError::Refused(_))), "{refused:?}");
    assert_eq!(texts().await.len(), 3);

    let deleted = agent.write(&write(Some("a"), WriteAction::Delete)).await.unwrap();
    assert!(deleted.rev > done.rev && deleted.records == [None]);
    // Deleting a missing record succeeds: this PDS makes no commit.
    agent.write(&write(Some("a"), WriteAction::Delete)).await.unwrap();
    assert_eq!(texts().await, [json!("b"), json!("third")]);

    let blob = agent.upload_blob(Bytes::from_static(b"not really a picture"), "image/png").await.unwrap();
    let blob: Value = serde_json::from_slice(&blob).unwrap();
    let with_blob = json!({ "$type": NOTE, "text": "picture", "image": blob["blob"] }).to_string().into();
    let saved = agent.write(&write(None, WriteAction::Create(with_blob))).await.unwrap();
    let (_, found) = &alice.records(NOTE).await[&uri_and_cid(&saved).0];
    assert_eq!(found["image"]["mimeType"], "image/png", "{found}");
}

#[tokio::test]
async fn an_invalid_token_and_a_foreign_repo_are_refused() {
    let (alice, bob) = (network().await.account().await, network().await.account().await);
    let net = Client::new(OutboundPolicy { allow_loopback: true, ..OutboundPolicy::default() }).unwrap();
    let create = write(None, WriteAction::Create(note("x")));
    let forged =
        Session { credential: Credential::Bearer(Secret::new("forged".to_owned())), ..session(&alice) };
    let others = Session { did: Did::try_from(bob.did.as_str()).unwrap(), ..session(&alice) };
    for (session, status) in [(forged, 400..402), (others, 400..404)] {
        let (places, tenant) = (PdsPools::default(), Tenant::Instance);
        match Agent::new(&net, &session, &places, &tenant).write(&create).await {
            Err(PdsError::Refused(refusal)) => {
                assert!(status.contains(&refusal.status.as_u16()), "{refusal:?}");
                assert!(!refusal.reason().is_empty());
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(bob.records(NOTE).await.is_empty());
}
