//! Connecting, reconnecting and resubscribing, over an in-memory socket and tokio's paused clock: every wait is exact.

mod commits;
mod gaps;
mod wire;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use tokio_tungstenite::tungstenite::Message;

use crate::indexing::testing::FakeStore;

use std::time::Duration;

use super::*;
use wire::*;

#[tokio::test(start_paused = true)]
async fn waits_grow_with_each_failure_and_are_reported_once() {
    let mut world = start(&["ws://a"], &[Answer::Refuse; 8], NOTE);
    let mut times = Vec::new();
    for _ in 0..9 {
        times.push(world.attempt().await.at.as_secs_f64());
    }
    let waits: Vec<f64> = times.windows(2).map(|w| w[1] - w[0]).collect();
    for (i, wait) in waits.iter().enumerate() {
        let longest = 60f64.min(f64::from(2 << i));
        assert!(*wait >= 1.0 && *wait >= longest / 2.0 && *wait <= longest + 0.01, "{waits:?}");
    }
    let disconnects =
        world.recorder.reports().iter().filter(|n| matches!(n, StreamReport::Disconnected { .. })).count();
    assert_eq!(disconnects, 1, "{:?}", world.recorder.reports());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_closes_at_once_is_no_hot_loop() {
    let mut world = start(&["ws://a"], &[], NOTE);
    for _ in 0..6 {
        drop(world.accepted().await);
    }
    // At most 1 + 2 + 4 + 8 + 16 seconds and at least half of that.
    let at = world.attempt().await.at;
    assert!(at >= Duration::from_secs(31), "{at:?}");
}

#[tokio::test(start_paused = true)]
async fn a_healthy_connection_starts_the_backoff_over() {
    let mut world = start(&["ws://a"], &[Answer::Refuse; 6], NOTE);
    for _ in 0..6 {
        world.attempt().await;
    }
    let (mut server, _) = world.accepted().await;
    for second in 0..200 {
        send(&mut server, NOW - 1000 + second).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let before = Instant::now();
    drop(server);
    world.attempt().await;
    assert!(before.elapsed() <= Duration::from_secs(2), "{:?}", before.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_unresponsive_server_is_left_after_15_seconds() {
    let mut world = start(&["ws://a", "ws://b"], &[Answer::Hang], NOTE);
    assert_eq!(world.attempt().await.at, Duration::ZERO);
    let next = world.attempt().await;
    assert!(next.at >= Duration::from_secs(16) && next.at <= Duration::from_secs(18), "{:?}", next.at);
    assert_eq!(next.url.host_str(), Some("b"));
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_pinged_and_then_left() {
    let mut world = start(&["ws://a"], &[], NOTE);
    let (server, _) = world.accepted().await;
    // Kept open but never read: half-open.
    let next = world.attempt().await;
    assert!(next.at >= Duration::from_mins(1) && next.at <= Duration::from_secs(63), "{:?}", next.at);
    assert!(
        world
            .recorder
            .reports()
            .contains(&StreamReport::Disconnected { reason: "the server stopped responding".into() })
    );
    drop(server);
}

#[tokio::test(start_paused = true)]
async fn a_quiet_server_that_answers_pings_is_kept() {
    let mut world = start(&["ws://a"], &[], NOTE);
    let (mut server, _) = world.accepted().await;
    let mut pings = 0;
    let until = Instant::now() + Duration::from_mins(10);
    while let Ok(Some(Ok(message))) = tokio::time::timeout_at(until, server.next()).await {
        pings += u32::from(message.is_ping());
        server.flush().await.unwrap();
    }
    assert!(pings >= 15, "{pings}");
    assert!(world.attempts.try_recv().is_err(), "still the first connection");
    assert!(world.handle.status().connected);
}

#[tokio::test(start_paused = true)]
async fn servers_rotate_and_another_servers_cursor_is_rewound() {
    let mut world = start(&["ws://a", "ws://b"], &[], NOTE);
    let (mut server, url) = world.accepted().await;
    assert_eq!((url.host_str(), cursor_of(&url)), (Some("a"), Some(NOW)), "a first start begins now");
    send(&mut server, NOW - 100).await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    drop(server);
    let (server, url) = world.accepted().await;
    assert_eq!(
        (url.host_str(), cursor_of(&url)),
        (Some("b"), Some(NOW - 100 - REWIND)),
        "no commit is missing before the start"
    );
    drop(server);
    let (_server, url) = world.accepted().await;
    assert_eq!(
        (url.host_str(), cursor_of(&url)),
        (Some("a"), Some(NOW - 100 - REWIND)),
        "b sent nothing: the position is a's own"
    );
}

#[tokio::test(start_paused = true)]
async fn an_event_that_a_newer_one_overtook_is_sent_after_a_reconnect() {
    let mut world = start(&["ws://a"], &[], NOTE);
    let (mut server, _) = world.accepted().await;
    send(&mut server, NOW - 100).await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    drop(server);
    let (mut server, url) = world.accepted().await;
    assert_eq!(cursor_of(&url), Some(NOW - 100 - REWIND));
    send(&mut server, NOW - 200).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!((world.store.cursor(), world.store.gaps()), (Some(NOW - 100), vec![]));
    // The position does not go back with what is replayed.
    drop(server);
    let (_server, url) = world.accepted().await;
    assert_eq!(cursor_of(&url), Some(NOW - 100 - REWIND));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_begins_an_hour_before_the_cursor_replays() {
    let mut world = start(&["ws://a"], &[], NOTE);
    let (mut server, _) = world.accepted().await;
    send(&mut server, NOW - 100).await;
    eventually(&world.store, NOW - 100).await;
    drop(server);
    let (mut server, _) = world.accepted().await;
    for minute in (0..60).rev() {
        send(&mut server, NOW - 5_000_000 - minute * 60_000_000).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(world.store.cursor(), Some(NOW - 100), "a replay moves no cursor");
    }
    send(&mut server, NOW - 50).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!((world.store.cursor(), world.store.gaps()), (Some(NOW - 50), vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_frame_that_cannot_be_decompressed_comes_again_uncompressed() {
    let dictionary = b"a raw dictionary with some words: did:plc: time_us kind identity";
    let config = StreamConfig { zstd_dictionary: Some(dictionary.to_vec()), ..StreamConfig::default() };
    let mut world = start_config(&["ws://a"], &[], NOTE, Arc::default(), config);
    let (mut server, url) = world.accepted().await;
    assert!(url.as_str().contains("compress=true"));
    let mut compressor = zstd::bulk::Compressor::with_dictionary(3, dictionary).unwrap();
    let frame = compressor.compress(identity(NOW - 300).as_bytes()).unwrap();
    server.send(Message::binary(frame)).await.unwrap();
    server.send(Message::binary(b"damaged".to_vec())).await.unwrap();
    let (mut server, url) = world.accepted().await;
    assert!(!url.as_str().contains("compress"), "{url}");
    assert_eq!(cursor_of(&url), Some(NOW - 300 - REWIND));
    for time in [NOW - 300, NOW - 200] {
        send(&mut server, time).await;
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!((world.store.cursor(), world.store.gaps()), (Some(NOW - 200), vec![]), "nothing is lost");
}

#[tokio::test(start_paused = true)]
async fn without_tracked_collections_there_is_no_connection() {
    let mut world = start(&["ws://a"], &[], &[]);
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert!(world.attempts.try_recv().is_err());
    assert!(world.handle.status().idle && world.handle.status().stalled.is_none());
    world.tracked.send(nsids(NOTE)).unwrap();
    let (mut server, url) = world.accepted().await;
    assert_eq!(wanted_of(&url), ["app.example.note", "com.atproto.lexicon.schema"]);
    // And back to idle.
    world.tracked.send(nsids(&[])).unwrap();
    assert!(matches!(server.next().await, Some(Ok(Message::Close(_)))));
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert!(world.attempts.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn events_from_before_a_collection_was_tracked_are_not_replayed() {
    let store = Arc::new(FakeStore::default());
    store.set_cursor(NOW - 80 * 3600 * 1_000_000);
    let mut world = start_with(&["ws://a"], &[], &[], store);
    tokio::time::sleep(Duration::from_secs(1)).await;
    for round in 0..2 {
        world.tracked.send(nsids(NOTE)).unwrap();
        let (mut server, url) = world.accepted().await;
        assert_eq!(cursor_of(&url), Some(NOW), "round {round}");
        send(&mut server, NOW - 20 + round).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(world.store.cursor(), Some(NOW - 20 + round));
        world.tracked.send(nsids(&[])).unwrap();
        assert!(matches!(server.next().await, Some(Ok(Message::Close(_)))));
        drop(server);
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    assert!(!world.recorder.reports().iter().any(|n| matches!(n, StreamReport::Gap { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_filter_changes_is_one_reconnect_at_the_same_cursor() {
    let mut world = start(&["ws://a"], &[], NOTE);
    let (mut server, _) = world.accepted().await;
    send(&mut server, NOW - 7).await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    let changed = Instant::now();
    for names in
        [&["app.example.a"][..], &["app.example.a", "app.example.b"], &["app.example.b", "app.example.note"]]
    {
        world.tracked.send(nsids(names)).unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        // Events of this subscription must not move the cursor past events of the new collections.
        send(&mut server, NOW - 5).await;
    }
    assert!(matches!(server.next().await, Some(Ok(Message::Close(_)))));
    server.flush().await.ok();
    let (_server, url) = world.accepted().await;
    assert!(changed.elapsed() < Duration::from_secs(1), "no backoff: {:?}", changed.elapsed());
    assert_eq!(wanted_of(&url), ["app.example.b", "app.example.note", "com.atproto.lexicon.schema"]);
    assert_eq!(cursor_of(&url), Some(NOW - 7 - REWIND));
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(world.attempts.try_recv().is_err());
    // The same list again changes nothing.
    world.tracked.send(nsids(&["app.example.b", "app.example.note"])).unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(world.attempts.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn more_than_a_hundred_collections_are_folded() {
    let names: Vec<String> = (0..250).map(|i| format!("app.example{}.c{i}", i % 5)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut world = start(&["ws://a"], &[], &names);
    let (_server, url) = world.accepted().await;
    let wanted = wanted_of(&url);
    assert!(wanted.len() <= 100 && wanted.contains(&"app.example4.*".to_owned()), "{wanted:?}");
}

#[tokio::test(start_paused = true)]
async fn a_first_start_stores_its_cursor_before_the_first_event() {
    let mut world = start(&["ws://a"], &[], NOTE);
    let (_server, url) = world.accepted().await;
    assert_eq!((cursor_of(&url), world.store.cursor()), (Some(NOW), Some(NOW)));
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_ahead_does_not_hold_the_cursor() {
    let mut world = start(&["ws://a"], &[], NOTE);
    let (mut server, _) = world.accepted().await;
    send(&mut server, NOW - 3_600_000_000).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(world.store.cursor(), Some(NOW - 3_600_000_000));
    drop(server);
    let (_server, url) = world.accepted().await;
    assert_eq!(cursor_of(&url), Some(NOW - 3_600_000_000 - REWIND));
}

#[tokio::test(start_paused = true)]
async fn a_disconnected_stream_is_stalled_only_when_it_should_be_connected() {
    let mut world = start(&["ws://a"], &[Answer::Refuse; 3], NOTE);
    for _ in 0..3 {
        world.attempt().await;
    }
    assert!(!world.handle.status().connected);
    let (_server, _) = world.accepted().await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(world.handle.status().connected && !world.handle.status().idle);
}

#[tokio::test(start_paused = true)]
async fn frames_of_every_size_in_one_read_are_processed_in_order() {
    let mut world = start(&["ws://a"], &[], NOTE);
    let (mut server, _) = world.accepted().await;
    server.send(Message::Binary(Bytes::from_static(b"\xff\xfe garbage"))).await.unwrap();
    server.send(Message::text("x".repeat(3_000_000))).await.ok();
    for i in 0..1000 {
        send(&mut server, NOW - 2000 + i).await;
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(world.store.cursor(), Some(NOW - 1001));
    assert_eq!(world.recorder.identities().len(), 1000);
    world.handle.finish().await;
}
