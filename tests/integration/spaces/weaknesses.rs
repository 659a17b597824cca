//! The weaknesses of an earlier implementation (spaces.md §13). The tests have their numbers. Tests elsewhere prove these whole:
//!
//! | Weakness | Test |
//! |---|---|
//! | 1: the issuer of a credential need not be the authority | `credentials::presenting::each_check_of_a_credential_has_its_error` |
//! | 3: `getRecord` ignores the author | `records::members_write_and_read` |
//! | 6: invites are revoked across spaces, and used too often at once | `invites::invites_end`; of the store, `uses_at_once_stay_within_the_maximum` |
//! | 10: copies that have diverged are never repaired | of the store, `spaces::synchronized` |
//! | 11: blobs are public at the PDS | `exports::a_blob_is_public_at_the_pds_of_its_author` |
//! | 12: exports are not canonical | `exports::a_repo_is_exported_whole`; of the protocol, `an_export_reads_back_in_canonical_order` |

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use belvedere_base::clock::Clock;
use belvedere_base::random::Random;
use belvedere_protocol::atproto::Did;
use belvedere_protocol::crypto::{Algorithm, PrivateKey};
use belvedere_protocol::spaces::r10::token::{Delegation, Signer, attest};
use belvedere_protocol::spaces::{RecordPath, SetHash, SpaceUri};
use belvedere_standins::database::sqlite_url;
use http::Method;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::credentials::{Holder, changed, delegation};
use super::{CAROL, Group, KIND, error};
use crate::fixtures::{ALICE, BOB, World};
use crate::several_hosts::SEALING_KEY;
use crate::support::instance::Answer;

crate::in_both_worlds!(
    lists_have_the_own_spaces_only,
    a_page_that_ends_within_a_commit_loses_no_operation,
    a_swap_is_compared_with_the_stored_record,
    deletions_need_the_right_to_write,
    included_spaces_are_bounded,
    everything_has_a_largest_size,
    public_records_are_refused
);

const NOTE: &str = "com.example.note";

/// 2.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_key_that_encrypts_signs_nothing() {
    let (url, directory) = sqlite_url();
    let world = World::on_with(&url, Some(directory), &[("TOKEN_ENCRYPTION_KEY", SEALING_KEY)]).await;
    let group = Group::of(world).await;
    let space = group.space("main", json!({})).await;
    group.join(&space, BOB, true, false).await;
    let holder = Holder::new();
    let credential = holder.credential(&group, &group.bob, &space).await;
    let secret = STANDARD.decode(SEALING_KEY).unwrap();
    for algorithm in [Algorithm::Es256, Algorithm::Es256k] {
        let key = PrivateKey::from_bytes(algorithm, &secret).unwrap();
        let (bob, uri) = (Did::try_from(BOB).unwrap(), SpaceUri::parse(&space).unwrap());
        let now = Clock::system().now();
        let (token, _) = Delegation::issue((&key, Signer::Host), &bob, &uri, &Random::system().hex(8), now);
        let answer = holder.exchange(&group, &token, json!({ "space": space })).await;
        assert_eq!(error(&answer), (401, "BadJwtSignature"), "{}", answer.text);
        let alg = json!({ "alg": algorithm.as_str() });
        let forged = changed(&credential, &key, &alg, &json!({}));
        let query = format!("space.listRecords?space={space}");
        let answer = holder.get(&group, &forged, ALICE, &query).await;
        assert_eq!(error(&answer), (401, "BadJwtSignature"), "{}", answer.text);
    }
}

/// 4.
async fn lists_have_the_own_spaces_only(world: World) {
    let group = Group::of(world).await;
    let space = group.space("main", json!({})).await;
    group.join(&space, BOB, true, true).await;
    for query in [String::new(), format!("?did={ALICE}"), format!("?did={BOB}"), format!("?spaceType={KIND}")]
    {
        let list = group.get(&group.carol, &format!("space.listSpaces{query}")).await;
        assert_eq!((list.status.as_u16(), &list.body["spaces"]), (200, &json!([])), "{query} {}", list.text);
    }
    // The authority of the spaces, and the account whose spaces they are.
    for did in [ALICE, BOB] {
        let list = group.get(&group.bob, &format!("space.listSpaces?did={did}")).await;
        assert_eq!(list.body["spaces"], json!([{ "uri": space, "isOwner": false }]), "{did}");
    }
    assert_eq!(
        group.get(&group.bob, &format!("space.listSpaces?did={CAROL}")).await.body["spaces"],
        json!([])
    );
}

/// 5. The servers of other tests may call this machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_address_of_this_machine_is_called() {
    const PUBLIC: &str = "https://spaces.example";
    let (url, directory) = sqlite_url();
    let world = World::on_with(&url, Some(directory), &[("PUBLIC_URL", PUBLIC)]).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (inside, calls) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&calls);
    tokio::spawn(async move {
        while listener.accept().await.is_ok() {
            count.fetch_add(1, Relaxed);
        }
    });
    let group = Group::of(world).await;
    let call = async |method: Method, path: &str, body: Option<Value>| -> Answer {
        let server = &group.world.server;
        let token = format!("Bearer {}", group.alice.token("did:web:spaces.example", json!({})));
        let headers = [("x-client-key", server.client_key.as_str()), ("authorization", &token)];
        let path = format!("/xrpc/com.atproto.{path}");
        server.request(method, &path, &headers, body.map(|body| body.to_string())).await
    };
    let post = async |method: &str, body: Value| call(Method::POST, method, Some(body)).await;
    let made = post("simplespace.createSpace", json!({ "spaceType": KIND, "skey": "main" })).await;
    let space = made.body["uri"].as_str().unwrap_or_else(|| panic!("{}", made.text)).to_owned();
    // The services of DIDs, and the hosts of their documents.
    let web = format!("did:web:127.0.0.1%3A{}", inside.port());
    let mut services = vec![web.clone()];
    for (n, host) in
        ["http://127.0.0.1", "https://127.0.0.1", "https://localhost", "https://[::ffff:127.0.0.1]"]
            .iter()
            .enumerate()
    {
        let did = format!("did:plc:private{n}");
        group.world.plc.host(&did, &format!("{host}:{}", inside.port()));
        services.push(did);
    }
    for service in &services {
        let refused = post("space.registerNotify", json!({ "space": space, "service": service })).await;
        assert_eq!(error(&refused), (400, "ServiceNotResolvable"), "{service} {}", refused.text);
    }
    // Managing apps.
    for app in &services {
        let policy = json!({ "$type": "com.atproto.simplespace.defs#managingAppPolicy", "managingApp": app });
        let change = json!({ "space": space, "readPolicy": policy, "writePolicy": policy });
        assert_eq!(post("simplespace.updateSpace", change).await.status, 200);
        let list = call(Method::GET, &format!("space.listRecords?space={space}"), None).await;
        assert_eq!(error(&list), (403, "NotAuthorized"), "{}", list.text);
    }
    // The issuers of tokens, the metadata of clients, and the PDSs of blobs.
    let public = json!({ "$type": "com.atproto.simplespace.defs#publicPolicy" });
    let apps = json!({ "$type": "com.atproto.simplespace.defs#allowList", "allowed": ["https://app.example/c.json"] });
    let change = json!({ "space": space, "readPolicy": public, "writePolicy": public, "appAccess": apps });
    assert_eq!(post("simplespace.updateSpace", change).await.status, 200);
    let holder = Holder::new();
    let foreign =
        changed(&delegation(&group.bob, &space), group.bob.key(), &json!({}), &json!({ "iss": web }));
    assert_eq!(error(&holder.exchange(&group, &foreign, json!({ "space": space })).await), (401, "BadJwt"));
    let client = format!("https://{inside}/client.json");
    let authority = SpaceUri::parse(&space).unwrap().did;
    let attestation = attest(&holder.key, "k", &client, &authority, "1", Clock::system().now()).unwrap();
    let body = json!({ "space": space, "clientAttestation": attestation });
    let refused = holder.exchange(&group, &delegation(&group.bob, &space), body).await;
    assert_eq!(error(&refused), (400, "InvalidClientAttestation"));
    assert_eq!(calls.load(Relaxed), 0);
}

/// 7.
async fn a_page_that_ends_within_a_commit_loses_no_operation(world: World) {
    let group = Group::of(world).await;
    let space = group.space("main", json!({})).await;
    for commit in 0..3 {
        let writes: Vec<Value> = (0..5)
            .map(|n| {
                json!({ "action": "create", "collection": NOTE, "rkey": format!("{commit}-{n}"), "value": { "n": n } })
            })
            .collect();
        let written =
            group.post(&group.alice, "space.applyWrites", json!({ "space": space, "writes": writes })).await;
        assert_eq!(written.status, 200, "{}", written.text);
    }
    let path = format!("space.listRepoOps?space={space}&repo={ALICE}");
    let whole = group.get(&group.alice, &path).await.body["ops"].clone();
    assert_eq!(whole.as_array().unwrap().len(), 15);
    for limit in [1, 2, 3, 4, 7] {
        let (mut ops, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = group.get(&group.alice, &format!("{path}&limit={limit}&cursor={cursor}")).await.body;
            ops.extend(page["ops"].as_array().unwrap().clone());
            if page.get("commit").is_some() {
                break;
            }
            page["cursor"].as_str().unwrap().clone_into(&mut cursor);
        }
        assert_eq!(json!(ops), whole, "pages of {limit}");
    }
}

/// 8.
async fn a_swap_is_compared_with_the_stored_record(world: World) {
    let group = Group::of(world).await;
    let space = group.space("main", json!({})).await;
    let first = group.note(&group.alice, &space, "a").await.body["cid"].clone();
    let write = |rkey: &str, text: &str, swap: &Value| json!({ "action": "update", "collection": NOTE, "rkey": rkey, "value": { "text": text }, "swapRecord": swap });
    let apply = async |writes: Value| {
        group.post(&group.alice, "space.applyWrites", json!({ "space": space, "writes": writes })).await
    };
    // The CID of another record, and one that the same batch has replaced: taken as the old version, each would leave
    // a wrong element in the hash.
    let other = group.note(&group.alice, &space, "b").await.body["cid"].clone();
    for writes in [
        json!([write("a", "x", &other)]),
        json!([write("b", "x", &first)]),
        json!([write("a", "x", &first), write("a", "y", &first)]),
    ] {
        let refused = apply(writes.clone()).await;
        assert_eq!(error(&refused), (409, "InvalidSwap"), "{writes} {}", refused.text);
    }
    assert_eq!(apply(json!([write("a", "z", &first)])).await.status, 200);
    let list = group.get(&group.alice, &format!("space.listRecords?space={space}&repo={ALICE}")).await;
    let mut hash = SetHash::default();
    for record in list.body["records"].as_array().unwrap() {
        let path = format!("{NOTE}/{}", record["rkey"].as_str().unwrap());
        hash.add(&RecordPath::parse(&path).unwrap(), record["cid"].as_str().unwrap().parse().unwrap());
    }
    let latest = group.get(&group.alice, &format!("space.getLatestCommit?space={space}&repo={ALICE}")).await;
    let digest = STANDARD_NO_PAD.encode(hash.digest());
    assert_eq!(latest.body["commit"]["hash"]["$bytes"], digest);
}

/// 9.
async fn deletions_need_the_right_to_write(world: World) {
    let group = Group::of(world).await;
    let space = group.space("main", json!({})).await;
    group.join(&space, BOB, true, true).await;
    group.note(&group.alice, &space, "a").await;
    group.note(&group.bob, &space, "b").await;
    let delete = async |rkey: &str, more: Value| {
        let mut body = json!({ "space": space, "collection": NOTE, "rkey": rkey });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer = group.post(&group.bob, "space.deleteRecord", body).await;
        (answer.status.as_u16(), answer.error().to_owned())
    };
    assert_eq!(delete("a", json!({ "repo": ALICE })).await, (403, "NotAuthorized".to_owned()));
    assert_eq!(delete("a", json!({})).await, (404, "RecordNotFound".to_owned()));
    group.join(&space, BOB, true, false).await;
    assert_eq!(delete("b", json!({})).await, (403, "NotAuthorized".to_owned()));
    let remove = json!({ "space": space, "did": BOB });
    assert_eq!(group.post(&group.alice, "simplespace.removeMember", remove).await.status, 200);
    assert_eq!(delete("b", json!({})).await, (404, "SpaceNotFound".to_owned()));
    let list = group.get(&group.alice, &format!("space.listRecords?space={space}")).await;
    assert_eq!(list.body["records"].as_array().unwrap().len(), 2);
}

/// 13.
async fn included_spaces_are_bounded(world: World) {
    const MAX_DELEGATIONS: usize = 100;
    const MAX_STEPS: usize = 10;
    let group = Group::of(world).await;
    let include = async |space: &str, included: &str| {
        let body = json!({ "space": space, "did": included, "read": true, "write": true });
        group.post(&group.alice, "simplespace.putMember", body).await
    };
    let reads = async |space: &str| {
        group.get(&group.bob, &format!("space.listRecords?space={space}")).await.status.as_u16()
    };
    // A chain that ends in itself: rights pass through ten steps, and a circle ends.
    let mut chain = Vec::new();
    for n in 0..=MAX_STEPS + 1 {
        chain.push(group.space(&format!("chain{n}"), json!({})).await);
    }
    for (n, space) in chain.iter().enumerate() {
        assert_eq!(include(space, &chain[(n + 1) % chain.len()]).await.status, 200);
    }
    group.join(&chain[MAX_STEPS + 1], BOB, true, true).await;
    assert_eq!((reads(&chain[1]).await, reads(&chain[0]).await), (200, 404));
    // A space that includes as many as may be looked at: there is none left for what these include.
    let (wide, last) = (group.space("wide", json!({})).await, group.space("last", json!({})).await);
    for n in 0..=MAX_DELEGATIONS {
        let part = group.space(&format!("part{n}"), json!({})).await;
        if n == 0 {
            assert_eq!(include(&part, &last).await.status, 200);
        }
        let refused = include(&wide, &part).await;
        let expected = if n < MAX_DELEGATIONS { (200, "") } else { (400, "InvalidRequest") };
        assert_eq!(error(&refused), expected, "{n} {}", refused.text);
    }
    group.join(&last, CAROL, true, true).await;
    let list = group.get(&group.carol, &format!("space.listRecords?space={wide}")).await;
    assert_eq!(error(&list), (404, "SpaceNotFound"), "{}", list.text);
    let members = group.get(&group.alice, &format!("simplespace.listMembers?space={wide}")).await;
    assert_eq!(members.body["members"].as_array().unwrap().len(), 1, "{}", members.text);
}

/// 14.
async fn everything_has_a_largest_size(world: World) {
    let group = Group::of(world).await;
    let space = group.space("main", json!({})).await;
    let create = async |rkey: &str, text: String| {
        let body = json!({ "space": space, "collection": NOTE, "rkey": rkey, "record": { "text": text } });
        let answer = group.post(&group.alice, "space.createRecord", body).await;
        (answer.status.as_u16(), answer.error().to_owned())
    };
    let invalid = (400, "InvalidRequest".to_owned());
    assert_eq!(create(&"k".repeat(512), "x".repeat(900_000)).await, (200, String::new()));
    assert_eq!(create(&"k".repeat(513), String::new()).await, invalid);
    assert_eq!(create("large", "x".repeat(1 << 20)).await.0, 413);
    let writes = |count: usize| -> Vec<Value> {
        let write =
            |n| json!({ "action": "create", "collection": NOTE, "rkey": format!("n{n}"), "value": {} });
        (0..count).map(write).collect()
    };
    for (count, status) in [(201, 400), (200, 200)] {
        let body = json!({ "space": space, "writes": writes(count) });
        assert_eq!(group.post(&group.alice, "space.applyWrites", body).await.status, status, "{count}");
    }
    // The repo has as many records as it may.
    group.world.execute("UPDATE space_repos SET records = 100000").await;
    let full = group.note(&group.alice, &space, "full").await;
    assert_eq!(error(&full), (400, "InvalidRequest"));
    assert_eq!(full.body["message"], "a repo has at most 100000 records in a space");
    for (field, longest, status) in [
        ("skey", 512, 200),
        ("skey", 513, 400),
        ("displayName", 200, 200),
        ("displayName", 201, 400),
        ("description", 5_000, 200),
        ("description", 5_001, 400),
    ] {
        let mut body = json!({ "spaceType": KIND });
        body[field] = "x".repeat(longest).into();
        let made = group.post(&group.alice, "simplespace.createSpace", body).await;
        assert_eq!(made.status, status, "{field} {longest} {}", made.text);
    }
    let config = json!({ "spaceType": KIND, "config": { "notes": "x".repeat(16 << 10) } });
    assert_eq!(group.post(&group.alice, "simplespace.createSpace", config).await.status, 400);
    for (query, status) in [("limit=1000", 200), ("limit=1001", 400), ("limit=0", 400)] {
        let list = group.get(&group.alice, &format!("space.listRecords?space={space}&{query}")).await;
        assert_eq!(list.status, status, "{query}");
    }
}

/// 15.
async fn public_records_are_refused(world: World) {
    let group = Group::of(world).await;
    let space = group.space("main", json!({ "config": { "records_public": false } })).await;
    for value in [json!(true), json!("false"), json!(1), json!(null)] {
        let config = json!({ "records_public": value });
        let made = json!({ "spaceType": KIND, "skey": "b", "config": config });
        let created = group.post(&group.alice, "simplespace.createSpace", made).await;
        assert_eq!(error(&created), (400, "InvalidRequest"), "{value}");
        let message = created.body["message"].as_str().unwrap();
        assert!(message.contains("records_public is not supported"), "{message}");
        let change = json!({ "space": space, "config": config });
        for method in ["simplespace.updateSpace", "simplespace.updateConfig"] {
            let changed = group.post(&group.alice, method, change.clone()).await;
            assert_eq!(error(&changed), (400, "InvalidRequest"), "{method} {value}");
        }
        let changed = group.admin(Method::PATCH, &space, "", Some(&json!({ "config": config }))).await;
        assert_eq!(error(&changed), (400, "InvalidRequest"), "{value} {}", changed.text);
    }
    let anonymous = group.anonymous(&format!("space.listRecords?space={space}")).await;
    assert_eq!(error(&anonymous), (401, "AuthenticationRequired"));
}
