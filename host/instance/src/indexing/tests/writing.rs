//! The writer alone: batching, local writes, an unreachable database, shutdown.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};
use tokio_util::sync::CancellationToken;

use crate::indexing::launch::launch;
use crate::indexing::settings::Timing;
use crate::indexing::testing::{FakeStore, Recorder, delete};
use crate::indexing::writer::WriterClosed;
use crate::indexing::{NoScripts, Stall, StreamConfig, StreamHandle};
use belvedere_base::clock::{Clock, Timestamp};
use belvedere_base::random::Random;
use belvedere_web::websocket::Connect;

use super::nsids;

/// Never connects: these tests use local writes only.
#[derive(Clone)]
struct NeverConnects;

impl Connect for NeverConnects {
    type Io = MaybeTlsStream<tokio::net::TcpStream>;

    async fn connect(&self, _: &url::Url) -> Result<WebSocketStream<Self::Io>, Error> {
        Err(Error::ConnectionClosed)
    }
}

fn writer(clock: Clock) -> (Arc<FakeStore>, StreamHandle) {
    let store = Arc::new(FakeStore::default());
    let (_, tracked) = watch::channel(nsids(&[]));
    let handle = launch(
        store.clone(),
        NeverConnects,
        tracked,
        Arc::new(Recorder::default()),
        Arc::default(),
        Arc::new(NoScripts),
        clock,
        Random::seeded(1),
        StreamConfig::default(),
        CancellationToken::new(),
    );
    (store, handle)
}

#[tokio::test(start_paused = true)]
async fn a_local_write_is_committed_at_once() {
    let (store, handle) = writer(Clock::system());
    let before = tokio::time::Instant::now();
    handle.writer().submit(delete("a", "k", 1)).await.unwrap();
    assert_eq!(store.applied_changes(), 1);
    assert_eq!(before.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn concurrent_local_writes_share_transactions() {
    let (store, handle) = writer(Clock::system());
    let (done, mut all) = mpsc::channel::<()>(1);
    for i in 0..500 {
        let (writer, done) = (handle.writer(), done.clone());
        tokio::spawn(async move {
            writer.submit(delete("a", &format!("k{i}"), 1)).await.unwrap();
            drop(done);
        });
    }
    drop(done);
    assert!(all.recv().await.is_none());
    assert_eq!(store.applied_changes(), 500);
    assert!(store.largest_batch() > 1);
}

#[tokio::test(start_paused = true)]
async fn pages_wait_a_moment_to_share_a_transaction() {
    let (store, handle) = writer(Clock::system());
    let page = |name| (0..100).map(|i| delete(name, &format!("k{i}"), 1)).collect::<Vec<_>>();
    let before = tokio::time::Instant::now();
    let pages = ["a", "b", "c"].map(|name| {
        let (writer, page) = (handle.writer(), page(name));
        async move { writer.submit_all(page).await }
    });
    for committed in futures_util::future::join_all(pages).await {
        committed.unwrap();
    }
    assert_eq!((store.applied_changes(), store.largest_batch()), (300, 300));
    assert_eq!(before.elapsed(), Timing::default().commit_delay, "it is acknowledged after the commit");
    // A user's write ends the wait.
    let before = tokio::time::Instant::now();
    let (page, write) = (handle.writer(), handle.writer());
    let (page, write) =
        tokio::join!(page.submit_all(vec![delete("d", "k", 1)]), write.submit(delete("e", "k", 1)));
    assert_eq!((page.map(drop), write, before.elapsed()), (Ok(()), Ok(()), Duration::ZERO));
    handle.writer().submit_all(Vec::new()).await.unwrap();
    assert_eq!(store.applied_changes(), 302);
    handle.finish().await;
    assert_eq!(handle.writer().submit_all(vec![delete("a", "late", 1)]).await, Err(WriterClosed));
}

#[tokio::test(start_paused = true)]
async fn a_write_waits_for_an_unreachable_database_and_the_status_shows_it() {
    let clock = Clock::fixed(Timestamp(1_000_000));
    let (store, handle) = writer(clock.clone());
    store.fail_next(u32::MAX);
    let write = tokio::spawn({
        let writer = handle.writer();
        async move { writer.submit(delete("a", "k", 1)).await }
    });
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert!(!write.is_finished());
    clock.set(Timestamp(121_000_000));
    assert_eq!(handle.status().stalled, Some(Stall::Database { since: Timestamp(1_000_000) }));
    store.fail_next(0);
    write.await.unwrap().unwrap();
    assert_eq!((store.applied_changes(), handle.status().stalled), (1, None));
}

#[tokio::test(start_paused = true)]
async fn shutdown_commits_what_is_queued_and_refuses_the_rest() {
    let (store, handle) = writer(Clock::system());
    let writes: Vec<_> = (0..10)
        .map(|i| {
            let writer = handle.writer();
            tokio::spawn(async move { writer.submit(delete("a", &format!("k{i}"), 1)).await })
        })
        .collect();
    tokio::task::yield_now().await;
    handle.finish().await;
    for write in writes {
        write.await.unwrap().unwrap();
    }
    assert_eq!(store.applied_changes(), 10);
    assert_eq!(handle.writer().submit(delete("a", "late", 1)).await, Err(WriterClosed));
    handle.finish().await;
}

#[tokio::test(start_paused = true)]
async fn shutdown_does_not_wait_for_ever_for_an_unreachable_database() {
    let (store, handle) = writer(Clock::system());
    store.fail_next(u32::MAX);
    let write = tokio::spawn({
        let writer = handle.writer();
        async move { writer.submit(delete("a", "k", 1)).await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = tokio::time::Instant::now();
    handle.finish().await;
    assert!(before.elapsed() <= Duration::from_secs(11), "{:?}", before.elapsed());
    assert_eq!(write.await.unwrap(), Err(WriterClosed), "never acknowledged");
}
