//! The numbers of visible records, which triggers keep: beside other transactions, and from the migration that began to.

use crate::store::testing::TestDb;
use std::time::{Duration, Instant};

use sqlx::{AssertSqlSafe, Connection, PgConnection};

use super::fixtures::*;
use super::older;

use crate::store::index::AccountStatus;
use crate::store::testing;
use crate::store::{Db, records};

const TIMEOUT: Duration = Duration::from_secs(30);

/// The number of the migration that counts the records of hidden accounts.
const HIDDEN: i64 = 49;

async fn visible(db: &Db) -> u64 {
    let counted = records::count(db, &nsid(NOTE), None, &US).await.unwrap();
    assert_eq!(list(db, NOTE).await.len() as u64, counted);
    counted
}

on_both!(every_change_of_a_hidden_account_counts);

async fn every_change_of_a_hidden_account_counts(db: TestDb) {
    let of = |n: u32| (0..n).map(|k| put(&uri(2, NOTE, &format!("k{k}")), 1, "{}")).collect::<Vec<_>>();
    apply(&db, 1, [of(3), vec![put(&uri(1, NOTE, "a"), 1, "{}"), put(&uri(2, LIKE, "a"), 1, "{}")]].concat())
        .await;
    set_status(&db, 2, AccountStatus::Suspended).await;
    assert_eq!(visible(&db).await, 1);
    // Inserted, updated and deleted while it is hidden.
    apply(&db, 2, of(5)).await;
    apply(&db, 3, vec![put(&uri(2, NOTE, "k4"), 2, "{}"), take(&uri(2, NOTE, "k0"), 2)]).await;
    set_status(&db, 2, AccountStatus::TakenDown).await;
    assert_eq!(visible(&db).await, 1);
    set_status(&db, 2, AccountStatus::Active).await;
    assert_eq!(visible(&db).await, 5);
    set_status(&db, 2, AccountStatus::Deactivated).await;
    records::delete_collection(&db, &nsid(NOTE)).await.end.unwrap();
    assert_eq!(visible(&db).await, 0);
    set_status(&db, 2, AccountStatus::Active).await;
    assert_eq!(counts(&db).await, [(LIKE.to_owned(), 1)]);
}

async fn begin(url: &str, sql: &str) -> PgConnection {
    let mut conn = PgConnection::connect(url).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(format!("BEGIN; {sql}"))).execute(&mut conn).await.unwrap();
    conn
}

/// Waits until a session waits for the lock that the triggers share.
async fn waits_for_the_lock(url: &str) {
    let mut watcher = PgConnection::connect(url).await.unwrap();
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'";
    let deadline = Instant::now() + TIMEOUT;
    while sqlx::query_scalar::<_, i64>(sql).fetch_one(&mut watcher).await.unwrap() == 0 {
        assert!(Instant::now() < deadline, "no session waits");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Neither of the two transactions sees the other's rows when it counts.
#[tokio::test]
async fn a_record_and_its_account_may_change_at_once() {
    const HIDE: &str = "UPDATE dids SET status = 1 WHERE did = 'did:plc:1'";
    let insert = "INSERT INTO records (collection_id, did_id, rkey, cid_verified, rev, indexed_at, updated_at, record) \
                  SELECT collection_id, did_id, 'new', false, 1, 2, 2, '{}' FROM records WHERE rkey = 'k0'";
    let delete = "DELETE FROM records WHERE rkey = 'k1'";
    for (write, total) in [(insert, 3), (delete, 1)] {
        for hide_first in [true, false] {
            let db = testing::postgres().await;
            let changes = ["k0", "k1"].map(|key| put(&uri(1, NOTE, key), 1, "{}"));
            apply(&db, 1, changes.to_vec()).await;
            let hide = HIDE.replace("did:plc:1", did(1).as_str());
            let (first, second) = if hide_first { (hide.as_str(), write) } else { (write, hide.as_str()) };
            let mut first = begin(&db.url, first).await;
            let (url, second) = (db.url.clone(), second.to_owned());
            let other = tokio::spawn(async move {
                let mut second = begin(&url, &second).await;
                sqlx::raw_sql("COMMIT").execute(&mut second).await.unwrap();
            });
            waits_for_the_lock(&db.url).await;
            sqlx::raw_sql("COMMIT").execute(&mut first).await.unwrap();
            other.await.unwrap();
            assert_eq!(visible(&db).await, 0, "{write}, hidden first: {hide_first}");
            set_status(&db, 1, AccountStatus::Active).await;
            assert_eq!(visible(&db).await, total, "{write}, hidden first: {hide_first}");
        }
    }
}

/// The rows of an instance of the version before: two collections, and two of three accounts are hidden.
fn fill(verified: &str) -> String {
    let record = |collection: u32, did: u32, key: &str| {
        format!(
            "INSERT INTO records (collection_id, did_id, rkey, cid_verified, rev, indexed_at, updated_at, record) \
             VALUES ({collection}, {did}, '{key}', {verified}, 1, 1, 1, '{{}}');"
        )
    };
    let accounts = format!(
        "INSERT INTO collections (nsid) VALUES ('{NOTE}'), ('{LIKE}');
         INSERT INTO dids (did, status) VALUES ('{}', 0), ('{}', 1), ('{}', 4);",
        did(1),
        did(2),
        did(3)
    );
    let records = [(1, 1, "a"), (1, 1, "b"), (1, 2, "a"), (1, 3, "a"), (2, 3, "a"), (2, 1, "a"), (1, 2, "b")];
    accounts + &records.map(|(collection, did, key)| record(collection, did, key)).concat()
}

async fn migrate_and_count(url: &str) {
    let db = Db::open(url, 2).await.unwrap();
    db.migrate().await.unwrap();
    assert_eq!(counts(&db).await, [(LIKE.to_owned(), 1), (NOTE.to_owned(), 2)]);
    set_status(&db, 2, AccountStatus::Active).await;
    assert_eq!(visible(&db).await, 4);
}

#[tokio::test]
async fn the_migration_counts_what_is_hidden_on_sqlite() {
    migrate_and_count(&older::sqlite(HIDDEN, &fill("0")).await.url).await;
}

#[tokio::test]
async fn the_migration_counts_what_is_hidden_on_postgres() {
    migrate_and_count(&older::postgres(HIDDEN, &fill("false")).await.url).await;
}
