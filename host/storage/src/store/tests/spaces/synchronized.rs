use crate::store::testing::TestDb;
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Tid;

use super::fixtures::*;
use crate::store::spaces::writes::{Synced, SyncedChange, Synchronized, replace, synchronize};
use crate::store::spaces::{oplog, repos};

/// The log of the author at the host, as changes to apply to a copy.
async fn log(db: &Db, space: SpaceId) -> Vec<SyncedChange> {
    let page = oplog::page(db, space, &did(2), None, 99, true).await.unwrap().unwrap();
    let change = |logged: oplog::LoggedOp| SyncedChange {
        record: logged.record.map(|text| new_record(&text)),
        op: logged.op,
    };
    page.ops.into_iter().map(change).collect()
}

async fn bring(
    db: &Db,
    copy: SpaceId,
    from: Option<Tid>,
    host: SpaceId,
    changes: &[SyncedChange],
) -> Synchronized {
    let state = repos::state(db, host, &did(2)).await.unwrap().unwrap();
    let (author, hash) = (did(2), state.hash.digest());
    let to = Synced { space: copy, author: &author, from, rev: state.rev, hash, now: Timestamp(99) };
    synchronize(db, &to, changes).await.unwrap()
}

on_both!(a_copy_follows_the_log, a_log_that_does_not_connect_changes_nothing, a_copy_is_replaced_as_a_whole);

async fn a_copy_follows_the_log(db: TestDb) {
    let (host, copy) = (create(&db, "host").await, create(&db, "copy").await);
    let (a, b) = (note("a"), note("b"));
    apply(&db, host, 2, 10, &[put(&a, 1), put(&b, 1)]).await.unwrap();
    let first = apply(&db, host, 2, 20, &[put(&a, 2), take(&b)]).await.unwrap();
    assert_eq!(bring(&db, copy, None, host, &log(&db, host).await).await, Synchronized::Stored);
    let same = async || {
        let state = async |space| repos::snapshot(&db, space, &did(2)).await.unwrap();
        assert_eq!(state(host).await, state(copy).await);
    };
    same().await;
    apply(&db, host, 2, 30, &[put(&b, 3)]).await.unwrap();
    let rest = log(&db, host).await.split_off(4);
    assert_eq!(bring(&db, copy, None, host, &rest).await, Synchronized::Raced);
    assert_eq!(bring(&db, copy, first.rev, host, &rest).await, Synchronized::Stored);
    same().await;
    let ops = async |space| oplog::page(&db, space, &did(2), None, 99, true).await.unwrap();
    assert_eq!(ops(host).await, ops(copy).await);
    assert_eq!(bring(&db, SpaceId(99), None, host, &rest).await, Synchronized::NoSpace);
}

async fn a_log_that_does_not_connect_changes_nothing(db: TestDb) {
    let (host, copy) = (create(&db, "host").await, create(&db, "copy").await);
    apply(&db, host, 2, 10, &[put(&note("a"), 1), put(&note("b"), 1)]).await.unwrap();
    apply(&db, host, 2, 20, &[put(&note("a"), 2)]).await.unwrap();
    let whole = log(&db, host).await;
    let mut without_record = whole.clone();
    without_record[1].record = None;
    for changes in [&whole[1..], &whole[..2], &without_record, &[]] {
        assert_eq!(bring(&db, copy, None, host, changes).await, Synchronized::Diverged);
    }
    assert!(repos::state(&db, copy, &did(2)).await.unwrap().is_none());
    assert_eq!(bring(&db, copy, None, host, &whole).await, Synchronized::Stored);
}

async fn a_copy_is_replaced_as_a_whole(db: TestDb) {
    let (host, copy) = (create(&db, "host").await, create(&db, "copy").await);
    apply(&db, host, 2, 10, &[put(&note("a"), 1), put(&note("b"), 1)]).await.unwrap();
    let old =
        apply(&db, copy, 2, 5, &[put(&note("a"), 7), put(&note("b"), 1), put(&note("c"), 1)]).await.unwrap();
    let state = repos::state(&db, host, &did(2)).await.unwrap().unwrap();
    let (author, hash) = (did(2), state.hash.digest());
    let to = Synced { space: copy, author: &author, from: old.rev, rev: state.rev, hash, now: Timestamp(99) };
    let records = [(note("a"), numbered(1)), (note("b"), numbered(1))];
    assert_eq!(replace(&db, &to, &records[..1]).await.unwrap(), Synchronized::Diverged);
    let raced = Synced { from: None, ..to };
    assert_eq!(replace(&db, &raced, &records).await.unwrap(), Synchronized::Raced);
    assert_eq!(replace(&db, &to, &records).await.unwrap(), Synchronized::Stored);
    let snapshot = async |space| repos::snapshot(&db, space, &did(2)).await.unwrap();
    assert_eq!(snapshot(host).await, snapshot(copy).await);
    let page = oplog::page(&db, copy, &did(2), None, 9, true).await.unwrap().unwrap();
    assert!(page.ops.is_empty() && !oplog::has_commit(&db, copy, &did(2), old.rev.unwrap()).await.unwrap());
    let kept = records::get(&db, copy, &did(2), &note("b")).await.unwrap().unwrap();
    assert_eq!(kept.indexed_at, Timestamp(5));
}
