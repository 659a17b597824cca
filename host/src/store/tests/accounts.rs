//! Accounts that are hidden, restored and deleted.

use super::fixtures::*;

use crate::clock::Timestamp;
use crate::records::{Query, page};
use crate::store::index::{self, AccountChange, AccountStatus, Batch};
use crate::store::records::{self, ListArgs};
use crate::store::tests::db::TestDb;

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

on_both! {
    async fn hidden_in_every_read_and_restored(db) {
        three_accounts(&db).await;
        for status in [AccountStatus::Deactivated, AccountStatus::TakenDown, AccountStatus::Suspended] {
            set_status(&db, 2, status).await;
            let hidden = uri(2, NOTE, "a");
            let (note, one, two) = (nsid(NOTE), did(1), did(2));
            let args = |did| ListArgs { collection: &note, did, limit: 10, after: None };
            assert_eq!(records::list(&db, &args(None)).await.unwrap().rows.len(), 2);
            assert_eq!(records::list_full(&db, &args(None), None).await.unwrap().rows.len(), 2);
            assert_eq!(records::list(&db, &args(Some(&two))).await.unwrap().rows.len(), 0);
            assert_eq!(records::list(&db, &args(Some(&one))).await.unwrap().rows.len(), 1);
            assert!(records::get(&db, &hidden).await.unwrap().is_none());
            assert!(records::get_full(&db, &hidden).await.unwrap().is_none());
            let both = [hidden, uri(1, NOTE, "a")];
            assert_eq!(records::get_many_full(&db, &both, records::PAGE_BYTES).await.unwrap().rows.len(), 1);
            assert_eq!(records::count(&db, &note, None, &US).await.unwrap(), 2);
            assert_eq!(records::count(&db, &note, Some(&two), &US).await.unwrap(), 0);
            assert_eq!(counts(&db).await, [(LIKE.to_owned(), 2), (NOTE.to_owned(), 2)]);
            for sort in [None, Some("n"), Some("did"), Some("indexed_at")] {
                let sort = sort.map(|s| crate::query::Sort::parse(s, crate::query::Direction::Asc).unwrap());
                let query = Query { sort, ..Query::of(note.clone()) };
                assert_eq!(page::read(&db, &query, &US).await.unwrap().rows.len(), 2);
            }

            set_status(&db, 2, AccountStatus::Active).await;
            assert_eq!(list(&db, NOTE).await.len(), 3);
            assert_eq!(records::count(&db, &note, None, &US).await.unwrap(), 3);
        }
    }

    async fn changed_statuses_are_reported(db) {
        three_accounts(&db).await;
        let change = |n, status| AccountChange { did: did(n), status };
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

    async fn records_of_a_hidden_account_are_kept_up_to_date(db) {
        three_accounts(&db).await;
        set_status(&db, 2, AccountStatus::Deactivated).await;
        apply(&db, 20, vec![put(&uri(2, NOTE, "a"), 2, r#"{"n":2}"#)]).await;
        assert_eq!(get(&db, &uri(2, NOTE, "a")).await, None);
        set_status(&db, 2, AccountStatus::Active).await;
        assert_eq!(get(&db, &uri(2, NOTE, "a")).await, Some(serde_json::json!({"n": 2})));
    }

    async fn deleted_is_purged(db) {
        three_accounts(&db).await;
        let applied = set_status(&db, 2, AccountStatus::Deleted).await;
        assert_eq!(applied.purged, 2);
        assert_eq!(refs(&db).await.len(), 2);
        // No rows are left to be restored.
        set_status(&db, 2, AccountStatus::Active).await;
        assert_eq!(list(&db, NOTE).await.len(), 2);
        assert_eq!(list(&db, LIKE).await.len(), 2);
    }

    async fn changes_in_the_batch_of_a_deletion_are_purged(db) {
        three_accounts(&db).await;
        let account = |status| AccountChange { did: did(2), status };
        let batch = |accounts| Batch {
            changes: vec![put(&uri(2, NOTE, "new"), 5, "{}"), put(&uri(1, NOTE, "new"), 5, "{}")],
            accounts,
            now: Timestamp(20),
            ..Batch::default()
        };
        let applied = index::apply(&db, &batch(vec![account(AccountStatus::Deleted)])).await.unwrap();
        assert_eq!((applied.inserted, applied.stale, applied.purged), (1, 1, 2));
        // Deleted and recreated: the old rows are purged, the new ones stay.
        let again = vec![account(AccountStatus::Deleted), account(AccountStatus::Active)];
        let applied = index::apply(&db, &batch(again)).await.unwrap();
        assert_eq!((applied.inserted, applied.stale, applied.purged), (1, 1, 0));
        assert!(get(&db, &uri(2, NOTE, "new")).await.is_some());
    }

    async fn accounts_never_indexed_are_ignored(db) {
        set_status(&db, 7, AccountStatus::Deleted).await;
        set_status(&db, 8, AccountStatus::Deactivated).await;
        apply(&db, 10, vec![put(&uri(7, NOTE, "a"), 1, "{}"), put(&uri(8, NOTE, "a"), 1, "{}")]).await;
        assert_eq!(list(&db, NOTE).await.len(), 2);
    }
}
