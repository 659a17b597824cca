//! Changes of records that are noted for subscriptions.

use super::fixtures::*;

use crate::store::Db;
use crate::store::index::AccountStatus;
use crate::store::moderation::{self, Decision, Subject};
use crate::store::record_changes::{self, Action, RecordChange, Window};
use crate::store::testing::TestDb;
use belvedere_base::clock::Timestamp;

const NOTE: &str = "com.example.note";
const LIKE: &str = "com.example.like";

on_both!(
    only_followed_collections_are_noted,
    every_way_to_change_a_record_is_noted,
    a_failed_transaction_leaves_no_change,
    numbers_are_in_the_order_of_the_commits,
    the_window_is_bounded_by_time_and_bytes,
    live_queries_have_changes_noted_without_records,
    triggers_are_replaced_only_if_they_differ
);

async fn all(db: &Db) -> Vec<RecordChange> {
    let (mut found, mut after) = (Vec::new(), 0);
    while let Some(page) = record_changes::page(db, after, None).await.unwrap() {
        found.extend(page.changes);
        after = page.until;
    }
    found
}

fn shown(changes: &[RecordChange]) -> Vec<(&str, Action, Option<&str>)> {
    changes.iter().map(|one| (one.rkey.as_str(), one.action, one.record.as_deref())).collect()
}

/// Stores lexicons of subscriptions of exactly these collections.
async fn show(db: &Db, collections: &[&str]) {
    execute(db, "DELETE FROM lexicons").await;
    for collection in collections {
        let columns = "id, revision, lexicon_json, lexicon_type, backfill, target_collection, source, created_at, updated_at";
        let values =
            format!("'{collection}.watch', 1, '{{}}', 'subscription', FALSE, '{collection}', 'manual', 0, 0");
        execute(db, &format!("INSERT INTO lexicons ({columns}) VALUES ({values})")).await;
    }
    record_changes::follow(db, Timestamp(0)).await.unwrap();
}

async fn triggers(db: &Db) -> i64 {
    match db {
        Db::Sqlite(_) => {
            count(db, "sqlite_master WHERE type = 'trigger' AND name LIKE 'record_changes%'").await
        }
        // In shards a row for each collection.
        Db::Postgres(db) if db.ids.in_shards() => {
            3 * i64::from(count(&Db::Postgres(db.clone()), "followed_collections").await > 0)
        }
        Db::Postgres(_) => {
            let of_table = "pg_trigger WHERE tgrelid = 'records'::regclass AND tgname LIKE 'record_changes%'";
            count(db, of_table).await
        }
    }
}

async fn only_followed_collections_are_noted(db: TestDb) {
    apply(&db, 1, vec![put(&uri(1, NOTE, "before"), 1, r#"{"n":1}"#)]).await;
    assert_eq!((triggers(&db).await, all(&db).await.len()), (0, 0), "without subscriptions nothing is paid");
    show(&db, &[NOTE]).await;
    show(&db, &[NOTE]).await;
    assert_eq!(triggers(&db).await, 3);
    apply(&db, 2, vec![put(&uri(1, NOTE, "a"), 2, r#"{"n":2}"#), put(&uri(1, LIKE, "l"), 2, "{}")]).await;
    assert_eq!(shown(&all(&db).await), [("a", Action::Created, Some(r#"{"n":2}"#))]);
    show(&db, &[LIKE, NOTE]).await;
    apply(&db, 3, vec![put(&uri(1, LIKE, "m"), 3, "{}")]).await;
    let likes = record_changes::page(&db, 0, Some(&nsid(LIKE))).await.unwrap().unwrap();
    assert_eq!(shown(&likes.changes), [("m", Action::Created, Some("{}"))]);
    assert_eq!(likes.until, record_changes::last_seq(&db).await.unwrap());
    show(&db, &[]).await;
    apply(&db, 4, vec![put(&uri(1, NOTE, "b"), 4, "{}")]).await;
    assert_eq!((triggers(&db).await, all(&db).await.len()), (0, 2));
}

async fn every_way_to_change_a_record_is_noted(db: TestDb) {
    show(&db, &[NOTE]).await;
    let note = |rkey: &str| uri(1, NOTE, rkey);
    apply(&db, 1, vec![put(&note("a"), 1, r#"{"n":1}"#)]).await;
    apply(&db, 2, vec![put(&note("a"), 2, r#"{"n":2}"#)]).await;
    apply(&db, 3, vec![put(&note("a"), 1, r#"{"n":0}"#)]).await;
    apply(&db, 4, vec![take(&note("a"), 3)]).await;
    apply(&db, 5, vec![take(&note("never"), 3)]).await;
    let expected = [
        ("a", Action::Created, Some(r#"{"n":1}"#)),
        ("a", Action::Updated, Some(r#"{"n":2}"#)),
        ("a", Action::Deleted, None),
    ];
    assert_eq!(shown(&all(&db).await), expected);

    apply(&db, 6, vec![put(&note("b"), 4, r#"{"n":4}"#)]).await;
    let decision = Decision {
        subject: Subject::Record(note("b")),
        action: moderation::Action::Takedown,
        reason: "spam".to_owned(),
        by: "did:plc:moderator".to_owned(),
        expires_at: None,
        replaces: None,
    };
    moderation::moderate(&db, &decision, Timestamp(7)).await.unwrap();
    let taken_down = [("b", Action::Created, None), ("b", Action::Deleted, None)];
    assert_eq!(shown(&all(&db).await[3..]), taken_down, "its text is not read any more");

    apply(&db, 8, vec![put(&uri(2, NOTE, "c"), 5, r#"{"n":5}"#)]).await;
    set_status(&db, 2, AccountStatus::Suspended).await;
    assert_eq!(shown(&all(&db).await[5..]), [("c", Action::Created, None)]);
    set_status(&db, 2, AccountStatus::Active).await;
    assert_eq!(shown(&all(&db).await[5..]), [("c", Action::Created, Some(r#"{"n":5}"#))]);
}

async fn a_failed_transaction_leaves_no_change(db: TestDb) {
    show(&db, &[NOTE]).await;
    apply(&db, 1, vec![put(&uri(1, NOTE, "a"), 1, "{}")]).await;
    let records = db.ids().parts()[0].records();
    let delete = || sqlx::AssertSqlSafe(format!("DELETE FROM {records}"));
    match &*db {
        Db::Sqlite(sqlite) => {
            let mut tx = sqlite.writer.begin().await.unwrap();
            sqlx::query(delete()).execute(&mut *tx).await.unwrap();
            tx.rollback().await.unwrap();
        }
        Db::Postgres(postgres) => {
            let mut tx = postgres.writer().begin().await.unwrap();
            sqlx::query(delete()).execute(&mut *tx).await.unwrap();
            tx.rollback().await.unwrap();
        }
    }
    assert_eq!(all(&db).await.len(), 1);
}

async fn numbers_are_in_the_order_of_the_commits(db: TestDb) {
    show(&db, &[NOTE]).await;
    let writer = |account: u32| {
        let db = &db;
        async move {
            for n in 1..30_u64 {
                apply(db, 1, vec![put(&uri(account, NOTE, &format!("k{n}")), n, "{}")]).await;
            }
        }
    };
    let reader = async {
        let (mut seen, mut after) = (0, 0);
        while seen < 4 * 29 {
            let Some(page) = record_changes::page(&db, after, None).await.unwrap() else {
                tokio::task::yield_now().await;
                continue;
            };
            assert!(page.changes.iter().map(|one| one.seq).is_sorted());
            seen += page.changes.len();
            after = page.until;
        }
    };
    tokio::join!(writer(1), writer(2), writer(3), writer(4), reader);
    let numbers: Vec<i64> = all(&db).await.iter().map(|one| one.seq).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
}

async fn the_window_is_bounded_by_time_and_bytes(db: TestDb) {
    show(&db, &[NOTE]).await;
    let text = format!(r#"{{"text":"{}"}}"#, "x".repeat(900));
    for n in 1..=10_u64 {
        apply(&db, 1, vec![put(&uri(1, NOTE, &format!("k{n}")), n, &text)]).await;
    }
    let first = all(&db).await[0].seq;
    let window = |since: i64, max_bytes: i64| Window { since: Timestamp(since), max_bytes };
    assert_eq!(record_changes::prune(&db, window(0, 1 << 20), 100).await.unwrap(), 0);
    let deleted = record_changes::prune(&db, window(0, 5_000), 100).await.unwrap();
    let left = all(&db).await.len() as u64;
    assert_eq!((deleted + left, (4..=5).contains(&left)), (10, true), "{left} are left");
    assert_eq!(record_changes::prune(&db, window(i64::MAX, 1 << 20), 100).await.unwrap(), left - 1);
    let bounds = record_changes::bounds(&db).await.unwrap();
    assert_eq!(bounds, Some((first + 9, first + 9)), "the last number stays");
}

async fn live_queries_have_changes_noted_without_records(db: TestDb) {
    let day = 86_400;
    let now = Timestamp(0).plus_seconds(100 * day);
    let follow = async |now: Timestamp| {
        record_changes::follow(&db, record_changes::watched_since(now)).await.unwrap();
    };
    record_changes::watch(&db, [nsid(LIKE)].iter(), now).await.unwrap();
    follow(now).await;
    apply(&db, 1, vec![put(&uri(1, LIKE, "l"), 1, "{}"), put(&uri(1, NOTE, "n"), 1, "{}")]).await;
    assert_eq!(shown(&all(&db).await), [("l", Action::Created, None)]);
    show(&db, &[NOTE]).await;
    follow(now).await;
    apply(&db, 2, vec![put(&uri(1, LIKE, "m"), 2, "{}"), put(&uri(1, NOTE, "o"), 2, "{}")]).await;
    let mut both = all(&db).await.split_off(1);
    both.sort_by(|a, b| a.rkey.cmp(&b.rkey));
    assert_eq!(shown(&both), [("m", Action::Created, None), ("o", Action::Created, Some("{}"))]);

    // A use that is renewed counts for another day.
    record_changes::watch(&db, [nsid(LIKE)].iter(), now.plus_seconds(day - 1)).await.unwrap();
    record_changes::forget(&db, now.plus_seconds(day + 1)).await.unwrap();
    assert_eq!(count(&db, "watched_collections").await, 1);
    record_changes::forget(&db, now.plus_seconds(3 * day)).await.unwrap();
    assert_eq!(count(&db, "watched_collections").await, 0);
    show(&db, &[]).await;
    assert_eq!(triggers(&db).await, 0);
}

async fn triggers_are_replaced_only_if_they_differ(db: TestDb) {
    let made = async |db: &Db| -> i64 {
        let version = "PRAGMA schema_version";
        let newest =
            "SELECT coalesce(max(oid::bigint), 0) FROM pg_trigger WHERE tgname LIKE 'record_changes%'";
        match db {
            Db::Sqlite(db) => sqlx::query_scalar(version).fetch_one(&db.reader).await.unwrap(),
            Db::Postgres(of) if of.ids.in_shards() => count(db, "followed_collections").await,
            Db::Postgres(db) => sqlx::query_scalar(newest).fetch_one(&db.pool).await.unwrap(),
        }
    };
    show(&db, &[NOTE]).await;
    let before = made(&db).await;
    show(&db, &[NOTE]).await;
    assert_eq!(made(&db).await, before, "the same collections");
    show(&db, &[NOTE, LIKE]).await;
    assert_ne!(made(&db).await, before, "another one");
}
