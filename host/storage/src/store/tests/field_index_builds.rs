//! When indexes of record fields are built, repeated and dropped, and what is written meanwhile.

use crate::store::testing::TestDb;
use std::time::Duration;

use serde_json::json;

use super::field_indexes::{NOW, build_all, execute, pages, states, store, unhurried, values};
use super::fixtures::*;

use crate::query::{Direction, Filter, Query, Search, Sort};
use crate::store::search;

use crate::store::Db;
use crate::store::fields::advice::advise;
use crate::store::fields::build;
use crate::store::fields::table::{self, FieldIndex, State};
use crate::store::testing::postgres;
use belvedere_base::clock::Clock;

/// Stores records and builds the index for a sorted query. Returns the query, and its pages without the index.
async fn indexed(db: &Db) -> (Query, Vec<String>) {
    store(db, 0, &values()).await;
    let query = Query { sort: Some(Sort::parse("v", Direction::Asc).unwrap()), ..Query::of(nsid(NOTE)) };
    let expected = pages(db, &query).await;
    build_all(db).await;
    (query, expected)
}

on_both!(
    writes_during_a_build_are_in_the_index,
    an_interrupted_build_is_repeated,
    indexes_are_used_before_the_first_round_has_ended,
    unused_indexes_and_those_over_the_limit_are_dropped,
    an_index_that_another_process_dropped_is_no_error
);

async fn writes_during_a_build_are_in_the_index(db: TestDb) {
    let record = |n: u32, round: u32| {
        json!({"v": (n * 7 + round) % 1_000, "text": format!("text {} of {n}", (n + round) % 40)}).to_string()
    };
    let name = |n: u32| uri(n % 50, NOTE, &format!("r{n}"));
    for from in [0, 3_000, 6_000, 9_000] {
        let changes = (from..from + 3_000).map(|n| put(&name(n), 1, &record(n, 0)));
        apply(&db, 1, changes.collect()).await;
    }
    let sorted = Query { sort: Some(Sort::parse("v", Direction::Asc).unwrap()), ..Query::of(nsid(NOTE)) };
    let filter = Filter::from_json(&json!({"field": "v", "value": 21})).unwrap();
    let queries = [
        Query { limit: 100, ..sorted.clone() },
        Query { limit: 100, filter: Some(filter), ..Query::of(nsid(NOTE)) },
    ];
    let text = Search::parse(nsid(NOTE), &["text"], "text 7 of".into(), Some(100), None).unwrap();
    let read = async || {
        let mut found = Vec::new();
        for query in &queries {
            found.push(pages(&db, query).await);
        }
        let rows = unhurried(async || search::read(&db, &text, &US).await).await.rows;
        found.push(rows.into_iter().map(|row| row.rkey).collect());
        found
    };
    read().await;
    let write = async {
        for round in 2..40 {
            let changed = (round..12_000).step_by(53).map(|n| match n % 5 {
                0 => take(&name(n), u64::from(round)),
                _ => put(&name(n), u64::from(round), &record(n, round)),
            });
            let new = (0..20).map(|n| 20_000 + round * 100 + n).map(|n| put(&name(n), 1, &record(n, round)));
            apply(&db, 2, changed.chain(new).collect()).await;
        }
    };
    tokio::join!(build_all(&db), write);
    let by_index = read().await;
    advise(&db, &Clock::fixed(NOW), 0).await.unwrap();
    assert_eq!(states(&db).await, []);
    assert_eq!(read().await, by_index);
}

async fn an_interrupted_build_is_repeated(db: TestDb) {
    let (query, expected) = indexed(&db).await;
    // The state after a kill in the middle of a build: an incomplete index, and the state `building`.
    execute(&db, "UPDATE field_indexes SET state = 1").await;
    let clock = Clock::fixed(NOW);
    advise(&db, &clock, 9).await.unwrap();
    assert_eq!(states(&db).await, [("v".to_owned(), "sort", "candidate")]);
    assert_eq!(pages(&db, &query).await, expected);
    advise(&db, &clock, 9).await.unwrap();
    assert_eq!(states(&db).await, [("v".to_owned(), "sort", "ready")]);
    assert_eq!(pages(&db, &query).await, expected);
}

async fn indexes_are_used_before_the_first_round_has_ended(db: TestDb) {
    indexed(&db).await;
    execute(&db, "INSERT INTO field_indexes (collection_id, path, kind, state, calls, scans, scan_micros, last_used_at, \
        state_changed_at) SELECT collection_id, 'w', kind, 0, 1, 1, 9000000, last_used_at, 0 FROM field_indexes").await;
    // The round ends with an error when it marks the build of the other index.
    execute(&db, match &*db {
        Db::Sqlite(_) => {
            "CREATE TRIGGER refuse BEFORE UPDATE OF state ON field_indexes BEGIN SELECT RAISE(ABORT, 'full'); END"
        }
        Db::Postgres(_) => "ALTER TABLE field_indexes ADD CHECK (state <> 1)",
    }).await;
    let restarted = Db::open(&db.url, 2).await.unwrap();
    assert!(advise(&restarted, &Clock::fixed(NOW), 9).await.is_err());
    let entries = table::list(&restarted).await.unwrap();
    let ready: Vec<_> = entries.iter().filter(|entry| entry.state == State::Ready).collect();
    let [FieldIndex { id, key, .. }] = &ready[..] else { panic!("{ready:?}") };
    assert_eq!(restarted.fields().index(key.collection_id, &key.path, key.kind), Some(*id));
    restarted.close().await;
}

async fn unused_indexes_and_those_over_the_limit_are_dropped(db: TestDb) {
    let (query, expected) = indexed(&db).await;
    advise(&db, &Clock::fixed(NOW.plus_seconds(13 * 86_400)), 9).await.unwrap();
    assert_eq!(states(&db).await.len(), 1);
    advise(&db, &Clock::fixed(NOW.plus_seconds(15 * 86_400)), 9).await.unwrap();
    assert_eq!(states(&db).await, []);
    assert_eq!(pages(&db, &query).await, expected);

    build_all(&db).await;
    advise(&db, &Clock::fixed(NOW), 0).await.unwrap();
    assert_eq!(states(&db).await, []);
    assert_eq!(pages(&db, &query).await, expected);
}

async fn an_index_that_another_process_dropped_is_no_error(db: TestDb) {
    let (query, expected) = indexed(&db).await;
    let other = Db::open(&db.url, 2).await.unwrap();
    advise(&other, &Clock::fixed(NOW), 0).await.unwrap();
    other.close().await;
    assert_eq!(pages(&db, &query).await, expected);
}

#[tokio::test]
async fn one_host_at_a_time() {
    let db = postgres().await;
    let other = Db::open(&db.url, 2).await.unwrap();
    let turn = build::lock(&db).await.unwrap().unwrap();
    assert!(build::lock(&other).await.unwrap().is_none());
    turn.release().await.unwrap();
    let turn = build::lock(&other).await.unwrap().unwrap();
    drop(turn);
    // When a host just disconnects, as after a kill, PostgreSQL detects that after a while.
    let freed = async {
        while build::lock(&db).await.unwrap().is_none() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), freed).await.unwrap();
    other.close().await;
}
