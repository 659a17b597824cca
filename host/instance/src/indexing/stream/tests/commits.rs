//! Commits that a server withholds, and messages that are not events.

use super::*;

/// A time of the hour before the test's.
fn minute(n: i64) -> i64 {
    NOW - (60 - n) * 60_000_000
}

/// A server that died may have withheld commits before, and have them again.
#[tokio::test(start_paused = true)]
async fn a_server_that_comes_back_is_asked_for_what_it_withheld() {
    let mut world = start(&["ws://a", "ws://b"], &[Answer::Accept, Answer::Refuse], NOTE);
    let (mut server, _) = world.accepted().await;
    send_commit(&mut server, minute(10)).await;
    for n in 11..50 {
        send(&mut server, minute(n)).await;
    }
    eventually(&world.store, minute(49)).await;
    drop(server);
    assert!(world.attempt().await.server.is_none(), "the other server can't be reached");
    let (mut server, url) = world.accepted().await;
    assert_eq!((url.host_str(), cursor_of(&url)), (Some("a"), Some(minute(10) - REWIND)));
    send_commit(&mut server, minute(10)).await;
    send_commit(&mut server, minute(30)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    send(&mut server, minute(51)).await;
    eventually(&world.store, minute(51)).await;
    assert_eq!(world.store.commits_until(), Some(minute(10)), "nobody has confirmed that it sends all");
    send_commit(&mut server, minute(52)).await;
    eventually(&world.store, minute(52)).await;
    assert_eq!((world.store.commits_until(), world.store.gaps()), (Some(minute(52)), vec![]));
}

#[tokio::test(start_paused = true)]
async fn what_a_server_says_of_the_stream_is_no_gap() {
    let mut world = start(&["ws://a"], &[], NOTE);
    let (mut server, _) = world.accepted().await;
    send(&mut server, NOW - 300).await;
    for said in [
        r#"{"$type":"message","payload":{"$type":"network.bsky.jetstream.subscribeEvents#info","name":"OutdatedCursor"}}"#,
        r#"{"$type":"error","error":"ConsumerTooSlow","message":"cursor 5"}"#,
    ] {
        server.send(Message::text(said)).await.unwrap();
    }
    send(&mut server, NOW - 200).await;
    eventually(&world.store, NOW - 200).await;
    assert_eq!(world.store.gaps(), []);
}
