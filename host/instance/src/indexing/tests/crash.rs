//! Kills the process at random moments while it receives events: nothing is lost or duplicated (invariant 1).

use std::time::Duration;

use belvedere_standins::jetstream::{FakeJetstream, eventually, synthetic, synthetic_record};
use tempfile::tempdir;

use belvedere_base::random::Random;
use belvedere_storage::store::cursors;

use super::{BASE, NOTE, address, database, run, visible};

const ROUNDS: usize = 12;
/// Events that are sent in each round while the server runs, and again while it does not.
const HALF: usize = 250;
const EVENTS: usize = 2 * ROUNDS * HALF;

#[test]
fn after_repeated_kills_every_record_is_there_once() {
    let dir = tempdir().unwrap();
    let random = Random::seeded(11);
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    // The stand-in outlives the server's "processes".
    let outside = runtime();
    let jetstream = outside.block_on(async {
        let jetstream = FakeJetstream::start().await;
        database(&dir).await.close().await;
        jetstream
    });
    let mut pushed = 0;
    let mut resumed_midway = 0;
    for round in 0..ROUNDS {
        let process = runtime();
        process.block_on(async {
            let db = belvedere_storage::store::Db::open(&address(&dir), 2).await.unwrap();
            let before = cursors::get(&db, "jetstream").await.unwrap();
            resumed_midway += usize::from(before.is_some_and(|c| c < BASE + pushed as i64 - 1));
            let seen = jetstream.subscriptions().len();
            let _server = run(&db, vec![jetstream.url()], &[NOTE], 1 + round % 3);
            eventually("connected", async || jetstream.subscriptions().len() > seen).await;
            jetstream.push_all(synthetic(HALF, 30, NOTE, BASE + pushed as i64));
            pushed += HALF;
            tokio::time::sleep(Duration::from_micros(random.u64() % 40_000)).await;
        });
        // Without a shutdown: all tasks are dropped at their current await.
        process.shutdown_background();
        std::thread::sleep(Duration::from_millis(5));
        // Sent while no process is connected. So the next process always has events to catch up with.
        jetstream.push_all(synthetic(HALF, 30, NOTE, BASE + pushed as i64));
        pushed += HALF;
    }
    outside.block_on(async {
        let db = belvedere_storage::store::Db::open(&address(&dir), 2).await.unwrap();
        let server = run(&db, vec![jetstream.url()], &[NOTE], 2);
        eventually("all committed", async || {
            cursors::get(&db, "jetstream").await.unwrap() == Some(BASE + EVENTS as i64 - 1)
        })
        .await;
        let records = visible(&db, NOTE).await;
        assert_eq!(records.len(), EVENTS);
        let mut expected: Vec<String> = (0..HALF).map(|i| synthetic_record(NOTE, i).to_string()).collect();
        expected.sort();
        let mut got: Vec<String> = records.into_values().collect();
        got.sort();
        got.dedup();
        assert_eq!(got, expected, "each record is whole");
        server.handle.finish().await;
    });
    assert_eq!(resumed_midway, ROUNDS - 1, "every process but the first had something to catch up with");
}
