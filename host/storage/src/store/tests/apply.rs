//! Applying batches: the order of changes to a record, the rows, and the cursor.

use crate::store::testing::TestDb;
use serde_json::json;

use super::fixtures::*;

use crate::store::Db;
use crate::store::backfill::IndexedRecords;
use crate::store::index::{
    self, AccountStatus, ApplyReport, Batch, Change, CheckedRecord, RevLimit, StreamCursor, prune_tombstones,
};
use crate::store::{cursors, records};
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Cid;

fn counted(inserted: u64, updated: u64, deleted: u64, stale: u64) -> ApplyReport {
    ApplyReport { inserted, updated, deleted, stale, ..ApplyReport::default() }
}

on_both!(
    a_newer_rev_overwrites_and_keeps_the_first_time,
    an_older_or_equal_rev_never_overwrites,
    a_deletion_is_not_undone_by_an_older_write,
    a_rev_of_the_future_wins_only_until_the_next_commit,
    a_clock_that_went_back_forgets_no_revs,
    only_the_streams_own_commits_say_that_the_clock_went_back,
    tombstones_are_pruned_by_age,
    the_newest_of_a_key_wins_within_a_batch,
    large_batches_mix_everything,
    references_follow_their_record,
    cids_are_stored_unchanged,
    the_cursor_is_committed_with_its_records,
    a_batch_is_all_or_nothing,
    an_empty_batch_succeeds,
    the_stored_text_is_returned
);

async fn a_newer_rev_overwrites_and_keeps_the_first_time(db: TestDb) {
    let a = uri(1, NOTE, "a");
    assert_eq!(apply(&db, 10, vec![put(&a, 1, r#"{"n":1}"#)]).await, counted(1, 0, 0, 0));
    assert_eq!(apply(&db, 20, vec![put(&a, 2, r#"{"n":2}"#)]).await, counted(0, 1, 0, 0));
    let row = records::get_full(&db, &a).await.unwrap().unwrap();
    assert_eq!(json(&row.row), json!({"n": 2}));
    assert_eq!((row.row.indexed_at, row.updated_at), (Timestamp(10), Timestamp(20)));
}

async fn an_older_or_equal_rev_never_overwrites(db: TestDb) {
    let a = uri(1, NOTE, "a");
    apply(&db, 10, vec![put(&a, 5, r#"{"n":5}"#)]).await;
    assert_eq!(apply(&db, 20, vec![put(&a, 4, r#"{"n":4}"#)]).await, counted(0, 0, 0, 1));
    assert_eq!(apply(&db, 20, vec![put(&a, 5, r#"{"n":0}"#)]).await, counted(0, 0, 0, 1));
    assert_eq!(apply(&db, 20, vec![take(&a, 4)]).await, counted(0, 0, 0, 1));
    assert_eq!(apply(&db, 20, vec![take(&a, 5)]).await, counted(0, 0, 0, 1));
    assert_eq!(get(&db, &a).await, Some(json!({"n": 5})));
    let row = records::get_full(&db, &a).await.unwrap().unwrap();
    assert_eq!(row.updated_at, Timestamp(10));
}

async fn a_deletion_is_not_undone_by_an_older_write(db: TestDb) {
    let (a, b) = (uri(1, NOTE, "a"), uri(1, NOTE, "b"));
    apply(&db, 10, vec![put(&a, 1, "{}")]).await;
    // `b` was never indexed, but its deletion is still recorded.
    assert_eq!(apply(&db, 20, vec![take(&a, 5), take(&b, 5)]).await, counted(0, 0, 1, 0));
    let late = vec![put(&a, 4, "{}"), put(&b, 5, "{}")];
    assert_eq!(apply(&db, 30, late).await, counted(0, 0, 0, 2));
    assert_eq!(list(&db, NOTE).await, Vec::<String>::new());
    assert_eq!(apply(&db, 30, vec![take(&a, 4)]).await, counted(0, 0, 0, 1));
    // A later write creates a new record.
    assert_eq!(apply(&db, 40, vec![put(&a, 6, "{}"), put(&b, 6, "{}")]).await, counted(2, 0, 0, 0));
    assert_eq!(apply(&db, 50, vec![take(&a, 5)]).await, counted(0, 0, 0, 1));
    assert_eq!(list(&db, NOTE).await.len(), 2);
}

async fn a_rev_of_the_future_wins_only_until_the_next_commit(db: TestDb) {
    const NOW: i64 = 1_700_000_000_000_000;
    const YEARS: u64 = 10 * 365 * 86_400 * 1_000_000;
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|rkey| uri(1, NOTE, rkey));
    let other = uri(2, NOTE, "a");
    let linked = put_with_refs(&a, YEARS, "{}", &["at://old"]);
    let future = vec![linked, put(&b, YEARS, "{}"), take(&c, YEARS), put(&other, 3, "{}")];
    assert_eq!(apply(&db, NOW, future).await, counted(3, 0, 0, 0));
    let accounts = vec![account(2, AccountStatus::Deleted, rev(YEARS))];
    index::apply(&db, &Batch { accounts, now: Timestamp(NOW), ..Batch::default() }).await.unwrap();

    let changes =
        [put(&a, 10, "{}"), take(&b, 10), put(&c, 10, "{}"), put(&other, 10, "{}"), put(&d, 10, "{}")];
    assert_eq!(apply(&db, NOW, changes.into()).await, counted(3, 1, 1, 0));
    assert_eq!(
        (list(&db, NOTE).await.len(), refs(&db).await),
        (3, Vec::new()),
        "the second account is hidden"
    );
    // From now on the order is that of the revs again.
    let older = vec![put(&a, 9, "{}"), put(&b, 9, "{}"), take(&c, 9), put(&other, 9, "{}"), take(&d, 9)];
    assert_eq!(apply(&db, NOW, older).await, counted(0, 0, 0, 5));
}

async fn a_clock_that_went_back_forgets_no_revs(db: TestDb) {
    const NOW: i64 = 1_700_000_000_000_000;
    const DAY: u64 = 86_400_000_000;
    let a = uri(1, NOTE, "a");
    let now = Timestamp(NOW).plus_seconds(86_400);
    let live = Batch { changes: vec![put(&a, DAY, "{}")], cursor: Some(cursor(1)), now, ..Batch::default() };
    index::apply(&db, &live).await.unwrap();
    assert_eq!(apply(&db, NOW, vec![put(&a, 10, "{}"), take(&a, 11)]).await, counted(0, 0, 0, 2));
    // Lists of PDSs don't correct such a row either.
    let limit = RevLimit::read(&db, Timestamp(NOW)).await.unwrap();
    let rows = IndexedRecords::open(&db, &a.did, &a.collection, Timestamp(NOW)).await.unwrap();
    let row = rows.with_keys(&["a"]).await.unwrap().remove(0);
    assert_eq!((row.rev, limit.permits(rev(2 * DAY).as_u64())), (rev(DAY).as_u64(), false));
}

async fn only_the_streams_own_commits_say_that_the_clock_went_back(db: TestDb) {
    const NOW: i64 = 1_700_000_000_000_000;
    const DAY: u64 = 86_400_000_000;
    let a = uri(1, NOTE, "a");
    let ahead = Timestamp(NOW).plus_seconds(10 * 86_400);
    db.check_writable(ahead).await.unwrap();
    let other = StreamCursor { source: "unused".into(), ..cursor(1) };
    let changes = vec![put(&a, DAY, "{}")];
    index::apply(&db, &Batch { changes, cursor: Some(other), now: ahead, ..Batch::default() }).await.unwrap();
    let limit = RevLimit::read(&db, Timestamp(NOW)).await.unwrap();
    assert!(!limit.permits(rev(DAY).as_u64()) && limit.permits(rev(10).as_u64()));
    assert_eq!(apply(&db, NOW, vec![put(&a, 10, "{}")]).await, counted(0, 1, 0, 0));
}

async fn tombstones_are_pruned_by_age(db: TestDb) {
    for n in 0..5 {
        apply(&db, i64::from(n) * 10, vec![take(&uri(n, NOTE, "a"), 5)]).await;
    }
    assert_eq!(prune_tombstones(&db, Timestamp(30), 2).await.unwrap(), 2);
    assert_eq!(prune_tombstones(&db, Timestamp(30), 10).await.unwrap(), 1);
    assert_eq!(prune_tombstones(&db, Timestamp(30), 10).await.unwrap(), 0);
    assert_eq!(apply(&db, 60, vec![put(&uri(0, NOTE, "a"), 1, "{}")]).await, counted(1, 0, 0, 0));
    assert_eq!(apply(&db, 60, vec![put(&uri(4, NOTE, "a"), 1, "{}")]).await, counted(0, 0, 0, 1));
}

async fn the_newest_of_a_key_wins_within_a_batch(db: TestDb) {
    let (a, b, c) = (uri(1, NOTE, "a"), uri(1, NOTE, "b"), uri(1, NOTE, "c"));
    let batch = vec![
        put(&a, 1, r#"{"n":1}"#),
        put(&a, 3, r#"{"n":3}"#),
        put(&a, 2, r#"{"n":2}"#),
        put(&b, 1, "{}"),
        take(&b, 2),
        take(&c, 1),
        put(&c, 2, r#"{"n":2}"#),
        put(&c, 2, r#"{"n":0}"#),
    ];
    assert_eq!(apply(&db, 10, batch).await, counted(2, 0, 0, 5));
    assert_eq!(get(&db, &a).await, Some(json!({"n": 3})));
    assert_eq!(get(&db, &b).await, None);
    assert_eq!(get(&db, &c).await, Some(json!({"n": 2})));
}

async fn large_batches_mix_everything(db: TestDb) {
    let key = |n: u32| uri(n % 7, if n.is_multiple_of(2) { NOTE } else { LIKE }, &format!("r{n}"));
    let all = |n: u64| (0..1_000).map(|k| put(&key(k), n, &format!(r#"{{"k":{k},"n":{n}}}"#))).collect();
    assert_eq!(apply(&db, 10, all(1)).await, counted(1_000, 0, 0, 0));
    assert_eq!(apply(&db, 20, all(1)).await, counted(0, 0, 0, 1_000));
    assert_eq!(apply(&db, 30, all(2)).await, counted(0, 1_000, 0, 0));
    // A third is new, a third newer, a third older, and some are deleted.
    let mut batch: Vec<Change> = (0..300).map(|k| put(&key(1_000 + k), 1, "{}")).collect();
    batch.extend((0..300).map(|k| put(&key(k), 3, r#"{"n":3}"#)));
    batch.extend((300..600).map(|k| put(&key(k), 1, r#"{"n":1}"#)));
    batch.extend((600..900).map(|k| take(&key(k), 3)));
    assert_eq!(apply(&db, 40, batch).await, counted(300, 300, 300, 300));
    assert_eq!(list(&db, NOTE).await.len() + list(&db, LIKE).await.len(), 1_000);
    assert_eq!(get(&db, &key(0)).await, Some(json!({"n": 3})));
    assert_eq!(get(&db, &key(300)).await, Some(json!({"k": 300, "n": 2})));
    assert_eq!(get(&db, &key(600)).await, None);
}

async fn references_follow_their_record(db: TestDb) {
    let (a, b) = (uri(1, LIKE, "a"), uri(1, LIKE, "b"));
    let long = format!("at://{}", "x".repeat(3_000));
    apply(
        &db,
        10,
        vec![
            put_with_refs(&a, 1, "{}", &["at://x", "at://y", &long]),
            put_with_refs(&b, 1, "{}", &["at://x", "at://\"quoted\""]),
        ],
    )
    .await;
    let pair = |t: &str, r: &str| (t.to_owned(), r.to_owned());
    assert_eq!(
        refs(&db).await,
        [pair("at://\"quoted\"", "b"), pair("at://x", "a"), pair("at://x", "b"), pair("at://y", "a"),]
    );
    apply(&db, 20, vec![put_with_refs(&a, 2, "{}", &["at://y", "at://z"])]).await;
    // A stale change leaves references alone.
    apply(&db, 20, vec![put_with_refs(&a, 1, "{}", &["at://w"])]).await;
    apply(&db, 30, vec![take(&b, 2)]).await;
    assert_eq!(refs(&db).await, [pair("at://y", "a"), pair("at://z", "a")]);
    assert!(records::delete(&db, &a).await.unwrap());
    assert_eq!(refs(&db).await, []);
}

async fn cids_are_stored_unchanged(db: TestDb) {
    let a = uri(1, NOTE, "a");
    let text = "bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a";
    let cid: Cid = text.parse().unwrap();
    let mut change = put(&a, 1, "{}");
    change.record =
        change.record.map(|record| CheckedRecord { cid: Some(cid), cid_verified: true, ..record });
    apply(&db, 10, vec![change, put(&uri(1, NOTE, "b"), 1, "{}")]).await;
    let row = records::get_full(&db, &a).await.unwrap().unwrap();
    assert_eq!((row.row.cid, row.cid_verified), (Some(cid), true));
    assert_eq!(row.row.cid.unwrap().to_string(), text);
    apply(&db, 20, vec![put(&a, 2, "{}")]).await;
    let row = records::get_full(&db, &a).await.unwrap().unwrap();
    assert_eq!((row.row.cid, row.cid_verified), (None, false));
}

async fn the_cursor_is_committed_with_its_records(db: TestDb) {
    assert_eq!(cursors::get(&db, "jetstream").await.unwrap(), None);
    let batch =
        |changes, n| Batch { changes, cursor: Some(cursor(n)), now: Timestamp(1), ..Batch::default() };
    index::apply(&db, &batch(vec![put(&uri(1, NOTE, "a"), 1, "{}")], 100)).await.unwrap();
    assert_eq!(cursors::get(&db, "jetstream").await.unwrap(), Some(100));
    // A batch may have only a cursor, when the stream had no events to index.
    index::apply(&db, &batch(vec![], 200)).await.unwrap();
    assert_eq!(cursors::get(&db, "jetstream").await.unwrap(), Some(200));
    cursors::clear(&db, "jetstream").await.unwrap();
    assert_eq!(cursors::get(&db, "jetstream").await.unwrap(), None);
}

async fn a_batch_is_all_or_nothing(db: TestDb) {
    // The last statement of the transaction fails, because the table of cursors does not exist.
    let sql = "DROP TABLE stream_cursors";
    match &*db {
        Db::Sqlite(db) => {
            sqlx::query(sql).execute(&db.writer).await.unwrap();
        }
        Db::Postgres(db) => {
            sqlx::query(sql).execute(&db.pool).await.unwrap();
        }
    }
    let changes = vec![put_with_refs(&uri(1, NOTE, "a"), 1, "{}", &["at://x"]), take(&uri(2, NOTE, "b"), 1)];
    let batch = Batch { changes, cursor: Some(cursor(1)), now: Timestamp(1), ..Batch::default() };
    assert!(index::apply(&db, &batch).await.is_err());
    assert_eq!(list(&db, NOTE).await, Vec::<String>::new());
    assert_eq!(refs(&db).await, []);
    // The same changes apply as if nothing had happened.
    let batch = Batch { cursor: None, ..batch };
    assert_eq!(index::apply(&db, &batch).await.unwrap(), counted(1, 0, 0, 0));
}

async fn an_empty_batch_succeeds(db: TestDb) {
    assert_eq!(apply(&db, 1, vec![]).await, ApplyReport::default());
}

async fn the_stored_text_is_returned(db: TestDb) {
    let a = uri(1, NOTE, "a");
    let text = r#"{"text":"ünïcödé \"quoted\" \\ 🎉","n":9007199254740993,"deep":{"a":[[],{}]},"z":null}"#;
    apply(&db, 1, vec![put(&a, 1, text)]).await;
    assert_eq!(get(&db, &a).await, Some(serde_json::from_str(text).unwrap()));
    assert_eq!(records::get(&db, &a).await.unwrap().unwrap().record, text);
}

/// Another host writes a batch with the same repos: without a common lock, one could insert a record while the other
/// writes its tombstone.
#[tokio::test]
async fn batches_with_the_same_repos_wait_for_each_other() {
    let test_db = crate::store::testing::postgres().await;
    let Db::Postgres(postgres) = Db::open(&test_db.url, 4).await.unwrap() else { panic!("it is PostgreSQL") };
    let mut other = postgres.pool.begin().await.unwrap();
    let lock = "SELECT pg_advisory_xact_lock($1, n) FROM generate_series(0, 63) AS n";
    sqlx::query(lock).bind(0x7265_706f).execute(&mut *other).await.unwrap();
    let db = (*test_db).clone();
    let batch = tokio::spawn(async move { apply(&db, 10, vec![put(&uri(1, NOTE, "a"), 1, "{}")]).await });
    let waiting = "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database \
                   WHERE l.locktype = 'advisory' AND NOT l.granted AND d.datname = current_database()";
    while sqlx::query_scalar::<_, i64>(waiting).fetch_one(&postgres.pool).await.unwrap() == 0 {
        assert!(!batch.is_finished(), "it does not wait");
        tokio::task::yield_now().await;
    }
    other.rollback().await.unwrap();
    assert_eq!(batch.await.unwrap().inserted, 1);
}
