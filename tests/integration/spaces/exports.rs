//! Exports of repos as CARs, and the blobs of records.

use belvedere_protocol::atproto::{Did, record};
use belvedere_protocol::spaces::r10::{Export, SpaceCar};
use belvedere_protocol::spaces::{SetHash, SpaceUri};
use serde_json::{Value, json};

use super::{CAROL, Group, error};
use crate::fixtures::{ALICE, BOB, World};
use belvedere_standins::http_client;
use belvedere_standins::upstream::{Upstream, respond};

crate::in_both_worlds!(
    a_repo_is_exported_whole,
    a_blob_is_public_at_the_pds_of_its_author,
    a_hidden_account_has_no_repo
);

async fn car(group: &Group, path: &str) -> bytes::Bytes {
    let server = &group.world.server;
    let bearer = format!("Bearer {}", group.alice.token(&server.did(), json!({})));
    let headers = [("x-client-key", server.client_key.as_str()), ("authorization", bearer.as_str())];
    let path = format!("/xrpc/com.atproto.{path}");
    let (status, headers, bytes) =
        http_client::send(server.address, http::Method::GET, &path, &headers, None).await.unwrap();
    assert_eq!(
        (status.as_u16(), &headers["content-type"]),
        (200, &"application/vnd.ipld.car".parse().unwrap())
    );
    bytes
}

async fn a_repo_is_exported_whole(world: World) {
    let group = Group::of(world).await;
    let space = group.space("main", json!({})).await;
    // More than are read together.
    for part in 0..2 {
        let writes: Vec<Value> = (0..130)
            .map(|n| {
                json!({ "action": "create", "collection": "com.example.note", "rkey": format!("{part}-{n}"),
                "value": { "text": "é".repeat(n) } })
            })
            .collect();
        let body = json!({ "space": space, "writes": writes });
        assert_eq!(group.post(&group.alice, "space.applyWrites", body).await.status, 200);
    }
    let path = format!("space.getRepo?space={space}&repo={ALICE}");
    let (whole, index) = (car(&group, &path).await, car(&group, &format!("{path}&excludeValues=true")).await);
    let (bytes, whole, index) =
        (whole.clone(), SpaceCar::read(whole).unwrap(), SpaceCar::read(index).unwrap());
    assert!(whole.has_records() && !index.has_records());
    assert_eq!((whole.entries().len(), whole.entries()), (260, index.entries()));
    let mut hash = SetHash::default();
    let mut canonical = Export::new(whole.commit(), whole.entries().to_vec()).head().to_vec();
    for (path, cid) in whole.entries() {
        hash.add(path, *cid);
        let json = whole.json(*cid).unwrap();
        Export::append_record(&mut canonical, *cid, &record::to_cbor(&json).unwrap().unwrap());
        let record: Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(record["$type"], "com.example.note");
    }
    assert_eq!(whole.commit().hash, hash.digest());
    assert!(canonical == bytes, "the same content has one form");
    let latest = group.get(&group.alice, &format!("space.getLatestCommit?space={space}&repo={ALICE}")).await;
    assert_eq!(latest.body["rev"], whole.commit().rev.to_string());
    // Each response is signed with a fresh key.
    assert_ne!(whole.commit().ikm, index.commit().ikm);
    assert!(space.parse::<SpaceUri>().is_ok() && Did::try_from(ALICE).is_ok());
    let missing = group.get(&group.alice, &format!("space.getRepo?space={space}&repo={BOB}")).await;
    assert_eq!(error(&missing), (404, "RepoNotFound"));
}

async fn a_blob_is_public_at_the_pds_of_its_author(world: World) {
    const CID: &str = "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku";
    let group = Group::of(world).await;
    let pds = Upstream::start(|_| respond(200, "image/png", "bytes")).await;
    group.world.plc.host(ALICE, &pds.url());
    let space = group.space("main", json!({})).await;
    let blob_ref = json!({ "$type": "blob", "ref": { "$link": CID }, "mimeType": "image/png", "size": 5 });
    for rkey in ["a", "b"] {
        let body = json!({ "space": space, "collection": "com.example.photo", "rkey": rkey, "record": { "image": blob_ref } });
        assert_eq!(group.post(&group.alice, "space.createRecord", body).await.status, 200);
    }
    let list = group.get(&group.alice, &format!("space.listBlobs?space={space}&repo={ALICE}")).await;
    assert_eq!(list.body, json!({ "cids": [CID] }));
    let blob = |cid: &str| format!("space.getBlob?space={space}&repo={ALICE}&cid={cid}");
    let other = CID.replace("vyku", "vyka");
    assert_eq!(error(&group.get(&group.alice, &blob(&other)).await).0, 404);
    assert_eq!(error(&group.get(&group.bob, &blob(CID)).await), (404, "SpaceNotFound"));
    assert_eq!(pds.requests().len(), 0);
    group.join(&space, BOB, true, false).await;
    let found = group.get(&group.bob, &blob(CID)).await;
    assert_eq!((found.status.as_u16(), found.text.as_str()), (200, "bytes"));
    for (header, value) in [
        ("content-type", "image/png"),
        ("x-content-type-options", "nosniff"),
        ("content-security-policy", "default-src 'none'; sandbox"),
    ] {
        assert_eq!(found.headers[header], value);
    }
    // The PDS gives it to a caller that proves nothing.
    let [asked] = &pds.requests()[..] else { panic!("one request") };
    assert_eq!(asked.path_and_query, format!("/xrpc/com.atproto.sync.getBlob?did={ALICE}&cid={CID}"));
    assert!(!asked.headers.contains_key("authorization"));
    // A PDS that can't be reached.
    let body = json!({ "space": space, "collection": "com.example.photo", "record": { "image": blob_ref } });
    assert_eq!(group.post(&group.carol, "space.createRecord", body.clone()).await.status, 404);
    group.join(&space, CAROL, true, true).await;
    assert_eq!(group.post(&group.carol, "space.createRecord", body).await.status, 200);
    let of_carol = blob(CID).replace(&format!("repo={ALICE}"), &format!("repo={CAROL}"));
    assert_eq!(error(&group.get(&group.alice, &of_carol).await), (502, "UpstreamFailure"));
    let documented = include_str!("../../../docs/spaces.md");
    assert!(documented.contains("everyone who knows its CID: blobs are not private"));
}

async fn a_hidden_account_has_no_repo(world: World) {
    let group = Group::of(world).await;
    let space = group.space("main", json!({})).await;
    group.join(&space, CAROL, true, true).await;
    group.note(&group.carol, &space, "c").await;
    group.world.execute("UPDATE dids SET status = 2 WHERE did = 'did:plc:carolcarolcarolcarolcaro'").await;
    for method in ["listRecords", "getLatestCommit", "getRepo", "listRepoOps", "listBlobs"] {
        let path = format!("space.{method}?space={space}&repo={CAROL}");
        assert_eq!(error(&group.get(&group.alice, &path).await), (400, "RepoTakendown"), "{method}");
    }
    let list = group.get(&group.alice, &format!("space.listRecords?space={space}")).await;
    assert_eq!(list.body["records"], json!([]));
    assert_eq!(
        group.get(&group.alice, &format!("space.listRepos?space={space}")).await.body["repos"],
        json!([])
    );
}
