//! Accounts that are hidden, restored and deleted.

use super::fixtures::*;

use crate::query::Query;
use crate::store::query;
use crate::store::records;

use crate::store::dead_letters::{self, DeadLetter};
use crate::store::index::{self, AccountStatus, ApplyReport, Batch};
use crate::store::labels::{self, Label};
use crate::store::testing::TestDb;
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Did;
use belvedere_web::fair_share::Tenant;

async fn three_accounts(db: &TestDb) {
    let changes = (1..=3)
        .flat_map(|n| {
            [
                put_with_refs(&uri(n, NOTE, "a"), 1, r#"{"n":1}"#, &["at://x"]),
                put(&uri(n, LIKE, "b"), 1, r#"{"n":1}"#),
            ]
        })
        .collect();
    apply(db, 10, changes).await;
}

on_both!(
    hidden_in_every_read_and_restored,
    changed_statuses_are_reported,
    records_of_a_hidden_account_are_kept_up_to_date,
    deleted_is_purged,
    a_deletion_is_a_tombstone_of_the_repo,
    a_purge_takes_labels_on_records_and_dead_letters_along,
    labels_in_a_space_go_with_its_authority,
    what_a_deletion_leaves_is_purged_later,
    repos_are_marked_for_a_repair_once,
    accounts_never_indexed_are_ignored
);

async fn hidden_in_every_read_and_restored(db: TestDb) {
    three_accounts(&db).await;
    for status in [AccountStatus::Deactivated, AccountStatus::TakenDown, AccountStatus::Suspended] {
        set_status(&db, 2, status).await;
        let hidden = uri(2, NOTE, "a");
        let (note, one, two) = (nsid(NOTE), did(1), did(2));
        let of = |did: Option<&Did>| Query { did: did.cloned(), ..Query::of(note.clone()) };
        assert_eq!(query::read(&db, &of(None), &US).await.unwrap().rows.len(), 2);
        assert_eq!(query::read_full(&db, &of(None), &Tenant::Instance).await.unwrap().rows.len(), 2);
        assert_eq!(query::read(&db, &of(Some(&two)), &US).await.unwrap().rows.len(), 0);
        assert_eq!(query::read(&db, &of(Some(&one)), &US).await.unwrap().rows.len(), 1);
        assert!(records::get(&db, &hidden).await.unwrap().is_none());
        assert!(records::get_full(&db, &hidden).await.unwrap().is_none());
        let both = [hidden, uri(1, NOTE, "a")];
        assert_eq!(
            records::get_many_full(&db, &both, records::Room::of(records::PAGE_BYTES))
                .await
                .unwrap()
                .rows
                .len(),
            1
        );
        assert_eq!(records::count(&db, &note, None, &US).await.unwrap(), 2);
        assert_eq!(records::count(&db, &note, Some(&two), &US).await.unwrap(), 0);
        assert_eq!(counts(&db).await, [(LIKE.to_owned(), 2), (NOTE.to_owned(), 2)]);
        for sort in [None, Some("n"), Some("did"), Some("indexed_at")] {
            let sort = sort.map(|s| crate::query::Sort::parse(s, crate::query::Direction::Asc).unwrap());
            let query = Query { sort, ..Query::of(note.clone()) };
            assert_eq!(query::read(&db, &query, &US).await.unwrap().rows.len(), 2);
        }

        set_status(&db, 2, AccountStatus::Active).await;
        assert_eq!(list(&db, NOTE).await.len(), 3);
        assert_eq!(records::count(&db, &note, None, &US).await.unwrap(), 3);
    }
}

async fn changed_statuses_are_reported(db: TestDb) {
    three_accounts(&db).await;
    let change = |n, status| account(n, status, rev(1_000));
    let reported = set_status(&db, 2, AccountStatus::TakenDown).await.statuses;
    assert_eq!(reported, [change(2, AccountStatus::TakenDown)]);
    // The same again, and an account that was never indexed.
    assert_eq!(set_status(&db, 2, AccountStatus::TakenDown).await.statuses, []);
    assert_eq!(set_status(&db, 99, AccountStatus::TakenDown).await.statuses, []);
    let accounts = vec![change(2, AccountStatus::Active), change(3, AccountStatus::Deleted)];
    let batch = Batch { accounts: accounts.clone(), now: Timestamp(5), ..Batch::default() };
    let mut reported = index::apply(&db, &batch).await.unwrap().statuses;
    reported.sort_by_key(|change| change.did.to_string());
    assert_eq!(reported, accounts);
}

async fn records_of_a_hidden_account_are_kept_up_to_date(db: TestDb) {
    three_accounts(&db).await;
    set_status(&db, 2, AccountStatus::Deactivated).await;
    apply(&db, 20, vec![put(&uri(2, NOTE, "a"), 2, r#"{"n":2}"#)]).await;
    assert_eq!(get(&db, &uri(2, NOTE, "a")).await, None);
    set_status(&db, 2, AccountStatus::Active).await;
    assert_eq!(get(&db, &uri(2, NOTE, "a")).await, Some(serde_json::json!({"n": 2})));
}

async fn deleted_is_purged(db: TestDb) {
    three_accounts(&db).await;
    let applied = set_status(&db, 2, AccountStatus::Deleted).await;
    assert_eq!(applied.purged, 2);
    assert_eq!(refs(&db).await.len(), 2);
    // No rows are left to be restored.
    set_status(&db, 2, AccountStatus::Active).await;
    assert_eq!(list(&db, NOTE).await.len(), 2);
    assert_eq!(list(&db, LIKE).await.len(), 2);
}

async fn a_deletion_is_a_tombstone_of_the_repo(db: TestDb) {
    three_accounts(&db).await;
    let (old, late, new) = (uri(2, NOTE, "old"), uri(2, NOTE, "late"), uri(2, NOTE, "new"));
    apply(&db, 10, vec![put_with_refs(&new, 9, "{}", &["at://y"]), take(&old, 3)]).await;
    let delete = async |at: u64| {
        let accounts = vec![account(2, AccountStatus::Deleted, rev(at))];
        // In the same batch, and in later ones.
        let changes = vec![put(&late, 5, "{}"), put(&uri(1, NOTE, "late"), 5, "{}")];
        index::apply(&db, &Batch { accounts, changes, now: Timestamp(20), ..Batch::default() }).await.unwrap()
    };
    let applied = delete(5).await;
    assert_eq!((applied.inserted, applied.stale, applied.purged), (1, 1, 2));
    let stale = vec![put(&late, 5, "{}"), put_with_refs(&old, 4, "{}", &["at://z"]), take(&new, 5)];
    assert_eq!(apply(&db, 30, stale).await, ApplyReport { stale: 3, ..ApplyReport::default() });
    // Records that the account writes when it is created again stay, also when the event is delivered again.
    let fresh = vec![put(&late, 6, r#"{"n":6}"#), put(&old, 7, r#"{"n":7}"#), take(&uri(2, NOTE, "x"), 6)];
    assert_eq!(apply(&db, 40, fresh).await.inserted, 2);
    let applied = delete(5).await;
    assert_eq!((applied.purged, applied.stale), (0, 2));
    assert_eq!(get(&db, &late).await, None, "hidden until the account is active");
    set_status(&db, 2, AccountStatus::Active).await;
    assert_eq!(get(&db, &late).await, Some(serde_json::json!({"n": 6})));
    assert_eq!(get(&db, &old).await, Some(serde_json::json!({"n": 7})));
    assert_eq!(refs(&db).await.len(), 3);
    // The second deletion.
    assert_eq!(delete(8).await.purged, 2);
    assert_eq!(refs(&db).await.len(), 3);
}

async fn a_purge_takes_labels_on_records_and_dead_letters_along(db: TestDb) {
    three_accounts(&db).await;
    let of = |n| {
        let label = |uri: String| Label {
            uri,
            src: "did:plc:labeler".into(),
            val: "spam".into(),
            cid: None,
            neg: false,
            cts: Timestamp(1),
            exp: None,
        };
        [label(uri(n, NOTE, "a").to_string()), label(did(n).to_string())]
    };
    store_labels(&db, "did:plc:labeler", &[of(2), of(3)].concat()).await;
    for n in [2, 3] {
        let [host, record] = [NOTE, "a"];
        let letter = DeadLetter {
            script_ref: format!("record.index:{host}"),
            host_kind: "record".into(),
            host_id: format!("{host}:create"),
            lexicon_id: host.into(),
            collection: host.into(),
            uri: uri(n, host, record).to_string(),
            did: did(n).to_string(),
            rkey: record.into(),
            action: "create".into(),
            rev: None,
            cid: None,
            payload: Some("{}".into()),
        };
        assert!(dead_letters::insert(&db, &n.to_string(), &letter, "failed", 1, Timestamp(1)).await.unwrap());
    }
    set_status(&db, 2, AccountStatus::Deleted).await;
    let subjects: Vec<String> = [of(2), of(3)].concat().into_iter().map(|label| label.uri).collect();
    let mut left: Vec<_> = labels::active(&db, &subjects, Timestamp(2)).await.unwrap().into_keys().collect();
    left.sort();
    let mut expected = subjects[1..].to_vec();
    expected.sort();
    assert_eq!(left, expected, "the label on the account itself stays");
    assert_eq!(count(&db, "dead_letters").await, 1);
}

async fn labels_in_a_space_go_with_its_authority(db: TestDb) {
    three_accounts(&db).await;
    let space = format!("at://{}/space/com.example.group/main", did(2));
    let (in_space, other) = (
        format!("{space}/{}/{NOTE}/a", did(3)),
        format!("at://{}/space/com.example.group/main/{}/{NOTE}/a", did(3), did(2)),
    );
    // Labelers' are refused, so only a database of an earlier version has such rows.
    let label = |uri: &String| Label {
        uri: uri.clone(),
        src: "did:plc:labeler".into(),
        val: "spam".into(),
        cid: None,
        neg: false,
        cts: Timestamp(1),
        exp: None,
    };
    let subjects = [space, in_space, other.clone()];
    store_labels(&db, "did:plc:labeler", &subjects.each_ref().map(label)).await;
    set_status(&db, 2, AccountStatus::Deleted).await;
    let left: Vec<_> = labels::active(&db, &subjects, Timestamp(2)).await.unwrap().into_keys().collect();
    assert_eq!(left, [other]);
}

async fn what_a_deletion_leaves_is_purged_later(db: TestDb) {
    three_accounts(&db).await;
    // The PDS's clock is ahead.
    apply(&db, 10, vec![put_with_refs(&uri(2, NOTE, "ahead"), 2_000, "{}", &["at://y"])]).await;
    assert_eq!(set_status(&db, 2, AccountStatus::Deleted).await.purged, 2);
    set_status(&db, 3, AccountStatus::Deactivated).await;
    assert_eq!(index::purge_leftovers(&db, Timestamp(9)).await.unwrap(), 0, "not yet");
    assert_eq!(index::purge_leftovers(&db, Timestamp(10)).await.unwrap(), 1);
    assert_eq!(index::purge_leftovers(&db, Timestamp(10)).await.unwrap(), 0);
    assert_eq!((count(&db, "records").await, refs(&db).await.len()), (4, 2));
    // An account that is deleted for good, and one that came back.
    apply(&db, 11, vec![put(&uri(2, LIKE, "late"), 3_000, "{}"), put(&uri(3, LIKE, "late"), 3_000, "{}")])
        .await;
    set_status(&db, 3, AccountStatus::Deleted).await;
    set_status(&db, 3, AccountStatus::Active).await;
    assert_eq!(index::purge_leftovers(&db, Timestamp(10)).await.unwrap(), 1);
    assert_eq!(get(&db, &uri(3, LIKE, "late")).await, Some(serde_json::json!({})));
    assert_eq!(index::prune_tombstones(&db, Timestamp(9), 10).await.unwrap(), 0);
    assert_eq!(index::prune_tombstones(&db, Timestamp(10), 10).await.unwrap(), 2);
}

async fn repos_are_marked_for_a_repair_once(db: TestDb) {
    three_accounts(&db).await;
    let repair = async |dids: &[u32]| {
        let repairs = dids.iter().map(|n| did(*n)).collect();
        index::apply(&db, &Batch { repairs, now: Timestamp(5), ..Batch::default() }).await.unwrap();
    };
    // One was never indexed, one is marked twice.
    repair(&[1, 9, 1]).await;
    repair(&[1]).await;
    assert_eq!(count(&db, "repo_repairs").await, 1);
    // Commits of a hidden account may be missing.
    set_status(&db, 2, AccountStatus::Deactivated).await;
    set_status(&db, 3, AccountStatus::Active).await;
    assert_eq!(count(&db, "repo_repairs").await, 1);
    set_status(&db, 2, AccountStatus::Active).await;
    assert_eq!(count(&db, "repo_repairs").await, 2);
    set_status(&db, 2, AccountStatus::Deleted).await;
    repair(&[2]).await;
    assert_eq!(count(&db, "repo_repairs").await, 1, "there is nothing to read");
}

async fn accounts_never_indexed_are_ignored(db: TestDb) {
    set_status(&db, 7, AccountStatus::Deleted).await;
    set_status(&db, 8, AccountStatus::Deactivated).await;
    apply(&db, 10, vec![put(&uri(7, NOTE, "a"), 1, "{}"), put(&uri(8, NOTE, "a"), 1, "{}")]).await;
    assert_eq!(list(&db, NOTE).await.len(), 2);
}
