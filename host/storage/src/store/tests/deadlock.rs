//! PostgreSQL ends one of two transactions that wait for each other.

use std::time::{Duration, Instant};

use sqlx::{Connection, PgConnection};

use super::fixtures::*;

use crate::store::Db;
use crate::store::records;
use crate::store::testing;

const TIMEOUT: Duration = Duration::from_secs(30);

/// A transaction that locks a record, and is never the one that PostgreSQL ends.
async fn lock(url: &str, rkey: &str) -> PgConnection {
    let mut connection = PgConnection::connect(url).await.unwrap();
    sqlx::query("SET deadlock_timeout = '1h'").execute(&mut connection).await.unwrap();
    sqlx::query("BEGIN").execute(&mut connection).await.unwrap();
    lock_further(&mut connection, rkey).await;
    connection
}

async fn lock_further(connection: &mut PgConnection, rkey: &str) {
    let sql = "SELECT 1 FROM records WHERE rkey = $1 FOR UPDATE";
    let locked = sqlx::query(sql).bind(rkey).execute(connection).await.unwrap();
    assert_eq!(locked.rows_affected(), 1, "{rkey}");
}

/// Waits until as many sessions wait for locks.
async fn waiting(watcher: &mut PgConnection, sessions: i64) {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let deadline = Instant::now() + TIMEOUT;
    while sqlx::query_scalar::<_, i64>(sql).fetch_one(&mut *watcher).await.unwrap() != sessions {
        assert!(Instant::now() < deadline, "not {sessions} sessions wait");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The step holds "a" and waits for "c", whose holder waits for "a". That it gets "a" shows that the step was ended.
#[tokio::test]
async fn a_step_of_a_deletion_that_ends_as_a_deadlock_is_tried_again() {
    let db = testing::postgres().await;
    for (at, rkey) in [(1, "a"), (2, "b"), (3, "c")] {
        apply(&db, at, vec![put(&uri(1, NOTE, rkey), 1, "{}")]).await;
    }
    let mut watcher = PgConnection::connect(&db.url).await.unwrap();
    let between = lock(&db.url, "b").await;
    let mut writer = lock(&db.url, "c").await;

    let other = Db::clone(&db);
    let deleting = tokio::spawn(async move { records::delete_collection(&other, &nsid(NOTE)).await });
    waiting(&mut watcher, 1).await;
    let writing = tokio::spawn(async move {
        lock_further(&mut writer, "a").await;
        writer
    });
    waiting(&mut watcher, 2).await;
    between.close().await.unwrap();

    let writer = tokio::time::timeout(TIMEOUT, writing).await.expect("the step is ended").unwrap();
    waiting(&mut watcher, 1).await;
    writer.close().await.unwrap();
    let deleted = deleting.await.unwrap();
    assert!(deleted.records == 3 && deleted.end.is_ok(), "{deleted:?}");
}
