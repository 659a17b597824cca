use crate::store::testing::TestDb;
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::record::MAX_RECORD_BYTES;
use belvedere_protocol::spaces::SetHash;
use belvedere_protocol::spaces::oplog::{Change, Position};

use super::fixtures::*;
use crate::store::on;
use crate::store::spaces::writers::{self, Tracked};
use crate::store::spaces::writes::{MAX_RECORDS, MAX_WRITES};
use crate::store::spaces::{oplog, repos};

on_both!(
    a_batch_is_one_commit,
    an_update_keeps_the_time_and_a_deletion_leaves_the_log,
    preconditions_hold_or_nothing_is_written,
    a_batch_may_require_the_revision_of_the_space,
    batches_and_records_are_limited,
    the_number_of_records_is_limited,
    records_may_have_any_text,
    batches_at_once_come_one_after_the_other,
    only_one_of_two_creations_succeeds,
    only_writers_are_listed,
    pages_of_the_log_lose_nothing
);

async fn a_batch_is_one_commit(db: TestDb) {
    let space = create(&db, "main").await;
    let (a, b) = (note("a"), note("b"));
    let applied = apply(&db, space, 2, 1_000, &[put(&a, 1), put(&b, 2), put(&a, 3)]).await.unwrap();
    let rev = applied.rev.unwrap();
    assert_eq!(rev.timestamp_micros(), 1_000);
    let [one, two, three] = [1, 2, 3].map(|n| numbered(n).cid);
    let changes =
        [Change::Create { cid: one }, Change::Create { cid: two }, Change::Update { cid: three, prev: one }];
    assert_eq!(applied.changes, changes.map(Some));
    assert_eq!(applied.tracked, Some(Tracked { space_rev: rev, previous: None }));
    let mut hash = SetHash::default();
    hash.add(&b, two);
    hash.add(&a, three);
    let state = repos::state(&db, space, &did(2)).await.unwrap().unwrap();
    assert_eq!((state.rev, &state.hash, state.records), (rev, &hash, 2));
    assert_eq!(applied.hash, hash.digest());
    let stored = records::get(&db, space, &did(2), &a).await.unwrap().unwrap();
    assert_eq!((stored.cid, stored.text.unwrap().as_str(), stored.rev), (three, r#"{"n":3}"#, rev));
    assert!(records::get(&db, space, &did(3), &a).await.unwrap().is_none(), "another author");
    let page = oplog::page(&db, space, &did(2), None, 9, true).await.unwrap().unwrap();
    let logged: Vec<_> = page.ops.iter().map(|logged| (logged.op.position.index, logged.op.change)).collect();
    assert_eq!(logged, [(0, changes[0]), (1, changes[1]), (2, changes[2])]);
    let texts: Vec<_> = page.ops.iter().map(|logged| logged.record.as_deref()).collect();
    assert_eq!(texts, [None, Some(r#"{"n":2}"#), Some(r#"{"n":3}"#)], "only current records");
    assert!(!page.has_more && page.state == state);
}

async fn an_update_keeps_the_time_and_a_deletion_leaves_the_log(db: TestDb) {
    let space = create(&db, "main").await;
    let a = note("a");
    apply(&db, space, 2, 10, &[put(&a, 1)]).await.unwrap();
    let updated = apply(&db, space, 2, 20, &[put(&a, 2)]).await.unwrap();
    let stored = records::get(&db, space, &did(2), &a).await.unwrap().unwrap();
    assert_eq!((stored.indexed_at, Some(stored.rev)), (Timestamp(10), updated.rev));
    // The clock stands still.
    let deleted = apply(&db, space, 2, 20, &[take(&a)]).await.unwrap();
    assert_eq!(deleted.rev.unwrap().timestamp_micros(), 21);
    assert_eq!(deleted.changes, [Some(Change::Delete { prev: numbered(2).cid })]);
    assert_eq!(deleted.hash, SetHash::default().digest());
    let tracked = deleted.tracked.unwrap();
    assert_eq!(tracked.previous, updated.tracked.map(|tracked| tracked.space_rev));
    // Deleting nothing is no commit.
    let nothing = apply(&db, space, 2, 30, &[take(&a)]).await.unwrap();
    assert_eq!((nothing.rev, nothing.changes, nothing.tracked), (deleted.rev, vec![None], None));
    assert_eq!(space::get(&db, &uri("main")).await.unwrap().unwrap().rev, Some(tracked.space_rev));
}

async fn preconditions_hold_or_nothing_is_written(db: TestDb) {
    use Precondition::{Absent, Present, Version};
    let space = create(&db, "main").await;
    let (a, b) = (note("a"), note("b"));
    apply(&db, space, 2, 10, &[put(&a, 1)]).await.unwrap();
    let before = repos::state(&db, space, &did(2)).await.unwrap();
    let [one, two] = [1, 2].map(|n| numbered(n).cid);
    for (write, refused) in [
        (requiring(put(&a, 2), Absent), Refused::Exists(1)),
        (requiring(put(&note("c"), 2), Present), Refused::NotFound(1)),
        (requiring(take(&note("c")), Present), Refused::NotFound(1)),
        (requiring(put(&note("c"), 2), Version(one)), Refused::NotFound(1)),
        (requiring(put(&a, 2), Version(two)), Refused::OtherVersion(1)),
        (requiring(take(&a), Version(two)), Refused::OtherVersion(1)),
        // Writes before it in the batch count.
        (requiring(put(&b, 2), Absent), Refused::Exists(1)),
    ] {
        assert_eq!(apply(&db, space, 2, 20, &[put(&b, 1), write]).await, Err(refused));
    }
    assert_eq!(repos::state(&db, space, &did(2)).await.unwrap(), before);
    assert_eq!((count(&db, "space_records").await, count(&db, "space_ops").await), (1, 1));
    for write in [
        requiring(put(&b, 2), Absent),
        requiring(put(&b, 1), Present),
        requiring(put(&a, 2), Version(one)),
        requiring(take(&a), Version(two)),
    ] {
        apply(&db, space, 2, 20, &[write]).await.unwrap();
    }
}

async fn a_batch_may_require_the_revision_of_the_space(db: TestDb) {
    let space = create(&db, "main").await;
    let first = apply(&db, space, 2, 10, &[put(&note("a"), 1)]).await.unwrap();
    apply(&db, space, 3, 20, &[put(&note("a"), 1)]).await.unwrap();
    let author = did(2);
    let writes = [put(&note("b"), 1)];
    let batch = |swap_commit| Batch {
        space,
        author: &author,
        writes: &writes,
        swap_commit: Some(swap_commit),
        is_writer: true,
        now: Timestamp(30),
    };
    let old = first.tracked.unwrap().space_rev.to_string();
    for wrong in [old.as_str(), "", "x", "a\0b"] {
        assert_eq!(writes::apply(&db, &batch(wrong)).await.unwrap(), Err(Refused::OtherCommit));
    }
    let now = space::get(&db, &uri("main")).await.unwrap().unwrap().rev.unwrap().to_string();
    assert!(writes::apply(&db, &batch(&now)).await.unwrap().is_ok());
}

async fn batches_and_records_are_limited(db: TestDb) {
    let space = create(&db, "main").await;
    let paths: Vec<_> = (0..=MAX_WRITES).map(|n| note(&format!("r{n}"))).collect();
    let batch: Vec<_> = paths.iter().map(|path| put(path, 1)).collect();
    assert_eq!(apply(&db, space, 2, 1, &batch).await, Err(Refused::TooManyWrites));
    assert_eq!(apply(&db, space, 2, 1, &batch[1..]).await.unwrap().changes.len(), MAX_WRITES);
    let page = oplog::page(&db, space, &did(2), None, 1_000, false).await.unwrap().unwrap();
    assert_eq!(page.ops.len(), MAX_WRITES);
    let mut large = put(&note("l"), 1);
    large.record.as_mut().unwrap().text = "x".repeat(MAX_RECORD_BYTES + 1);
    assert_eq!(apply(&db, space, 2, 1, &[take(&note("y")), large]).await, Err(Refused::TooLarge(1)));
    let deletions: Vec<_> = paths[1..].iter().map(take).collect();
    assert_eq!(apply(&db, space, 2, 1, &deletions).await.unwrap().hash, SetHash::default().digest());
    assert_eq!(count(&db, "space_records").await, 0);
    assert_eq!(apply(&db, SpaceId(99), 2, 1, &[put(&note("a"), 1)]).await, Err(Refused::NoSpace));
}

async fn the_number_of_records_is_limited(db: TestDb) {
    let space = create(&db, "main").await;
    apply(&db, space, 2, 1, &[put(&note("a"), 1), put(&note("b"), 1)]).await.unwrap();
    let set = async |records: u64| {
        let sql = "UPDATE space_repos SET records = $1";
        on!(&*db, writer, |pool| sqlx::query(sql).bind(records as i64).execute(pool).await.map(drop))
            .unwrap();
    };
    set(MAX_RECORDS - 1).await;
    let two = [put(&note("c"), 1), put(&note("d"), 1)];
    assert_eq!(apply(&db, space, 2, 2, &two).await, Err(Refused::TooManyRecords));
    apply(&db, space, 2, 3, &two[..1]).await.unwrap();
    assert_eq!(apply(&db, space, 2, 4, &two[1..]).await, Err(Refused::TooManyRecords));
    // One goes and another comes.
    apply(&db, space, 2, 5, &[take(&note("c")), put(&note("d"), 1)]).await.unwrap();
    // A repo from another host may have more: it shrinks, and does not grow.
    set(MAX_RECORDS + 5).await;
    apply(&db, space, 2, 6, &[put(&note("d"), 2), take(&note("a"))]).await.unwrap();
    assert_eq!(apply(&db, space, 2, 7, &two[..1]).await, Err(Refused::TooManyRecords));
    apply(&db, space, 3, 8, &two).await.unwrap();
}

async fn records_may_have_any_text(db: TestDb) {
    let space = create(&db, "main").await;
    for text in
        [r#"{"t":"\u0000"}"#, "{\"t\":\"e\u{301}\u{1F469}\u{FFFF}\u{10FFFF}\"}", r#"{"t":"' \" \\ \n"}"#]
    {
        let write = Write { record: Some(new_record(text)), ..put(&note("a"), 1) };
        apply(&db, space, 2, 1, &[write]).await.unwrap();
        let stored = records::get(&db, space, &did(2), &note("a")).await.unwrap().unwrap();
        assert_eq!(stored.text.as_deref(), Some(text));
    }
    // A text that is not JSON comes from no caller, and is no server error.
    let mut write = put(&note("b"), 1);
    write.record.as_mut().unwrap().text = "a\0b".to_owned();
    let author = did(2);
    let batch = Batch {
        space,
        author: &author,
        writes: &[put(&note("c"), 1), write],
        swap_commit: None,
        is_writer: true,
        now: Timestamp(9),
    };
    let stored = writes::apply(&db, &batch).await;
    assert!(matches!(stored, Ok(Ok(_)) | Err(crate::store::StoreError::BadValue(_))), "{stored:?}");
    let is_stored = stored.is_ok();
    assert_eq!(
        records::get(&db, space, &author, &note("c")).await.unwrap().is_some(),
        is_stored,
        "all or nothing"
    );
}

async fn batches_at_once_come_one_after_the_other(db: TestDb) {
    let space = create(&db, "main").await;
    let paths: Vec<_> = (0..10).map(|n| note(&n.to_string())).collect();
    let batches = (0..10_u32).map(|n| {
        let (db, paths) = (Db::clone(&db), paths.clone());
        tokio::spawn(async move {
            // Two authors, all at the same time; every batch writes every record.
            let batch: Vec<_> = paths.iter().map(|path| put(path, u64::from(n))).collect();
            apply(&db, space, 2 + n % 2, 5, &batch).await.unwrap()
        })
    });
    let applied = futures_util::future::join_all(batches).await;
    let mut tracked: Vec<_> =
        applied.iter().map(|applied| applied.as_ref().unwrap().tracked.unwrap()).collect();
    tracked.sort_by_key(|tracked| tracked.space_rev);
    for pair in tracked.windows(2) {
        assert_eq!(pair[1].previous, Some(pair[0].space_rev), "no fork");
    }
    for author in [2, 3] {
        let snapshot = repos::snapshot(&db, space, &did(author)).await.unwrap().unwrap();
        let mut hash = SetHash::default();
        snapshot.records.iter().for_each(|(path, cid)| hash.add(path, *cid));
        assert_eq!((snapshot.state.hash, snapshot.state.records), (hash, 10));
        let page = oplog::page(&db, space, &did(author), None, 99, false).await.unwrap().unwrap();
        assert_eq!(page.ops.len(), 50);
    }
}

async fn only_one_of_two_creations_succeeds(db: TestDb) {
    let space = create(&db, "main").await;
    let create = (0..8).map(|n| {
        let db = Db::clone(&db);
        tokio::spawn(async move {
            apply(&db, space, 2, 5, &[requiring(put(&note("a"), n), Precondition::Absent)]).await.is_ok()
        })
    });
    let created = futures_util::future::join_all(create).await;
    assert_eq!(created.into_iter().filter(|ok| *ok.as_ref().unwrap()).count(), 1);
}

async fn only_writers_are_listed(db: TestDb) {
    let space = create(&db, "main").await;
    let author = did(2);
    let writes = [put(&note("a"), 1)];
    let batch = Batch {
        space,
        author: &author,
        writes: &writes,
        swap_commit: None,
        is_writer: false,
        now: Timestamp(5),
    };
    let applied = writes::apply(&db, &batch).await.unwrap().unwrap();
    assert!(applied.tracked.is_none() && applied.rev.is_some());
    assert!(writers::page(&db, space, "", 9).await.unwrap().is_empty());
    assert_eq!(space::get(&db, &uri("main")).await.unwrap().unwrap().rev, None);
    apply(&db, space, 2, 6, &[put(&note("b"), 1)]).await.unwrap();
    assert!(writers::get(&db, space, &author).await.unwrap().is_some());
}

async fn pages_of_the_log_lose_nothing(db: TestDb) {
    let space = create(&db, "main").await;
    for now in 1..4 {
        let batch: Vec<_> = (0..5).map(|n| put(&note(&n.to_string()), now as u64)).collect();
        apply(&db, space, 2, now, &batch).await.unwrap();
    }
    let whole = oplog::page(&db, space, &did(2), None, 99, true).await.unwrap().unwrap();
    let (mut after, mut walked): (Option<Position>, Vec<_>) = (None, Vec::new());
    loop {
        let page = oplog::page(&db, space, &did(2), after, 3, true).await.unwrap().unwrap();
        walked.extend(page.ops);
        after = walked.last().map(|logged| logged.op.position);
        // A write between the pages.
        if walked.len() == 6 {
            apply(&db, space, 2, 9, &[put(&note("z"), 1)]).await.unwrap();
        }
        if !page.has_more {
            assert_eq!(page.state.rev, after.unwrap().rev);
            break;
        }
    }
    let before = |logged: &oplog::LoggedOp| (logged.op.clone(), logged.record.clone());
    assert!(walked[..15].iter().map(before).eq(whole.ops.iter().map(before)));
    assert_eq!(walked.len(), 16);
    let since = Position::end_of(whole.ops[4].op.position.rev);
    let rest = oplog::page(&db, space, &did(2), Some(since), 99, false).await.unwrap().unwrap();
    assert_eq!((rest.ops.len(), rest.ops[0].record.as_ref()), (11, None));
    let known = async |rev| oplog::has_commit(&db, space, &did(2), rev).await.unwrap();
    assert!(known(since.rev).await && !known(crate::store::tests::fixtures::rev(5)).await);
    assert!(oplog::page(&db, space, &did(3), None, 9, true).await.unwrap().is_none());
    let empty =
        oplog::page(&db, space, &did(2), Some(Position::end_of(rest.state.rev)), 9, true).await.unwrap();
    assert!(empty.is_some_and(|page| page.ops.is_empty() && !page.has_more));
}
