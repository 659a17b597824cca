//! The pipeline from real sockets to SQLite.

use serde_json::json;
use tempfile::tempdir;
use tokio_tungstenite::tungstenite::Message;

use crate::indexing::{Observer as _, StreamReport};
use belvedere_protocol::atproto::RecordUri;
use belvedere_standins::jetstream::{
    FakeJetstream, Frame, Mode, Place, binary, eventually, synthetic, synthetic_did, tid,
};
use belvedere_storage::store::cursors;
use belvedere_storage::store::index::Change;

use super::{BASE, NOTE, database, nsids, run, visible};

fn place<'a>(did: &'a str, rkey: &'a str, rev: &'a str) -> Place<'a> {
    Place { did, collection: NOTE, rkey, rev }
}

/// Waits until everything up to `time_us` is committed.
async fn wait_until_committed(db: &belvedere_storage::store::Db, time_us: i64) {
    eventually("the cursor has reached the time", async || {
        cursors::get(db, "jetstream").await.unwrap().is_some_and(|c| c >= time_us)
    })
    .await;
}

/// Time by which each connection goes back, in microseconds.
const REWIND: i64 = 5_000_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bursts_on_one_key_end_with_the_last_word() {
    let dir = tempdir().unwrap();
    let db = database(&dir).await;
    let jetstream = FakeJetstream::start().await;
    let server = run(&db, vec![jetstream.url()], &[NOTE], 3);
    eventually("connected", async || !jetstream.subscriptions().is_empty()).await;
    let mut time = BASE;
    let mut frames = Vec::new();
    for repo in 0..20 {
        let did = synthetic_did(repo);
        for round in 0..50u64 {
            time += 2;
            let (rev, later) = (tid(time as u64, 0), tid(time as u64 + 1, 0));
            frames.push(Frame::create(
                time,
                place(&did, "k", &rev),
                &json!({ "$type": NOTE, "round": round }),
            ));
            // Even repos end deleted, odd ones end with the last create.
            if repo % 2 == 0 || round < 49 {
                frames.push(Frame::delete(time + 1, place(&did, "k", &later)));
            }
        }
    }
    jetstream.push_all(frames);
    wait_until_committed(&db, time).await;
    let left = visible(&db, NOTE).await;
    assert_eq!(left.len(), 10);
    for (uri, record) in left {
        assert_eq!(record, format!(r#"{{"$type":"{NOTE}","round":49}}"#), "{uri}");
    }
    server.handle.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_rev_never_overwrites_a_newer_one_from_anywhere() {
    let dir = tempdir().unwrap();
    let db = database(&dir).await;
    let jetstream = FakeJetstream::start().await;
    let server = run(&db, vec![jetstream.url()], &[NOTE], 1);
    eventually("connected", async || !jetstream.subscriptions().is_empty()).await;
    let did = synthetic_did(1);
    let new = json!({ "$type": NOTE, "v": "new" });
    jetstream.push(Frame::update(BASE, place(&did, "k", &tid(200, 0)), &new));
    jetstream.push(Frame::update(
        BASE + 1,
        place(&did, "k", &tid(100, 0)),
        &json!({ "$type": NOTE, "v": "old" }),
    ));
    jetstream.push(Frame::delete(BASE + 2, place(&did, "k", &tid(150, 0))));
    wait_until_committed(&db, BASE + 2).await;
    let uri = RecordUri::parse(&format!("at://{did}/{NOTE}/k")).unwrap();
    let local = |rev: &str| Change { uri: uri.clone(), rev: rev.parse().unwrap(), record: None };
    server.handle.writer().submit(local(&tid(199, 0))).await.unwrap();
    assert_eq!(visible(&db, NOTE).await.into_values().collect::<Vec<_>>(), [new.to_string()]);
    server.handle.writer().submit(local(&tid(201, 0))).await.unwrap();
    assert!(visible(&db, NOTE).await.is_empty());
    // A replay of the create does not bring it back.
    jetstream.push(Frame::update(BASE + 3, place(&did, "k", &tid(200, 0)), &new));
    wait_until_committed(&db, BASE + 3).await;
    assert!(visible(&db, NOTE).await.is_empty());
    server.handle.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_is_counted_and_the_good_ones_arrive() {
    let dir = tempdir().unwrap();
    let db = database(&dir).await;
    let jetstream = FakeJetstream::start().await;
    let server = run(&db, vec![jetstream.url()], &[NOTE], 2);
    eventually("connected", async || !jetstream.subscriptions().is_empty()).await;
    let did = synthetic_did(1);
    let mut last = BASE;
    for round in 0..20 {
        last = BASE + round * 10;
        jetstream.push_raw(last, None, Message::text("not json"));
        jetstream.push_raw(last, None, binary(vec![0xff; 100]));
        jetstream.push_raw(last, None, Message::text("{}"));
        jetstream.push_raw(last, None, Message::text(""));
        jetstream.push_raw(last, None, Message::text("[".repeat(100_000)));
        jetstream.push_raw(
            last,
            None,
            Message::text(format!(r#"{{"did":"{did}","time_us":{last},"kind":"sync"}}"#)),
        );
        let rev = tid(last as u64, 0);
        let huge = json!({ "$type": NOTE, "text": "x".repeat(2_000_000) });
        jetstream.push(Frame::create(last + 1, place(&did, "huge", &rev), &huge));
        jetstream.push(Frame::forged(
            last + 2,
            place(&did, "forged", &rev),
            &json!({ "$type": NOTE, "round": round }),
        ));
        jetstream.push(Frame::create(last + 3, place("did:plc:x y", "k", &rev), &json!({ "$type": NOTE })));
        jetstream.push(Frame::create(
            last + 4,
            place(&did, &format!("good{round}"), &rev),
            &json!({ "$type": NOTE }),
        ));
        last += 4;
    }
    wait_until_committed(&db, last).await;
    assert_eq!(visible(&db, NOTE).await.len(), 20);
    assert_eq!(jetstream.connections(), 1, "none of this ends the connection");
    let mismatches =
        server.recorder.reports().iter().filter(|n| matches!(n, StreamReport::CidMismatch { .. })).count();
    assert_eq!(mismatches, 20);
    server.handle.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accounts_are_hidden_purged_and_shown_again() {
    let dir = tempdir().unwrap();
    let db = database(&dir).await;
    let jetstream = FakeJetstream::start().await;
    let server = run(&db, vec![jetstream.url()], &[NOTE], 2);
    eventually("connected", async || !jetstream.subscriptions().is_empty()).await;
    let (ann, bob) = (synthetic_did(1), synthetic_did(2));
    for (i, did) in [&ann, &bob].into_iter().enumerate() {
        jetstream.push(Frame::create(
            BASE + i as i64,
            place(did, "k", &tid(1, 0)),
            &json!({ "$type": NOTE }),
        ));
    }
    wait_until_committed(&db, BASE + 1).await;
    let mut time = BASE + 1;
    let mut step = async |status: Option<&str>, expected: usize| {
        time += 1;
        jetstream.push(Frame::account(time, &ann, status));
        wait_until_committed(&db, time).await;
        assert_eq!(visible(&db, NOTE).await.len(), expected, "{status:?}");
    };
    step(Some("deactivated"), 1).await;
    step(None, 2).await;
    step(Some("takendown"), 1).await;
    step(None, 2).await;
    step(Some("suspended"), 1).await;
    step(Some("deleted"), 1).await;
    step(None, 1).await;
    jetstream.push(Frame::identity(time + 1, &bob, "new.test"));
    eventually("the identity event is passed on", async || server.recorder.identities() == [bob.clone()])
        .await;
    server.recorder.report(StreamReport::Disconnected { reason: String::new() });
    server.handle.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_of_the_server_lose_nothing() {
    let dir = tempdir().unwrap();
    let db = database(&dir).await;
    let (first, second) = (FakeJetstream::start().await, FakeJetstream::start().await);
    let server = run(&db, vec![first.url(), second.url()], &[NOTE], 2);
    let frames: Vec<Frame> = synthetic(3000, 40, NOTE, BASE).collect();
    let mut rest = frames.chunks(100);
    // Connected to either of the two; both have the same events.
    eventually("connected", async || first.subscriptions().len() + second.subscriptions().len() > 0).await;
    for (round, chunk) in (&mut rest).enumerate() {
        for jetstream in [&first, &second] {
            jetstream.push_all(chunk.iter().cloned());
        }
        let jetstream = if round % 2 == 0 { &first } else { &second };
        match round % 5 {
            0 => jetstream.drop_clients(),
            1 => {
                jetstream.set_mode(Mode::CloseAtOnce);
                jetstream.drop_clients();
            }
            2 => jetstream.set_mode(Mode::Refuse),
            3 => {
                jetstream.set_mode(Mode::CloseAfterUpgrade);
                jetstream.drop_clients();
            }
            _ => {
                first.set_mode(Mode::Serve);
                second.set_mode(Mode::Serve);
            }
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    first.set_mode(Mode::Serve);
    second.set_mode(Mode::Serve);
    wait_until_committed(&db, BASE + 2999).await;
    assert_eq!(visible(&db, NOTE).await.len(), 3000);
    assert!(first.connections() + second.connections() > 3);
    server.handle.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_collection_is_subscribed_without_a_restart_and_nothing_is_lost() {
    let dir = tempdir().unwrap();
    let db = database(&dir).await;
    let jetstream = FakeJetstream::start().await;
    let server = run(&db, vec![jetstream.url()], &[NOTE], 2);
    eventually("connected", async || !jetstream.subscriptions().is_empty()).await;
    jetstream.push_all(synthetic(500, 10, NOTE, BASE));
    server.tracked.send(nsids(&["app.example.like", NOTE])).unwrap();
    jetstream.push_all(synthetic(500, 10, NOTE, BASE + 500));
    eventually("resubscribed", async || jetstream.subscriptions().len() == 2).await;
    let subscription = &jetstream.subscriptions()[1];
    assert_eq!(subscription.wanted, ["app.example.like", NOTE, "com.atproto.lexicon.schema"]);
    jetstream.push_all(synthetic(300, 10, "app.example.like", BASE + 1000));
    wait_until_committed(&db, BASE + 1299).await;
    assert_eq!(visible(&db, NOTE).await.len(), 1000);
    assert_eq!(visible(&db, "app.example.like").await.len(), 300);
    server.handle.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_commits_received_events_and_the_next_start_resumes_there() {
    let dir = tempdir().unwrap();
    let db = database(&dir).await;
    let jetstream = FakeJetstream::start().await;
    jetstream.push_all(synthetic(100, 5, NOTE, BASE - 1_000));
    let server = run(&db, vec![jetstream.url()], &[NOTE], 2);
    eventually("connected", async || !jetstream.subscriptions().is_empty()).await;
    assert_eq!(jetstream.subscriptions()[0].cursor, Some(BASE - 1), "a first start begins now");
    jetstream.push_all(synthetic(100, 5, NOTE, BASE + 100));
    eventually("received", async || server.handle.status().last_event_at.is_some()).await;
    server.handle.finish().await;
    let stopped_at = cursors::get(&db, "jetstream").await.unwrap().unwrap();

    jetstream.push_all(synthetic(100, 5, NOTE, BASE + 200));
    let server = run(&db, vec![jetstream.url()], &[NOTE], 2);
    wait_until_committed(&db, BASE + 299).await;
    assert_eq!(jetstream.subscriptions()[1].cursor, Some(stopped_at - REWIND));
    assert_eq!(visible(&db, NOTE).await.len(), 300, "with what was a moment before the first start");
    server.handle.finish().await;
}
