//! The lease of the stream, and that nothing comes in from one that is over.

use std::time::{Duration, Instant};

use belvedere::clock::Timestamp;
use belvedere::store::lease::{Lease, Term};
use belvedere::store::{Db, StoreError, cursors, index};

use super::fixtures::*;
use crate::support::db;

const NOW: Timestamp = Timestamp(1);

async fn execute(db: &Db, sql: &'static str) -> u64 {
    let Db::Postgres(db) = db else { unreachable!() };
    sqlx::query(sql).execute(&db.pool).await.unwrap().rows_affected()
}

/// Takes the lease as soon as it is free.
async fn taken(lease: &mut Lease) -> Term {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(term) = lease.take(NOW).await.unwrap() {
            return term;
        }
        assert!(Instant::now() < deadline, "the lease is not free");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn on_sqlite_everybody_is_alone() {
    let db = db::sqlite().await;
    let mut lease = Lease::of(&db);
    assert_eq!(lease.take(NOW).await.unwrap(), Some(Term::ALONE));
    assert!(tokio::time::timeout(Duration::from_millis(20), lease.lost()).await.is_err());
    lease.give_back().await;
}

#[tokio::test]
async fn one_has_it_until_it_gives_it_back_or_its_connection_ends() {
    let db = db::postgres().await;
    let (mut one, mut two) = (Lease::of(&db), Lease::of(&db));
    let first = taken(&mut one).await;
    assert_eq!(two.take(NOW).await.unwrap(), None);
    one.give_back().await;
    let second = taken(&mut two).await;
    assert!(second > first && first > Term::ALONE);

    // The view shows the locks of every database of the server, and so those of other tests.
    let sql = "SELECT pg_terminate_backend(l.pid) FROM pg_locks l JOIN pg_database d ON d.oid = l.database \
         WHERE l.locktype = 'advisory' AND d.datname = current_database()";
    assert_eq!(execute(&db, sql).await, 1);
    tokio::time::timeout(Duration::from_secs(4), two.lost()).await.expect("it is noticed, before any ping");
    assert!(taken(&mut one).await > second);

    // Without a word, as when the process is killed.
    drop(one);
    taken(&mut two).await;
}

#[tokio::test]
async fn a_term_that_is_over_changes_nothing() {
    let db = db::postgres().await;
    let (mut one, mut two) = (Lease::of(&db), Lease::of(&db));
    let a = uri(1, NOTE, "a");
    let batch = |term, text: &str, n| index::Batch {
        changes: vec![put(&a, u64::try_from(n).unwrap(), text)],
        cursor: Some(cursor(n)),
        now: NOW,
        term,
        ..index::Batch::default()
    };
    let first = taken(&mut one).await;
    index::apply(&db, &batch(first, "{}", 10)).await.unwrap();
    one.give_back().await;
    let second = taken(&mut two).await;
    index::apply(&db, &batch(second, "{}", 20)).await.unwrap();

    // The newest there is, from a host that does not know yet.
    let late = index::apply(&db, &batch(first, r#"{"late":true}"#, 30)).await;
    assert!(matches!(late, Err(StoreError::Superseded)), "{late:?}");
    assert_eq!(cursors::get(&db, "jetstream").await.unwrap(), Some(20));
    assert_eq!(list(&db, NOTE).await.len(), 1);
    // Its own writes are no part of the stream.
    apply(&db, 1, vec![put(&a, 40, "{}")]).await;
}

#[tokio::test]
async fn a_term_begins_after_the_last_commit_of_the_one_before() {
    let db = db::postgres().await;
    let mut one = Lease::of(&db);
    taken(&mut one).await;
    let Db::Postgres(postgres) = &*db else { unreachable!() };
    // As a commit does that is under way.
    let mut commit = postgres.pool.begin().await.unwrap();
    let sql = "SELECT 1 FROM stream_cursors WHERE source = 'lease' FOR SHARE";
    sqlx::query(sql).execute(&mut *commit).await.unwrap();
    one.give_back().await;
    let other = Db::clone(&db);
    let taking = tokio::spawn(async move { taken(&mut Lease::of(&other)).await });
    let waits =
        "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let deadline = Instant::now() + Duration::from_secs(5);
    while execute(&db, waits).await == 0 {
        assert!(Instant::now() < deadline && !taking.is_finished(), "it does not wait");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    commit.commit().await.unwrap();
    taking.await.unwrap();
}
