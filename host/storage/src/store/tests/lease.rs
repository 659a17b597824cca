//! The lease of the stream: one host has it, and batches under an ended term are refused.

use std::time::{Duration, Instant};

use super::fixtures::*;

use crate::store::backfill::{self, Checkpoint, CollectionPosition, Counters, FinishedRepo, NewJob, Phase};
use crate::store::lease::{LAPSE, Lease, Term};
use crate::store::status::{BackfillStatus, RepoStatus, Request, Stage};
use crate::store::testing;
use crate::store::{Db, StoreError, cursors, index};
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::{Did, Nsid};

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
async fn sqlite_always_grants_the_lease() {
    let db = testing::sqlite().await;
    let mut lease = Lease::of(&db);
    assert_eq!(lease.take(NOW).await.unwrap(), Some(Term::ALONE));
    assert!(tokio::time::timeout(Duration::from_millis(20), lease.lost()).await.is_err());
    lease.release().await;
}

#[tokio::test]
async fn one_host_has_it_until_it_is_released_or_the_connection_ends() {
    let db = testing::postgres().await;
    let (mut one, mut two) = (Lease::of(&db), Lease::of(&db));
    let first = taken(&mut one).await;
    assert_eq!(two.take(NOW).await.unwrap(), None);
    one.release().await;
    let second = taken(&mut two).await;
    assert!(second > first && first > Term::ALONE);

    // pg_locks lists the locks of all databases, also those of other tests.
    let sql = "SELECT pg_terminate_backend(l.pid) FROM pg_locks l JOIN pg_database d ON d.oid = l.database \
         WHERE l.locktype = 'advisory' AND d.datname = current_database()";
    assert_eq!(execute(&db, sql).await, 1);
    tokio::time::timeout(Duration::from_secs(4), two.lost())
        .await
        .expect("the loss is detected before the next ping");
    assert!(taken(&mut one).await > second);

    // Just disconnects, as when the process is killed.
    drop(one);
    taken(&mut two).await;
}

#[tokio::test]
async fn a_batch_of_an_ended_term_is_refused() {
    let db = testing::postgres().await;
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
    one.release().await;
    let second = taken(&mut two).await;
    index::apply(&db, &batch(second, "{}", 20)).await.unwrap();

    // A newer change, from a host that does not know yet that its term has ended.
    let late = index::apply(&db, &batch(first, r#"{"late":true}"#, 30)).await;
    assert!(matches!(late, Err(StoreError::Superseded)), "{late:?}");
    assert_eq!(cursors::get(&db, "jetstream").await.unwrap(), Some(20));
    assert_eq!(list(&db, NOTE).await.len(), 1);
    // Writes that are not part of the stream need no lease.
    apply(&db, 1, vec![put(&a, 40, "{}")]).await;
}

#[tokio::test]
async fn a_term_begins_after_the_last_commit_of_the_one_before() {
    let db = testing::postgres().await;
    let mut one = Lease::of(&db);
    taken(&mut one).await;
    let Db::Postgres(postgres) = &*db else { unreachable!() };
    // Locks the row, like a commit in progress.
    let mut commit = postgres.pool.begin().await.unwrap();
    let sql = "SELECT 1 FROM stream_cursors WHERE source = 'lease' FOR SHARE";
    sqlx::query(sql).execute(&mut *commit).await.unwrap();
    one.release().await;
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

/// The database sees a host that hangs as open connections that send nothing.
#[tokio::test]
async fn a_holder_that_sends_nothing_loses_the_lease_and_its_open_commit() {
    let db = testing::postgres().await;
    let (mut hung, mut other) = (Lease::of(&db), Lease::of(&db));
    let first = taken(&mut hung).await;
    let Db::Postgres(postgres) = &*db else { unreachable!() };
    let mut commit = postgres.pool.begin().await.unwrap();
    let sql = "SELECT 1 FROM stream_cursors WHERE source = 'lease' FOR SHARE";
    sqlx::query(sql).execute(&mut *commit).await.unwrap();
    assert_eq!(other.take(NOW).await.unwrap(), None);

    let second = taken(&mut other).await;
    assert!(second > first);
    hung.lost().await;
    sqlx::query("SELECT 1").execute(&mut *commit).await.unwrap_err();
    let late = index::Batch { cursor: Some(cursor(30)), now: NOW, term: first, ..index::Batch::default() };
    let late = index::apply(&db, &late).await;
    assert!(matches!(late, Err(StoreError::Superseded)), "{late:?}");
}

#[tokio::test]
async fn a_holder_that_is_idle_but_alive_keeps_the_lease() {
    let db = testing::postgres().await;
    let (mut holder, mut other) = (Lease::of(&db), Lease::of(&db));
    let first = taken(&mut holder).await;
    let deadline = Instant::now() + LAPSE + Duration::from_secs(2);
    while Instant::now() < deadline {
        assert_eq!(other.take(NOW).await.unwrap(), None);
        // A host on standby waits for this time between two attempts.
        assert!(tokio::time::timeout(Duration::from_secs(2), holder.lost()).await.is_err());
    }
    let current = index::Batch { cursor: Some(cursor(30)), now: NOW, term: first, ..index::Batch::default() };
    index::apply(&db, &current).await.unwrap();
}

/// The job of a host that hung: another host runs it, and nothing that the first still sends is stored.
#[tokio::test]
async fn a_backfill_of_an_ended_term_writes_nothing() {
    let db = testing::postgres().await;
    let (mut one, mut two) = (Lease::of_backfills(&db), Lease::of_backfills(&db));
    let (id, collection) = ("job".to_owned(), Some(NOTE.to_owned()));
    backfill::create(&db, &NewJob { id, collection, ..NewJob::default() }, NOW).await.unwrap();
    let seq = backfill::next(&db).await.unwrap().unwrap().seq;
    let did = Did::try_from("did:plc:a").unwrap();
    let first = taken(&mut one).await;
    let hung = one.fenced(&db, first);
    assert!(backfill::add_repo(&hung, seq, &did).await.unwrap(), "its own term is not over");
    one.release().await;
    let second = taken(&mut two).await;
    let active = two.fenced(&db, second);

    let finished = vec![FinishedRepo { did: did.to_string(), records: 7, error: None }];
    let checkpoint = Checkpoint { finished, ..Checkpoint::default() };
    let position = CollectionPosition {
        collection: NOTE.to_owned(),
        cursor: Some("c".to_owned()),
        last_rkey: None,
        is_ordered: true,
        is_done: false,
        records: 1,
    };
    let nsid = Nsid::try_from(NOTE).unwrap();
    let late = [
        backfill::checkpoint(&hung, seq, &checkpoint).await,
        backfill::save_positions(&hung, seq, did.as_str(), &[position]).await,
        backfill::forget_positions(&hung, seq, did.as_str()).await,
        backfill::save_counters(&hung, seq, &Counters { total_records: 7, ..Counters::default() }).await,
        backfill::set_stage(&hung, seq, Stage::Failed).await,
        backfill::set_error(&hung, seq, "late").await,
        backfill::add_repos(&hung, seq, nsid.as_str(), &["did:plc:b".to_owned()], None).await.map(drop),
        backfill::add_repo(&hung, seq, &Did::try_from("did:plc:c").unwrap()).await.map(drop),
        backfill::fail_host(&hung, seq, "https://pds", "timeout", "late").await.map(drop),
        backfill::end(&hung, seq, Request::Fail, Some("late"), NOW).await.map(drop),
    ];
    for (n, result) in late.into_iter().enumerate() {
        assert!(matches!(result, Err(StoreError::Superseded)), "{n}: {result:?}");
    }
    let job = backfill::get(&db, "job").await.unwrap().unwrap();
    assert_eq!((job.stage.as_str(), job.error, job.total_records), ("pending", None, None));
    assert!(backfill::positions(&db, seq, did.as_str()).await.unwrap().is_empty());
    let repos = backfill::repos(&db, "job", Phase::All, None, 10).await.unwrap();
    assert_eq!(repos.len(), 1);
    assert_eq!(repos[0].status, RepoStatus::Pending);

    assert_eq!(
        backfill::end(&active, seq, Request::Complete, None, NOW).await.unwrap(),
        Some(BackfillStatus::Completed)
    );
}
