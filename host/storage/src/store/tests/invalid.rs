//! Records that their lexicon rejects.

use super::fixtures::*;

use crate::query::{Filter, Position, Query, Sort};
use crate::store::query;
use crate::store::records::{self, CollectionCount};

use crate::store::index::{AccountStatus, Change, Validity};
use crate::store::records::invalid::{self, Verdict};
use crate::store::testing::TestDb;
use crate::store::validations::{self, START, Validation};
use crate::store::{Backend, intern};
use belvedere_base::clock::Timestamp;
use belvedere_web::fair_share::Tenant;

/// A change with a record that its lexicon rejects.
fn invalid(mut change: Change) -> Change {
    if let Some(record) = &mut change.record {
        record.validity = Validity::Invalid("bad".into());
    }
    change
}

/// The rkeys of the notes with this validity, newest first, read page by page.
async fn rkeys(db: &TestDb, query: Query) -> Vec<String> {
    let mut query = Query { limit: 2, ..query };
    let mut rkeys = Vec::new();
    loop {
        let page = query::read(db, &query, &US).await.unwrap();
        rkeys.extend(page.rows.into_iter().map(|row| row.rkey));
        if !advance(&mut query, page.next) {
            return rkeys;
        }
    }
}

fn notes(valid: bool) -> Query {
    Query { valid: Some(valid), ..Query::of(nsid(NOTE)) }
}

/// The rkeys and reasons of all notes, as the admin API lists them.
async fn reasons(db: &TestDb, valid: Option<bool>) -> Vec<(String, Option<String>)> {
    let found =
        query::read_full(db, &Query { valid, ..Query::of(nsid(NOTE)) }, &Tenant::Instance).await.unwrap();
    found.rows.into_iter().map(|full| (full.row.rkey, full.invalid_reason)).collect()
}

/// Six notes, of which b, d and f are invalid.
async fn six(db: &TestDb) {
    for (n, rkey) in (0..).zip(["a", "b", "c", "d", "e", "f"]) {
        let change = put(&uri(1, NOTE, rkey), 1, &format!(r#"{{"n":{n}}}"#));
        apply(db, n, vec![if n % 2 == 0 { change } else { invalid(change) }]).await;
    }
}

async fn note_id(db: &TestDb) -> i64 {
    intern::collection(db, &nsid(NOTE)).await.unwrap().unwrap().id
}

on_both!(
    reads_choose_by_validity_page_by_page,
    the_newest_version_decides_and_a_deletion_leaves_nothing,
    invalid_records_of_hidden_accounts_are_not_counted,
    records_are_walked_and_judged_again,
    invalid_records_are_found_by_their_ids,
    progress_is_stored
);

async fn reads_choose_by_validity_page_by_page(db: TestDb) {
    six(&db).await;
    assert_eq!(rkeys(&db, Query::of(nsid(NOTE))).await, ["f", "e", "d", "c", "b", "a"]);
    assert_eq!(rkeys(&db, notes(true)).await, ["e", "c", "a"]);
    assert_eq!(rkeys(&db, notes(false)).await, ["f", "d", "b"]);
    let filter = Filter::from_json(&serde_json::json!({ "field": "n", "op": ">=", "value": 2 })).unwrap();
    assert_eq!(rkeys(&db, Query { filter: Some(filter.clone()), ..notes(true) }).await, ["e", "c"]);
    assert_eq!(rkeys(&db, Query { filter: Some(filter), ..notes(false) }).await, ["f", "d"]);
    let sort = |key| Some(Sort::parse(key, crate::query::Direction::Asc).unwrap());
    assert_eq!(rkeys(&db, Query { sort: sort("n"), ..notes(true) }).await, ["a", "c", "e"]);
    assert_eq!(rkeys(&db, Query { sort: sort("indexed_at"), ..notes(false) }).await, ["b", "d", "f"]);
    assert_eq!(rkeys(&db, Query { did: Some(did(1)), ..notes(false) }).await, ["f", "d", "b"]);
    assert!(rkeys(&db, Query { did: Some(did(2)), ..notes(false) }).await.is_empty());
    let bad = Some("bad".to_owned());
    let invalid = [("f".to_owned(), bad.clone()), ("d".to_owned(), bad.clone()), ("b".to_owned(), bad)];
    assert_eq!(reasons(&db, Some(false)).await, invalid);
    assert_eq!(reasons(&db, Some(true)).await.len(), 3);
    assert_eq!(reasons(&db, None).await.iter().filter(|(_, reason)| reason.is_none()).count(), 3);
}

async fn the_newest_version_decides_and_a_deletion_leaves_nothing(db: TestDb) {
    six(&db).await;
    let valid_now = put(&uri(1, NOTE, "b"), 2, r#"{"n":1}"#);
    let invalid_now = invalid(put(&uri(1, NOTE, "c"), 2, r#"{"n":1}"#));
    apply(&db, 20, vec![valid_now, invalid_now, take(&uri(1, NOTE, "d"), 2)]).await;
    // An older version changes nothing.
    apply(&db, 21, vec![invalid(put(&uri(1, NOTE, "b"), 1, r#"{"n":1}"#))]).await;
    assert_eq!(rkeys(&db, notes(false)).await, ["f", "c"]);
    // On SQLite the id of the last row is used again.
    apply(&db, 22, vec![take(&uri(1, NOTE, "f"), 2)]).await;
    apply(&db, 23, vec![put(&uri(1, NOTE, "g"), 1, r#"{"n":1}"#)]).await;
    assert_eq!(rkeys(&db, notes(false)).await, ["c"]);
    assert_eq!(rkeys(&db, notes(true)).await, ["g", "e", "b", "a"]);
    assert!(records::delete(&db, &uri(1, NOTE, "c")).await.unwrap());
    assert!(rkeys(&db, notes(false)).await.is_empty());
    apply(&db, 24, vec![invalid(put(&uri(1, NOTE, "h"), 1, r#"{"n":1}"#))]).await;
    records::delete_collection(&db, &nsid(NOTE)).await.end.unwrap();
    apply(&db, 25, vec![put(&uri(1, NOTE, "i"), 9, r#"{"n":1}"#)]).await;
    assert_eq!(reasons(&db, None).await, [("i".to_owned(), None)]);
}

async fn invalid_records_of_hidden_accounts_are_not_counted(db: TestDb) {
    six(&db).await;
    apply(&db, 9, vec![invalid(put(&uri(2, NOTE, "x"), 1, r#"{"n":1}"#))]).await;
    let counts = |records, invalid| [CollectionCount { collection: NOTE.into(), records, invalid }];
    assert_eq!(records::collection_counts(&db).await.unwrap(), counts(7, 4));
    set_status(&db, 1, AccountStatus::TakenDown).await;
    assert_eq!(records::collection_counts(&db).await.unwrap(), counts(1, 1));
    assert_eq!(rkeys(&db, notes(false)).await, ["x"]);
    set_status(&db, 1, AccountStatus::Deleted).await;
    set_status(&db, 1, AccountStatus::Active).await;
    assert_eq!(rkeys(&db, notes(false)).await, ["x"]);
}

async fn records_are_walked_and_judged_again(db: TestDb) {
    six(&db).await;
    set_status(&db, 1, AccountStatus::Deactivated).await;
    let note = nsid(NOTE);
    let first = invalid::walk(&db, &note, START, 4).await.unwrap();
    let seen: Vec<_> = first.rows.iter().map(|full| full.row.rkey.as_str()).collect();
    assert_eq!(seen, ["a", "b", "c", "d"], "those of hidden accounts too");
    let Some(Position::Time(after)) = first.next else { panic!("two more records exist") };
    let rest = invalid::walk(&db, &note, after, 4).await.unwrap();
    assert_eq!((rest.rows.len(), rest.next), (2, None));

    let verdict = |at: usize, updated_at, reason: Option<&str>| Verdict {
        id: first.rows[at].row.id,
        updated_at: Timestamp(updated_at),
        reason: reason.map(str::to_owned),
    };
    // The third was changed since it was read: its verdict is ignored.
    let verdicts = [
        verdict(0, 0, Some("new")),
        verdict(1, 1, None),
        verdict(2, 7, Some("old")),
        verdict(3, 3, Some("other")),
    ];
    invalid::set(&db, &note, &verdicts).await.unwrap();
    set_status(&db, 1, AccountStatus::Active).await;
    let found = reasons(&db, Some(false)).await;
    let expected = [("f", "bad"), ("d", "other"), ("a", "new")];
    assert_eq!(found, expected.map(|(rkey, reason)| (rkey.to_owned(), Some(reason.to_owned()))));
}

async fn invalid_records_are_found_by_their_ids(db: TestDb) {
    six(&db).await;
    let plan = query::explain(&db, &notes(false), &US).await.unwrap();
    // PostgreSQL chooses by the size of the tables, which are small here.
    if db.backend() == Backend::Sqlite {
        assert!(plan.contains("SEARCH r USING INTEGER PRIMARY KEY"), "{plan}");
    }
}

async fn progress_is_stored(db: TestDb) {
    six(&db).await;
    let id = note_id(&db).await;
    assert_eq!(validations::get(&db, id).await.unwrap(), None);
    let mut state = Validation { fingerprint: -7, noticed_at: Timestamp(5), passes: 0, after: START };
    validations::set(&db, id, &state).await.unwrap();
    assert_eq!(validations::get(&db, id).await.unwrap(), Some(state));
    state.passes = 1;
    state.after.id = 8;
    validations::set(&db, id, &state).await.unwrap();
    assert_eq!(validations::get(&db, id).await.unwrap(), Some(state));
}
