use crate::store::testing::TestDb;
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::record::MAX_RECORD_BYTES;
use belvedere_protocol::atproto::{Cid, Tid};
use belvedere_protocol::spaces::RecordPath;

use super::fixtures::*;
use crate::store::on;
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
    let to = Synced {
        space: copy,
        author: &author,
        from,
        rev: state.rev,
        hash,
        max_bytes: u64::MAX,
        now: Timestamp(99),
    };
    synchronize(db, &to, changes).await.unwrap()
}

/// Makes copies of the repos in a space. A copy has no log.
async fn make_copy(db: &Db, space: SpaceId) {
    let mark = "UPDATE space_repos SET copied_bytes = $2 WHERE space_id = $1";
    let log = "DELETE FROM space_ops WHERE space_id = $1";
    on!(db, writer, |pool| {
        sqlx::query(mark).bind(space).bind(614_i64).execute(pool).await.map(drop).unwrap();
        sqlx::query(log).bind(space).execute(pool).await.map(drop).unwrap();
    });
}

/// The rev, the hash and the records of the author's repo.
async fn contents(db: &Db, space: SpaceId) -> (Tid, Vec<(RecordPath, Cid)>, [u8; 32]) {
    let repos::Snapshot { state, mut records } = repos::snapshot(db, space, &did(2)).await.unwrap().unwrap();
    records.sort_by_key(|(path, _)| path.to_string());
    (state.rev, records, state.hash.digest())
}

on_both!(
    a_copy_follows_the_log,
    a_log_that_does_not_connect_changes_nothing,
    a_copy_is_replaced_as_a_whole,
    a_copy_with_a_wrong_state_is_mended,
    a_copy_does_not_go_back,
    a_repo_is_here_or_a_copy,
    large_records_are_not_copied
);

async fn a_copy_follows_the_log(db: TestDb) {
    let (host, copy) = (create(&db, "host").await, create(&db, "copy").await);
    let (a, b) = (note("a"), note("b"));
    apply(&db, host, 2, 10, &[put(&a, 1), put(&b, 1)]).await.unwrap();
    let first = apply(&db, host, 2, 20, &[put(&a, 2), take(&b)]).await.unwrap();
    assert_eq!(bring(&db, copy, None, host, &log(&db, host).await).await, Synchronized::Stored);
    let same = async || {
        assert_eq!(contents(&db, host).await, contents(&db, copy).await);
    };
    same().await;
    apply(&db, host, 2, 30, &[put(&b, 3)]).await.unwrap();
    let rest = log(&db, host).await.split_off(4);
    assert_eq!(bring(&db, copy, None, host, &rest).await, Synchronized::Raced);
    assert_eq!(bring(&db, copy, first.rev, host, &rest).await, Synchronized::Stored);
    same().await;
    assert!(log(&db, copy).await.is_empty(), "nobody reads the log of a copy");
    assert_eq!(bring(&db, SpaceId(99), None, host, &rest).await, Synchronized::NoSpace);
}

async fn a_log_that_does_not_connect_changes_nothing(db: TestDb) {
    let (host, copy) = (create(&db, "host").await, create(&db, "copy").await);
    apply(&db, host, 2, 10, &[put(&note("a"), 1), put(&note("b"), 1)]).await.unwrap();
    apply(&db, host, 2, 20, &[put(&note("a"), 2)]).await.unwrap();
    let whole = log(&db, host).await;
    let mut without_record = whole.clone();
    without_record[1].record = None;
    let mut twice = whole.clone();
    twice[1].op.position = whole[0].op.position;
    for changes in [&whole[1..], &whole[..2], &without_record, &twice, &[]] {
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
    make_copy(&db, copy).await;
    let state = repos::state(&db, host, &did(2)).await.unwrap().unwrap();
    let (author, hash) = (did(2), state.hash.digest());
    let to = Synced {
        space: copy,
        author: &author,
        from: old.rev,
        rev: state.rev,
        hash,
        max_bytes: u64::MAX,
        now: Timestamp(99),
    };
    let records = [(note("a"), numbered(1)), (note("b"), numbered(1))];
    assert_eq!(replace(&db, &to, &records[..1]).await.unwrap(), Synchronized::Diverged);
    let raced = Synced { from: None, ..to };
    assert_eq!(replace(&db, &raced, &records).await.unwrap(), Synchronized::Raced);
    // Two rows of 300 bytes, with `{"n":1}`.
    let full = Synced { max_bytes: 613, ..to };
    assert_eq!(replace(&db, &full, &records).await.unwrap(), Synchronized::Full);
    let to = Synced { max_bytes: 614, ..to };
    assert_eq!(replace(&db, &to, &records).await.unwrap(), Synchronized::Stored);
    assert_eq!(contents(&db, host).await, contents(&db, copy).await);
    let page = oplog::page(&db, copy, &did(2), None, 9, true).await.unwrap().unwrap();
    let known = async |rev| oplog::has_commit(&db, copy, &did(2), rev).await.unwrap();
    assert!(page.ops.is_empty() && !known(old.rev.unwrap()).await);
    assert!(known(state.rev).await, "a reader with the current commit has missed nothing");
    let kept = records::get(&db, copy, &did(2), &note("b")).await.unwrap().unwrap();
    assert_eq!(kept.indexed_at, Timestamp(5));
}

async fn a_copy_with_a_wrong_state_is_mended(db: TestDb) {
    let copy = create(&db, "copy").await;
    let right = apply(&db, copy, 2, 10, &[put(&note("a"), 1), put(&note("b"), 1)]).await.unwrap();
    make_copy(&db, copy).await;
    let state = repos::state(&db, copy, &did(2)).await.unwrap().unwrap();
    let spoil = "UPDATE space_repos SET set_hash = $1, records = 77";
    on!(&*db, writer, |pool| {
        sqlx::query(spoil).bind(vec![7_u8; 2_048]).execute(pool).await.map(drop).unwrap();
    });
    let author = did(2);
    let to = Synced {
        space: copy,
        author: &author,
        from: right.rev,
        rev: state.rev,
        hash: right.hash,
        max_bytes: u64::MAX,
        now: Timestamp(99),
    };
    let records = [(note("a"), numbered(1)), (note("b"), numbered(1))];
    assert_eq!(synchronize(&db, &to, &[]).await.unwrap(), Synchronized::Diverged);
    assert_eq!(replace(&db, &to, &records).await.unwrap(), Synchronized::Stored);
    assert_eq!(repos::state(&db, copy, &did(2)).await.unwrap(), Some(state));
    let twice = [records[0].clone(), records[0].clone(), records[1].clone()];
    assert_eq!(replace(&db, &to, &twice).await.unwrap(), Synchronized::Diverged);
}

async fn a_copy_does_not_go_back(db: TestDb) {
    let (host, copy) = (create(&db, "host").await, create(&db, "copy").await);
    let first = apply(&db, host, 2, 10, &[put(&note("a"), 1)]).await.unwrap();
    let last = apply(&db, host, 2, 20, &[put(&note("a"), 2)]).await.unwrap();
    assert_eq!(bring(&db, copy, None, host, &log(&db, host).await).await, Synchronized::Stored);
    let state = repos::state(&db, copy, &did(2)).await.unwrap();
    let author = did(2);
    for from in [first.rev, last.rev] {
        let (rev, hash, now) = (first.rev.unwrap(), first.hash, Timestamp(99));
        let to = Synced { space: copy, author: &author, from, rev, hash, max_bytes: u64::MAX, now };
        assert_eq!(synchronize(&db, &to, &[]).await.unwrap(), Synchronized::Old);
        assert_eq!(replace(&db, &to, &[(note("a"), numbered(1))]).await.unwrap(), Synchronized::Old);
    }
    assert_eq!(repos::state(&db, copy, &did(2)).await.unwrap(), state);
}

async fn a_repo_is_here_or_a_copy(db: TestDb) {
    let (host, copy) = (create(&db, "host").await, create(&db, "copy").await);
    let first = apply(&db, host, 2, 10, &[put(&note("a"), 1)]).await.unwrap();
    assert_eq!(bring(&db, copy, None, host, &log(&db, host).await).await, Synchronized::Stored);
    let refused = apply(&db, copy, 2, 20, &[put(&note("b"), 1)]).await;
    assert_eq!(refused, Err(Refused::Elsewhere));
    assert_eq!(bring(&db, host, first.rev, host, &[]).await, Synchronized::Here);
    let author = did(2);
    let (rev, hash) = (first.rev.unwrap(), first.hash);
    let to = Synced {
        space: host,
        author: &author,
        from: first.rev,
        rev,
        hash,
        max_bytes: u64::MAX,
        now: Timestamp(99),
    };
    assert_eq!(replace(&db, &to, &[(note("a"), numbered(1))]).await.unwrap(), Synchronized::Here);
}

async fn large_records_are_not_copied(db: TestDb) {
    let (host, copy) = (create(&db, "host").await, create(&db, "copy").await);
    let state = apply(&db, host, 2, 10, &[put(&note("a"), 1)]).await.unwrap();
    let mut changes = log(&db, host).await;
    let large = NewRecord { text: "x".repeat(MAX_RECORD_BYTES + 1), ..numbered(1) };
    changes[0].record = Some(large.clone());
    assert_eq!(bring(&db, copy, None, host, &changes).await, Synchronized::TooLarge);
    let (author, rev) = (did(2), state.rev.unwrap());
    let to = Synced {
        space: copy,
        author: &author,
        from: None,
        rev,
        hash: state.hash,
        max_bytes: u64::MAX,
        now: Timestamp(99),
    };
    assert_eq!(replace(&db, &to, &[(note("a"), large)]).await.unwrap(), Synchronized::TooLarge);
    assert!(repos::state(&db, copy, &did(2)).await.unwrap().is_none());
}
