//! The numbers of visible records: beside other transactions, from the migration that began to keep them, and without triggers.

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
    assert_eq!(testing::wrong_counts(db).await.unwrap(), [""; 0]);
    let counted = records::count(db, &nsid(NOTE), None, &US).await.unwrap();
    assert_eq!(list(db, NOTE).await.len() as u64, counted);
    counted
}

on_both!(every_change_of_a_hidden_account_counts, writers_count_without_triggers);

async fn writers_count_without_triggers(db: TestDb) {
    testing::drop_counting_triggers(&db).await.unwrap();
    every_change_of_a_hidden_account_counts(db).await;
}

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

/// Waits until a session waits for the lock that those who write records share.
async fn waits_for_the_lock(url: &str) {
    let mut watcher = PgConnection::connect(url).await.unwrap();
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'";
    let deadline = Instant::now() + TIMEOUT;
    while sqlx::query_scalar::<_, i64>(sql).fetch_one(&mut watcher).await.unwrap() == 0 {
        assert!(Instant::now() < deadline, "no session waits");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A change of an account or of a record: the statement of a host of the version before, and how this version does it.
#[derive(Clone, Copy, Debug)]
enum Write {
    Hide,
    Insert,
    Delete,
}

impl Write {
    fn sql(self) -> String {
        match self {
            Self::Hide => format!("UPDATE dids SET status = 1 WHERE did = '{}'", did(1)),
            Self::Insert => {
                "INSERT INTO records (collection_id, did_id, rkey, cid_verified, rev, indexed_at, updated_at, record) \
                 SELECT collection_id, did_id, 'new', false, 1, 2, 2, '{}' FROM records WHERE rkey = 'k0'"
                    .to_owned()
            }
            Self::Delete => "DELETE FROM records WHERE rkey = 'k1'".to_owned(),
        }
    }

    async fn apply(self, db: &Db) {
        match self {
            Self::Hide => drop(set_status(db, 1, AccountStatus::Deactivated).await),
            Self::Insert => drop(apply(db, 2, vec![put(&uri(1, NOTE, "new"), 1, "{}")]).await),
            Self::Delete => assert!(records::delete(db, &uri(1, NOTE, "k1")).await.unwrap()),
        }
    }
}

/// Neither of the two transactions sees the other's rows when it counts, whichever version each is of.
#[tokio::test]
async fn a_record_and_its_account_may_change_at_once() {
    for (write, total) in [(Write::Insert, 3), (Write::Delete, 1)] {
        for (hide_first, second_is_older) in [(true, true), (true, false), (false, true), (false, false)] {
            let db = testing::postgres().await;
            let changes = ["k0", "k1"].map(|key| put(&uri(1, NOTE, key), 1, "{}"));
            apply(&db, 1, changes.to_vec()).await;
            let (first, second) = if hide_first { (Write::Hide, write) } else { (write, Write::Hide) };
            let mut first = begin(&db.url, &first.sql()).await;
            let (url, this) = (db.url.clone(), Db::clone(&db));
            let other = tokio::spawn(async move {
                if second_is_older {
                    let mut second = begin(&url, &second.sql()).await;
                    sqlx::raw_sql("COMMIT").execute(&mut second).await.unwrap();
                } else {
                    second.apply(&this).await;
                }
            });
            waits_for_the_lock(&db.url).await;
            sqlx::raw_sql("COMMIT").execute(&mut first).await.unwrap();
            other.await.unwrap();
            assert_eq!(visible(&db).await, 0, "{write:?}, hidden first: {hide_first}");
            set_status(&db, 1, AccountStatus::Active).await;
            assert_eq!(visible(&db).await, total, "{write:?}, hidden first: {hide_first}");
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
