//! Undocumented behaviour of Jetstream servers, which must lose nothing.

use std::time::Duration;

use belvedere_base::clock::Clock;
use belvedere_standins::database::sqlite_url;
use belvedere_standins::jetstream::{FakeJetstream, Frame, Mode, Place, StreamFault, eventually, tid};
use belvedere_standins::postgres;
use http::Method;
use serde_json::json;

use crate::fixtures::{ALICE, BOB, LIST, NOTES, World};
use crate::support::instance::{Instance, query_lexicon, record_lexicon};

const HOUR_US: i64 = 3_600_000_000;

/// Uploads the lexicons of notes, and waits until the stream has them.
async fn upload_notes(server: &Instance, stream: &FakeJetstream) {
    server.upload(record_lexicon(NOTES), None).await;
    server.upload(query_lexicon(LIST), Some(NOTES)).await;
    let follows = async |_: &Instance| stream.subscriptions().last().is_some_and(|s| s.wants(NOTES));
    server.eventually("the stream follows notes", follows).await;
}

async fn wait_for(server: &Instance, uri: &str, there: bool) {
    let path = format!("{LIST}?uri={uri}");
    let is_so = async |server: &Instance| (server.xrpc(&path).await.status == 200) == there;
    server.eventually(&format!("{uri} there: {there}"), is_so).await;
}

async fn assert_no_gap(server: &Instance) {
    let events = server.admin(Method::GET, "/admin/events?event_type=jetstream.gap", None).await;
    assert_eq!(events.body["events"], json!([]), "{}", events.text);
}

/// The first of two servers withholds a commit and dies, and `fail` decides which of them can be reached then.
async fn withheld_commits_come(world: &World, fail: impl Fn(&FakeJetstream, &FakeJetstream)) {
    let (first, second) = (FakeJetstream::start().await, FakeJetstream::start().await);
    let urls = format!("{},{}", first.url(), second.url());
    let (database, _directory) = if world.is_postgres() {
        (postgres::create_database().await, None)
    } else {
        let (url, directory) = sqlite_url();
        (url, Some(directory))
    };
    let server = Instance::start_with(&database, &urls, &[]).await;
    upload_notes(&server, &first).await;
    // Further apart than what every connection replays.
    let mut time = Clock::system().now().0 - HOUR_US / 4;
    let mut push = |make: &dyn Fn(i64, &str) -> Frame| {
        time += 30_000_000;
        let frame = make(time, &tid(time as u64, 0));
        first.push(frame.clone());
        second.push(frame);
    };
    let uri = |did: &str, rkey: &str| format!("at://{did}/{NOTES}/{rkey}");
    let note = |did: &'static str, rkey: &'static str| {
        move |at: i64, rev: &str| {
            let record = json!({ "$type": NOTES });
            Frame::create(at, Place { did, collection: NOTES, rkey, rev }, &record)
        }
    };
    push(&note(BOB, "a"));
    wait_for(&server, &uri(BOB, "a"), true).await;
    first.set_fault(StreamFault::WithholdsCommits);
    push(&note(ALICE, "withheld"));
    push(&|at, _| Frame::account(at, BOB, Some("deactivated")));
    wait_for(&server, &uri(BOB, "a"), false).await;
    fail(&first, &second);
    first.drop_clients();
    wait_for(&server, &uri(ALICE, "withheld"), true).await;
    assert_no_gap(&server).await;
}

crate::in_both_worlds!(
    a_server_that_begins_an_hour_before_the_cursor_causes_no_gap,
    commits_that_a_server_withheld_come_from_the_next,
    commits_that_a_server_withheld_come_from_it_after_its_restart,
    an_event_that_a_newer_one_overtook_comes_with_the_next_connection,
    a_stream_of_garbage_is_not_ready_and_a_gap,
    a_commit_of_the_future_is_ignored_and_later_ones_are_not
);

async fn a_server_that_begins_an_hour_before_the_cursor_causes_no_gap(mut world: World) {
    world = world.with_notes().await;
    for n in 0..5 {
        world.note(ALICE, &format!("before{n}"), json!({})).await;
    }
    world.stream.set_fault(StreamFault::BeginsEarlier(HOUR_US));
    world.stream.drop_clients();
    world.note(ALICE, "after", json!({})).await;
    assert_no_gap(&world.server).await;
}

async fn commits_that_a_server_withheld_come_from_the_next(world: World) {
    withheld_commits_come(&world, |first, _| first.set_mode(Mode::Refuse)).await;
}

async fn commits_that_a_server_withheld_come_from_it_after_its_restart(world: World) {
    let restart = |first: &FakeJetstream, second: &FakeJetstream| {
        first.repair();
        second.set_mode(Mode::Refuse);
    };
    withheld_commits_come(&world, restart).await;
}

async fn an_event_that_a_newer_one_overtook_comes_with_the_next_connection(mut world: World) {
    world = world.with_notes().await;
    world.note(ALICE, "first", json!({})).await;
    // Stored by the server before the last event, and not sent to this connection.
    let mut late = None;
    world.push(|at, rev| {
        let before = at - 2_000_000;
        let place = Place { did: BOB, collection: NOTES, rkey: "late", rev };
        late = Some(Frame::create(before, place, &json!({ "$type": NOTES })));
        Frame::identity(at, BOB, "bob.example")
    });
    let Some(late) = late else { panic!("a frame") };
    world.stream.insert_unsent(late);
    world.stream.drop_clients();
    world.wait_for(&format!("at://{BOB}/{NOTES}/late"), true).await;
    assert_no_gap(&world.server).await;
}

async fn a_stream_of_garbage_is_not_ready_and_a_gap(mut world: World) {
    world = world.with_notes().await;
    world.note(ALICE, "before", json!({})).await;
    world.stream.set_fault(StreamFault::SendsGarbage);
    let ready = async |world: &World| world.server.request(Method::GET, "/readyz", &[], None).await;
    eventually("the stream is not ready", async || {
        world.push(|at, _| Frame::identity(at, BOB, "bob.example"));
        ready(&world).await.body["checks"]["stream"]["ok"] == false
    })
    .await;
    world.stream.repair();
    world.note(ALICE, "after", json!({})).await;
    let events = world.server.admin(Method::GET, "/admin/events?event_type=jetstream.gap", None).await;
    assert_eq!(events.body["events"][0]["detail"]["reason"], "frame_unreadable", "{}", events.text);
    world.server.eventually("ready again", async |_| ready(&world).await.status == 200).await;
}

async fn a_commit_of_the_future_is_ignored_and_later_ones_are_not(mut world: World) {
    world = world.with_notes().await;
    let record = json!({ "$type": NOTES, "text": "of the future" });
    for hours in [1, 10 * 365 * 24] {
        world.push(|at, _| {
            let rev = tid((at + hours * HOUR_US) as u64, 0);
            Frame::create(at, Place { did: ALICE, collection: NOTES, rkey: "a", rev: &rev }, &record)
        });
    }
    let uri = world.note(ALICE, "a", json!({ "text": "of today" })).await;
    let found = world.server.xrpc(&format!("{LIST}?uri={uri}")).await;
    assert_eq!(found.body["record"]["text"], "of today", "{}", found.text);
    world.delete_note(ALICE, "a").await;
}

#[tokio::test]
async fn frames_that_cannot_be_decompressed_are_requested_again() {
    let directory = tempfile::tempdir().expect("a temporary folder");
    let dictionary = directory.path().join("dictionary");
    std::fs::write(&dictionary, b"a raw dictionary with the words did:plc: app.example.note commit")
        .expect("written");
    let (url, _database) = sqlite_url();
    let stream = FakeJetstream::start().await;
    stream.set_fault(StreamFault::DamagesCompressed);
    let dictionary = dictionary.to_str().expect("a path in UTF-8");
    let server = Instance::start_with(&url, &stream.url(), &[("JETSTREAM_ZSTD_DICT", dictionary)]).await;
    upload_notes(&server, &stream).await;
    assert!(stream.subscriptions().last().is_some_and(|s| s.compress));
    let time = Clock::system().now().0;
    let place = Place { did: ALICE, collection: NOTES, rkey: "a", rev: &tid(time as u64, 0) };
    stream.push(Frame::create(time, place, &json!({ "$type": NOTES })));
    tokio::time::timeout(Duration::from_mins(1), wait_for(&server, &format!("at://{ALICE}/{NOTES}/a"), true))
        .await
        .expect("the frame came again");
    assert!(stream.subscriptions().last().is_some_and(|s| !s.compress));
    assert_no_gap(&server).await;
}
