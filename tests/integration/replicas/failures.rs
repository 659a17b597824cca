//! No client notices a replica that hangs, dies, is restarted, cancels reads or is promoted.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use belvedere_standins::postgres::OwnServer;
use futures_util::future::join_all;

use super::{DATABASE, first, replicas, servers, value, wait_until_used, world};
use crate::fixtures::{ALICE, LIST, NOTES, World};
use crate::support::instance::{Instance, query_lexicon};

const SEARCH: &str = "com.example.search";

/// Clients that read all the time.
const READERS: usize = 6;

/// A world with a note, which the replicas have, and a script that searches.
async fn prepared(mut world: World, all: &[&OwnServer]) -> (World, String) {
    let uri = world.note(ALICE, "one", serde_json::json!({ "text": "same" })).await;
    let server = &world.server;
    server.upload(query_lexicon(SEARCH), Some(NOTES)).await;
    let script = "function handle()
        local found = db.search({ collection = collection, field = 'text', query = 'same' })
        return { n = #found.records, count = db.count(collection) }
    end";
    server.bind(SEARCH, script).await;
    server
        .eventually("the replicas are used", async |server| {
            replicas(server).await.iter().all(|seen| seen["in_use"] == true)
        })
        .await;
    for replica in all {
        server
            .eventually("the replica has the note", async |_: &Instance| {
                value::<i64>(replica, "SELECT count(*) FROM records").await == 1
            })
            .await;
    }
    (world, uri)
}

/// Reads while `scenario` runs. Every answer must be right.
async fn while_reading(server: &Instance, uri: &str, scenario: impl Future<Output = ()>) {
    let (ended, answers) = (AtomicBool::new(false), AtomicU64::new(0));
    let (is_over, count) = (&ended, &answers);
    let reader = |n: usize| async move {
        while !is_over.load(Ordering::Relaxed) {
            let answer = match n % 3 {
                0 => server.xrpc(LIST).await,
                1 => server.xrpc(&format!("{LIST}?uri={uri}")).await,
                _ => server.xrpc(SEARCH).await,
            };
            assert_eq!(answer.status, 200, "{}", answer.text);
            let is_found = match n % 3 {
                0 => answer.body["records"][0]["uri"] == uri,
                1 => answer.body["record"]["uri"] == uri,
                _ => answer.body == serde_json::json!({ "n": 1, "count": 1 }),
            };
            assert!(is_found, "{}", answer.text);
            count.fetch_add(1, Ordering::Relaxed);
        }
    };
    let scenario = async {
        scenario.await;
        ended.store(true, Ordering::Relaxed);
    };
    tokio::join!(join_all((0..READERS).map(reader)), scenario);
    assert!(answers.load(Ordering::Relaxed) > READERS as u64);
}

async fn is_healthy(server: &Instance) {
    for path in ["/health", "/readyz"] {
        let answer = server.request(http::Method::GET, path, &[], None).await;
        assert_eq!(answer.status, 200, "{path} {}", answer.text);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_go_on_without_the_replica() {
    let (primary, replica) = servers(&[]).await;
    let (world, uri) = prepared(world(&primary, &replica.url(DATABASE), &[]).await, &[&replica]).await;
    let server = &world.server;
    while_reading(server, &uri, async {
        replica.signal("STOP").await;
        wait_until_used(server, false).await;
        is_healthy(server).await;
        replica.signal("CONT").await;
        wait_until_used(server, true).await;

        replica.signal("KILL").await;
        wait_until_used(server, false).await;
        is_healthy(server).await;
        replica.start_again().await;
        wait_until_used(server, true).await;

        replica.promote().await;
        wait_until_used(server, false).await;
        is_healthy(server).await;
    })
    .await;
    // Until the next look at it the reason is that a read failed.
    let is_known = async |server: &Instance| {
        first(server).await["reason"].as_str().is_some_and(|reason| reason.contains("not in recovery"))
    };
    server.eventually("it is known that it is no replica any more", is_known).await;
    // One line for each time that it left and returned, however many reads there were.
    let log = server.log();
    let lines = |text: &str| log.lines().filter(|line| line.contains(text)).count();
    assert_eq!(lines("a replica is used for reads"), 3, "{log}");
    // A failed read and the look after it give two reasons.
    assert!((3..=8).contains(&lines("a replica is not used;")), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_that_recovery_cancels_is_repeated() {
    // The replica does not wait for readers.
    let (primary, replica) = servers(&["max_standby_streaming_delay=0"]).await;
    let (world, uri) = prepared(world(&primary, &replica.url(DATABASE), &[]).await, &[&replica]).await;
    let server = &world.server;
    while_reading(server, &uri, async {
        server
            .eventually("reads are cancelled and repeated", async |server| {
                for _ in 0..20 {
                    // One table, which every read uses: two would deadlock with reads on the primary.
                    primary
                        .execute(DATABASE, "BEGIN; LOCK TABLE dids IN ACCESS EXCLUSIVE MODE; COMMIT")
                        .await;
                }
                first(server).await["repeated_reads"].as_u64().unwrap() > 0
            })
            .await;
    })
    .await;
    assert_eq!(first(server).await["in_use"], true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_are_spread_over_the_replicas() {
    let (primary, replica) = servers(&[]).await;
    let other = primary.replica(&[]).await;
    let urls = format!("{}, {}", replica.url(DATABASE), other.url(DATABASE));
    let (world, uri) = prepared(world(&primary, &urls, &[]).await, &[&replica, &other]).await;
    let server = &world.server;
    let counts = async || -> Vec<u64> {
        replicas(server).await.iter().map(|seen| seen["reads"].as_u64().unwrap()).collect()
    };
    let before = counts().await;
    server
        .eventually("both answer reads", async |server| {
            assert_eq!(server.xrpc(LIST).await.status, 200);
            counts().await.iter().zip(&before).all(|(now, before)| now - before >= 5)
        })
        .await;
    while_reading(server, &uri, async {
        other.signal("KILL").await;
        server
            .eventually("one is left", async |server| {
                replicas(server).await.iter().filter(|seen| seen["in_use"] == true).count() == 1
            })
            .await;
    })
    .await;
}
