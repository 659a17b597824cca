//! Events that the stream did not bring are requested from another server, or noted as a gap before the cursor passes
//! it.

use super::*;

#[tokio::test(start_paused = true)]
async fn commits_that_a_server_withheld_come_from_another() {
    let mut world = start(&["ws://a", "ws://b"], &[], NOTE);
    let minute = |n: i64| NOW - (60 - n) * 60_000_000;
    let (mut server, _) = world.accepted().await;
    send_commit(&mut server, minute(10)).await;
    for n in 11..50 {
        send(&mut server, minute(n)).await;
    }
    eventually(&world.store, minute(49)).await;
    assert_eq!(world.store.commits_until(), Some(minute(10)));
    drop(server);
    let (mut server, url) = world.accepted().await;
    assert_eq!((url.host_str(), cursor_of(&url)), (Some("b"), Some(minute(10) - REWIND)));
    for n in 10..50 {
        send(&mut server, minute(n)).await;
    }
    send(&mut server, minute(51)).await;
    eventually(&world.store, minute(51)).await;
    assert_eq!(world.store.commits_until(), Some(minute(49)), "two servers have passed it");
    assert_eq!(world.store.gaps(), []);
}

#[tokio::test(start_paused = true)]
async fn a_restart_asks_for_the_commits_too_if_there_are_several_servers() {
    let day = 24 * 3600 * 1_000_000;
    for (urls, commits_until, asked, is_gap) in [
        (&["ws://a"][..], NOW - 60_000_000, NOW - REWIND, false),
        (&["ws://a", "ws://b"], NOW - 60_000_000, NOW - 60_000_000 - REWIND, false),
        (&["ws://a", "ws://b"], NOW - 2 * day, NOW - day - REWIND, true),
    ] {
        let store = Arc::new(FakeStore::default());
        store.set_cursor(NOW);
        store.set_commits_until(commits_until);
        let mut world = start_with(urls, &[], NOTE, store);
        let (_server, url) = world.accepted().await;
        assert_eq!(cursor_of(&url), Some(asked));
        let (from, to) = (Timestamp(commits_until), Timestamp(NOW - day));
        let gap = Gap { reason: GapReason::NoCommits, from, to };
        let gaps: Vec<_> = world.store.gaps().into_iter().map(|(gap, _)| gap).collect();
        assert_eq!(gaps, is_gap.then_some(gap).into_iter().collect::<Vec<_>>());
    }
}

#[tokio::test(start_paused = true)]
async fn a_frame_that_cannot_be_read_is_a_gap_before_the_cursor_passes_it() {
    let mut world = start(&["ws://a"], &[], NOTE);
    let (mut server, _) = world.accepted().await;
    send(&mut server, NOW - 300).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    server.send(Message::binary(b"\x28\xb5\x2f\xfd".to_vec())).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (from, to) = (Timestamp(NOW - 300), Timestamp(NOW));
    let gap = Gap { reason: GapReason::FrameUnreadable, from, to };
    assert_eq!(world.store.gaps(), [(gap, Some(NOW - 300))]);
    send(&mut server, NOW - 200).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(world.store.cursor(), Some(NOW - 200));
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_begins_too_late_is_reported_once() {
    let store = Arc::new(FakeStore::default());
    store.set_cursor(NOW - 80 * 3600 * 1_000_000);
    let mut world = start_with(&["ws://a"], &[], NOTE, store);
    let (mut server, url) = world.accepted().await;
    assert_eq!(cursor_of(&url), Some(NOW - 80 * 3600 * 1_000_000 - REWIND));
    for i in 0..3 {
        send(&mut server, NOW - 1000 + i).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let (from, to) = (Timestamp(NOW - 80 * 3600 * 1_000_000), Timestamp(NOW - 1000));
    let gap = Gap { reason: GapReason::CursorTooOld, from, to };
    let gaps: Vec<_> =
        world.recorder.reports().into_iter().filter(|n| matches!(n, StreamReport::Gap { .. })).collect();
    assert_eq!(gaps, [StreamReport::Gap { url: "ws://a/subscribe".into(), gap: gap.clone() }]);
    assert_eq!(world.store.gaps(), [(gap, Some(from.0))], "stored before the cursor passes it");
}

#[tokio::test(start_paused = true)]
async fn a_gap_is_stored_before_its_events_enter_the_pipeline() {
    let store = Arc::new(FakeStore::default());
    store.set_cursor(NOW - 80 * 3600 * 1_000_000);
    let mut world = start_with(&["ws://a"], &[], NOTE, store);
    let (mut server, _) = world.accepted().await;
    world.store.fail_next(4);
    send(&mut server, NOW - 1000).await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!((world.store.gaps().len(), world.recorder.identities().len()), (0, 0));
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!((world.store.gaps().len(), world.store.cursor()), (1, Some(NOW - 1000)));
}

#[tokio::test(start_paused = true)]
async fn a_cursor_in_the_future_is_replaced() {
    let store = Arc::new(FakeStore::default());
    store.set_cursor(NOW + 3600 * 1_000_000);
    let mut world = start_with(&["ws://a"], &[], NOTE, store);
    let (mut server, url) = world.accepted().await;
    assert_eq!(cursor_of(&url), Some(NOW), "it was committed by a clock that was wrong");
    let gap = Gap { reason: GapReason::CursorInFuture, from: Timestamp(0), to: Timestamp(NOW) };
    assert_eq!(world.store.gaps()[0].0, gap);
    send(&mut server, NOW - 7).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!((world.store.gaps().len(), world.store.cursor()), (1, Some(NOW - 7)));
}

#[tokio::test(start_paused = true)]
async fn a_server_whose_times_go_back_is_reported() {
    let mut world = start(&["ws://a"], &[], NOTE);
    let (mut server, _) = world.accepted().await;
    send(&mut server, NOW - 100).await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    drop(server);
    let (mut server, _) = world.accepted().await;
    send(&mut server, NOW - 8_000_000).await;
    tokio::time::sleep(Duration::from_secs(50)).await;
    send(&mut server, NOW - 7_000_000).await;
    tokio::time::sleep(Duration::from_secs(9)).await;
    assert_eq!(world.store.gaps(), [], "it may still replay");
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (from, to) = (Timestamp(NOW - 7_000_000), Timestamp(NOW - 100));
    assert_eq!(world.store.gaps()[0].0, Gap { reason: GapReason::ServerRewound, from, to });
    // The position is that of the server from now on, so that the next reconnect is no gap.
    send(&mut server, NOW - 6_500_000).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(world.store.cursor(), Some(NOW - 6_500_000));
    drop(server);
    let (_server, url) = world.accepted().await;
    assert_eq!((cursor_of(&url), world.store.gaps().len()), (Some(NOW - 6_500_000 - REWIND), 1));
}

#[tokio::test(start_paused = true)]
async fn a_message_that_ends_every_connection_is_skipped() {
    let store = Arc::new(FakeStore::default());
    store.set_cursor(NOW - 60_000_000);
    let mut world = start_with(&["ws://a"], &[], NOTE, store);
    for _ in 0..3 {
        let (server, url) = world.accepted().await;
        assert_eq!(cursor_of(&url), Some(NOW - 60_000_000 - REWIND));
        // A text message of one byte that isn't UTF-8, written to the socket without the library.
        let mut raw = server.into_inner();
        tokio::io::AsyncWriteExt::write_all(&mut raw, b"\x81\x01\xff").await.unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let (_server, url) = world.accepted().await;
    assert_eq!(cursor_of(&url), Some(NOW - 59_000_000));
    let (from, to) = (Timestamp(NOW - 60_000_000), Timestamp(NOW - 59_000_000));
    assert_eq!(world.store.gaps()[0].0, Gap { reason: GapReason::MessageSkipped, from, to });
}
