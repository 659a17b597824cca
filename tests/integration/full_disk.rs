//! The disk fills up while the stream runs, and then has free space again.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use belvedere_protocol::spaces::{RecordPath, SetHash};
use belvedere_standins::jetstream::{Frame, Place};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::fixtures::{ALICE, LIST, NOTES, World};
use crate::small_disk::SmallDisk;
use crate::spaces::Group;
use crate::support::instance::Instance;

fn push_notes(world: &mut World, count: u64) {
    for _ in 0..count {
        let record = json!({ "$type": NOTES, "text": "x".repeat(20_000) });
        world.push(|at, rev| {
            Frame::create(at, Place { did: ALICE, collection: NOTES, rkey: rev, rev }, &record)
        });
    }
}

async fn ready(server: &Instance) -> StatusCode {
    server.request(Method::GET, "/readyz", &[], None).await.status
}

async fn set_variable(server: &Instance) -> (StatusCode, Value) {
    let body = json!({ "key": "KEY", "value": "y".repeat(10_000) });
    let answer = server.admin(Method::POST, "/admin/script-variables", Some(&body)).await;
    (answer.status, answer.body)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_leaves_repos_in_spaces_as_their_commits_say() {
    let Some(disk) = SmallDisk::mount() else { return };
    let url = format!("sqlite://{}/test.db", disk.path().display());
    let group = Group::of(World::on(&url, None).await).await;
    let space = group.space("main", json!({})).await;
    let text = "x".repeat(100_000);
    let mut stored = Vec::new();
    let mut write = async |n: usize| {
        let rkey = format!("n{n}");
        let body = json!({ "space": space, "collection": NOTES, "rkey": rkey, "record": { "text": text } });
        let answer = group.post(&group.alice, "space.createRecord", body).await;
        if answer.status == StatusCode::OK {
            stored.push((rkey, answer.body["cid"].as_str().unwrap().to_owned()));
            return true;
        }
        assert!(answer.status.is_server_error(), "{}", answer.text);
        false
    };
    assert!(write(0).await);
    disk.fill(0);
    let (mut refused, mut n) = (0, 1);
    while refused < 3 {
        refused += usize::from(!write(n).await);
        n += 1;
        assert!(n < 1_000, "the disk is not full");
    }
    let list = format!("space.listRecords?space={space}&excludeValues=true&limit=1000");
    assert_eq!(group.get(&group.alice, &list).await.status, StatusCode::OK, "reads go on");
    disk.free();
    let server = &group.world.server;
    server.eventually("ready again", async |server| ready(server).await == StatusCode::OK).await;
    assert!(write(n).await);
    let records = group.get(&group.alice, &list).await.body["records"].clone();
    let mut hash = SetHash::default();
    let mut found: Vec<(String, String)> = Vec::new();
    for record in records.as_array().unwrap() {
        let (rkey, cid) = (record["rkey"].as_str().unwrap(), record["cid"].as_str().unwrap());
        hash.add(&RecordPath::parse(&format!("{NOTES}/{rkey}")).unwrap(), cid.parse().unwrap());
        found.push((rkey.to_owned(), cid.to_owned()));
    }
    stored.sort();
    assert_eq!(found, stored, "those that were acknowledged, and no others");
    let commit = group.get(&group.alice, &format!("space.getLatestCommit?space={space}&repo={ALICE}")).await;
    assert_eq!(commit.body["commit"]["hash"]["$bytes"], STANDARD_NO_PAD.encode(hash.digest()));
    // Stop the server before the disk is unmounted.
    drop(group);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_loses_nothing_and_needs_no_restart() {
    let Some(disk) = SmallDisk::mount() else { return };
    let url = format!("sqlite://{}/test.db", disk.path().display());
    let mut world = World::on(&url, None).await.with_notes().await;
    let pid = world.server.pid();
    push_notes(&mut world, 100);
    world.server.eventually("the stream runs", async |server| server.records().await >= 20).await;

    disk.fill(0);
    push_notes(&mut world, 900);
    world.server.eventually("not ready", async |server| ready(server).await != StatusCode::OK).await;
    let answer = world.server.request(Method::GET, "/readyz", &[], None).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    // Other writes fail too, and end their transactions. Some may succeed before: a batch that did not fit left space.
    let (mut refused, mut stored) = (0, Vec::new());
    for n in 0..300 {
        let id = format!("com.example.more{n}");
        let lexicon = json!({ "lexicon_json": { "lexicon": 1, "id": id, "defs": {
            "main": { "type": "query", "description": "z".repeat(100_000) } } }, "backfill": false });
        let answer = world.server.admin(Method::POST, "/admin/lexicons", Some(&lexicon)).await;
        if answer.status.is_success() {
            stored.push(id);
            continue;
        }
        assert!(answer.status.is_server_error(), "{}", answer.text);
        refused += 1;
        if refused == 3 {
            break;
        }
    }
    assert_eq!(refused, 3, "the disk is not full, or a commit failed unnoticed");
    assert!(world.server.records().await < 1000, "the disk was not full");
    assert_eq!(world.server.xrpc(&format!("{LIST}?limit=5")).await.status, StatusCode::OK, "reads go on");

    disk.free();
    world.server.eventually("ready again", async |server| ready(server).await == StatusCode::OK).await;
    world.server.eventually("everything", async |server| server.records().await >= 1000).await;
    assert_eq!(world.server.records().await, 1000, "nothing twice");
    for id in stored {
        let answer = world.server.admin(Method::GET, &format!("/admin/lexicons/{id}"), None).await;
        assert_eq!(answer.status, StatusCode::OK, "{id} was acknowledged");
    }
    let (status, body) = set_variable(&world.server).await;
    assert!(status.is_success(), "{status} {body}");
    assert_eq!(world.server.pid(), pid, "no restart");
    // Stop the server before the disk is unmounted.
    drop(world);
}
