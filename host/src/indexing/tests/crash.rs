//! Killed at random moments while events stream in: nothing is lost and nothing is doubled (invariant 1).

use std::time::Duration;

use tempfile::tempdir;

use crate::indexing::standin::{Standin, eventually, synthetic, synthetic_record};
use crate::random::Random;
use crate::store::cursors;

use super::{BASE, NOTE, address, database, run, visible};

const ROUNDS: usize = 12;
/// Events of a round: so many while the server runs, and as many while it does not.
const HALF: usize = 250;
const EVENTS: usize = 2 * ROUNDS * HALF;

#[test]
fn killed_again_and_again_it_ends_with_every_record() {
    let dir = tempdir().unwrap();
    let random = Random::seeded(11);
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    // The stand-in outlives the server's "processes".
    let outside = runtime();
    let jetstream = outside.block_on(async {
        let jetstream = Standin::start().await;
        database(&dir).await.close().await;
        jetstream
    });
    let mut pushed = 0;
    let mut resumed_midway = 0;
    for round in 0..ROUNDS {
        let process = runtime();
        process.block_on(async {
            let db = crate::store::Db::open(&address(&dir), 2).await.unwrap();
            let before = cursors::get(&db, "jetstream").await.unwrap();
            resumed_midway += usize::from(before.is_some_and(|c| c < BASE + pushed as i64 - 1));
            let seen = jetstream.subscriptions().len();
            let _server = run(&db, vec![jetstream.url()], &[NOTE], 1 + round % 3);
            eventually("connected", async || jetstream.subscriptions().len() > seen).await;
            jetstream.push_all(synthetic(HALF, 30, NOTE, BASE + pushed as i64));
            pushed += HALF;
            tokio::time::sleep(Duration::from_micros(random.u64() % 40_000)).await;
        });
        // No shutdown, no drain: tasks vanish where they stand.
        process.shutdown_background();
        std::thread::sleep(Duration::from_millis(5));
        // What happens while nobody listens: however fast the first half went in, the next process resumes midway.
        jetstream.push_all(synthetic(HALF, 30, NOTE, BASE + pushed as i64));
        pushed += HALF;
    }
    outside.block_on(async {
        let db = crate::store::Db::open(&address(&dir), 2).await.unwrap();
        let server = run(&db, vec![jetstream.url()], &[NOTE], 2);
        eventually("all covered", async || {
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
