//! Records and accounts that an operator has hidden or taken down.

use super::fixtures::*;

use crate::query::Query;
use crate::store::backfill::{IndexedRecords, KeyRange};
use crate::store::index::{AccountStatus, Change, Validity};
use crate::store::moderation::{self, Action, Decision, Moderated, ModerationFilter, ModerationRow, Subject};
use crate::store::records::moderated::{self, ModeratedQuery};
use crate::store::records::{self, hidden};
use crate::store::testing::{self, TestDb};
use crate::store::{Db, query};
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::RecordUri;

const MODERATOR: &str = "did:plc:moderator";

on_both!(
    a_taken_down_record_is_nowhere_and_comes_back,
    a_page_stays_full,
    a_hidden_record_answers_at_its_uri,
    changes_of_a_moderated_record_stay_hidden,
    changes_remove_what_an_older_host_has_indexed,
    a_text_that_is_removed_leaves_nothing,
    a_deleted_record_does_not_come_back,
    an_old_version_of_a_deleted_record_does_not_come_back,
    a_record_can_be_moderated_before_it_arrives,
    an_account_is_hidden_until_it_is_lifted,
    an_event_of_the_network_lifts_nothing,
    a_deleted_account_leaves_nothing,
    decisions_are_replaced_and_listed,
    backfills_compare_moderated_records,
    moderated_records_are_listed_in_pages
);

async fn decide(db: &Db, subject: Subject, action: Action) -> ModerationRow {
    let by = MODERATOR.to_owned();
    let decision =
        Decision { subject, action, reason: "spam".to_owned(), by, expires_at: None, replaces: None };
    made(moderation::moderate(db, &decision, Timestamp(500)).await.unwrap())
}

#[track_caller]
fn made(moderated: Moderated) -> ModerationRow {
    match moderated {
        Moderated::Made(row) => row,
        Moderated::Same(row) | Moderated::Other(row) => panic!("nothing changed: {row:?}"),
    }
}

async fn take_down(db: &Db, uri: &RecordUri) -> ModerationRow {
    decide(db, Subject::Record(uri.clone()), Action::Takedown).await
}

async fn lift(db: &Db, row: &ModerationRow) {
    let lifted =
        moderation::lift(db, row.id, Some(MODERATOR), Some("a mistake"), Timestamp(600)).await.unwrap();
    assert!(lifted.unwrap().was_active);
}

async fn a_taken_down_record_is_nowhere_and_comes_back(db: TestDb) {
    let (first, second) = (uri(1, NOTE, "a"), uri(2, NOTE, "b"));
    apply(
        &db,
        10,
        vec![put_with_refs(&first, 1, r#"{"to":"at://did:plc:x/a.b.c/d"}"#, &["at://did:plc:x/a.b.c/d"])],
    )
    .await;
    apply(&db, 20, vec![put(&second, 1, r#"{"n":2}"#)]).await;
    let row = take_down(&db, &first).await;
    assert_eq!((row.action, row.reason.as_str(), row.lifted_at), (Action::Takedown, "spam", None));
    assert_eq!(list(&db, NOTE).await, [second.to_string()]);
    assert_eq!(counts(&db).await, [(NOTE.to_owned(), 1)]);
    assert_eq!(records::count(&db, &nsid(NOTE), Some(&did(1)), &US).await.unwrap(), 0);
    assert_eq!(refs(&db).await, []);
    assert_eq!(get(&db, &first).await, None);
    assert!(records::get_full(&db, &first).await.unwrap().is_none());
    let seen = hidden::moderated(&db, &first).await.unwrap().unwrap();
    assert_eq!((seen.row.indexed_at, seen.updated_at), (Timestamp(10), Timestamp(10)));

    lift(&db, &row).await;
    // It is older than the other one, as before.
    assert_eq!(list(&db, NOTE).await, [second.to_string(), first.to_string()]);
    assert_eq!(counts(&db).await, [(NOTE.to_owned(), 2)]);
    assert_eq!(refs(&db).await, [("at://did:plc:x/a.b.c/d".to_owned(), "a".to_owned())]);
    let full = records::get_full(&db, &first).await.unwrap().unwrap();
    assert_eq!((full.row.indexed_at, full.updated_at), (Timestamp(10), Timestamp(10)));
    assert_eq!(testing::count_dangling_references(&db).await.unwrap(), 0);
    assert_eq!(count(&db, "hidden_records").await, 0);
}

async fn a_page_stays_full(db: TestDb) {
    for n in 0..8 {
        apply(&db, 10 + n, vec![put(&uri(1, NOTE, &format!("r{n}")), 1, r#"{"n":1}"#)]).await;
    }
    for n in [7, 6, 3] {
        take_down(&db, &uri(1, NOTE, &format!("r{n}"))).await;
    }
    let query = Query { limit: 4, ..Query::of(nsid(NOTE)) };
    let page = query::read(&db, &query, &US).await.unwrap();
    let rkeys: Vec<_> = page.rows.iter().map(|row| row.rkey.as_str()).collect();
    assert_eq!(rkeys, ["r5", "r4", "r2", "r1"]);
}

async fn a_hidden_record_answers_at_its_uri(db: TestDb) {
    let note = uri(1, NOTE, "a");
    apply(&db, 10, vec![put(&note, 1, r#"{"n":1}"#)]).await;
    decide(&db, Subject::Record(note.clone()), Action::Hide).await;
    assert_eq!(list(&db, NOTE).await, Vec::<String>::new());
    assert_eq!(get(&db, &note).await, Some(serde_json::json!({"n": 1})));
    // Not while its account is gone.
    set_status(&db, 1, AccountStatus::Deactivated).await;
    assert_eq!(get(&db, &note).await, None);
    set_status(&db, 1, AccountStatus::Active).await;
    let row = take_down(&db, &note).await;
    assert_eq!(get(&db, &note).await, None);
    lift(&db, &row).await;
    assert_eq!(list(&db, NOTE).await.len(), 1);
}

async fn changes_of_a_moderated_record_stay_hidden(db: TestDb) {
    let (note, other) = (uri(1, NOTE, "a"), uri(1, NOTE, "b"));
    apply(&db, 10, vec![put_with_refs(&note, 1, r#"{"n":1}"#, &["at://x"])]).await;
    let row = take_down(&db, &note).await;
    let changed = r#"{"to":"did:plc:aaaaaaaaaaaaaaaaaaaaaaaa"}"#;
    let applied = apply(&db, 20, vec![put(&note, 3, changed), put(&other, 3, "{}")]).await;
    assert_eq!((applied.inserted, applied.updated, applied.stale), (1, 1, 0));
    let applied = apply(&db, 30, vec![put(&note, 2, r#"{"n":2}"#)]).await;
    assert_eq!((applied.updated, applied.stale), (0, 1));
    assert_eq!(list(&db, NOTE).await, [other.to_string()]);
    assert_eq!(records::latest_rev(&db, &note).await.unwrap(), Some(rev(3).as_u64()));
    lift(&db, &row).await;
    assert_eq!(get(&db, &note).await.unwrap().to_string(), changed);
    let full = records::get_full(&db, &note).await.unwrap().unwrap();
    assert_eq!((full.row.indexed_at, full.updated_at), (Timestamp(10), Timestamp(20)));
    assert_eq!(refs(&db).await, [("did:plc:aaaaaaaaaaaaaaaaaaaaaaaa".to_owned(), "a".to_owned())]);
}

/// Indexes a change as a host of a version before does, which knows no moderated records.
async fn apply_on_older_host(db: &Db, now: i64, change: Change) {
    execute(db, "UPDATE hidden_records SET rkey = rkey || '!'").await;
    apply(db, now, vec![change]).await;
    execute(db, "UPDATE hidden_records SET rkey = replace(rkey, '!', '')").await;
}

async fn changes_remove_what_an_older_host_has_indexed(db: TestDb) {
    let (note, gone) = (uri(1, NOTE, "a"), uri(1, NOTE, "b"));
    apply(&db, 10, vec![put(&note, 1, r#"{"n":1}"#), put(&gone, 1, "{}")]).await;
    let rows = [take_down(&db, &note).await, take_down(&db, &gone).await];
    apply_on_older_host(&db, 20, put_with_refs(&note, 5, r#"{"n":5}"#, &["at://x"])).await;
    apply_on_older_host(&db, 20, put(&gone, 5, "{}")).await;
    assert_eq!(list(&db, NOTE).await.len(), 2, "until the next change");
    // A backfill has read an older version, and misses the other record.
    assert_eq!(apply(&db, 30, vec![put(&note, 3, r#"{"n":3}"#), take(&gone, 6)]).await.stale, 1);
    assert_eq!((list(&db, NOTE).await, refs(&db).await), (vec![], vec![]));
    for row in &rows {
        lift(&db, row).await;
    }
    assert_eq!(get(&db, &note).await, Some(serde_json::json!({"n": 5})), "the newest version is kept");
    assert_eq!(list(&db, NOTE).await.len(), 1);
}

/// The flags of a record are those of its text.
async fn a_text_that_is_removed_leaves_nothing(db: TestDb) {
    let of = |n| uri(n, NOTE, "a");
    let invalid = |n| {
        let mut change = put(&of(n), 1, r#"{"n":1}"#);
        if let Some(record) = &mut change.record {
            (record.cid_verified, record.validity) = (true, Validity::Invalid("bad".into()));
        }
        change
    };
    apply(&db, 10, vec![invalid(1), invalid(2)]).await;
    for n in [1, 2] {
        take_down(&db, &of(n)).await;
    }
    let of_nothing = "hidden_records WHERE record IS NULL AND NOT cid_verified AND invalid_reason IS NULL";
    assert_eq!(count(&db, of_nothing).await, 0);
    set_status(&db, 1, AccountStatus::Deleted).await;
    assert_eq!(count(&db, of_nothing).await, 1);
    records::delete_collection(&db, &nsid(NOTE)).await.end.unwrap();
    assert_eq!(count(&db, of_nothing).await, 2);
}

async fn a_deleted_record_does_not_come_back(db: TestDb) {
    let note = uri(1, NOTE, "a");
    apply(&db, 10, vec![put(&note, 1, "{}")]).await;
    let row = take_down(&db, &note).await;
    apply(&db, 20, vec![take(&note, 2)]).await;
    assert!(hidden::moderated(&db, &note).await.unwrap().is_none());
    lift(&db, &row).await;
    assert_eq!(get(&db, &note).await, None);
    assert_eq!(apply(&db, 30, vec![put(&note, 1, "{}")]).await.stale, 1, "its tombstone is there");
}

async fn an_old_version_of_a_deleted_record_does_not_come_back(db: TestDb) {
    let (one, of_deleted) = (uri(1, NOTE, "a"), uri(2, NOTE, "b"));
    apply(&db, 10, vec![put(&one, 2, "{}"), take(&one, 5), put(&of_deleted, 2, "{}")]).await;
    set_status(&db, 2, AccountStatus::Deleted).await;
    set_status(&db, 2, AccountStatus::Active).await;
    for uri in [&one, &of_deleted] {
        decide(&db, Subject::Record(uri.clone()), Action::Hide).await;
        // A backfill has read the repo before.
        assert_eq!(apply(&db, 30, vec![put(uri, 3, r#"{"old":1}"#)]).await.stale, 1, "{uri}");
        assert_eq!(get(&db, uri).await, None, "{uri}");
        assert!(hidden::moderated(&db, uri).await.unwrap().is_none(), "{uri}");
    }
    apply(&db, 40, vec![put(&one, 6, r#"{"new":1}"#)]).await;
    assert_eq!(get(&db, &one).await, Some(serde_json::json!({"new": 1})));
}

async fn a_record_can_be_moderated_before_it_arrives(db: TestDb) {
    let note = uri(1, NOTE, "a");
    let row = take_down(&db, &note).await;
    apply(&db, 10, vec![put(&note, 1, r#"{"n":1}"#)]).await;
    assert_eq!(list(&db, NOTE).await, Vec::<String>::new());
    lift(&db, &row).await;
    assert_eq!(get(&db, &note).await, Some(serde_json::json!({"n": 1})));
}

async fn an_account_is_hidden_until_it_is_lifted(db: TestDb) {
    let (mine, theirs) = (uri(1, NOTE, "a"), uri(2, NOTE, "b"));
    apply(&db, 10, vec![put(&mine, 1, r#"{"n":1}"#), put(&theirs, 1, "{}")]).await;
    let row = decide(&db, Subject::Account(did(1)), Action::Takedown).await;
    assert_eq!(list(&db, NOTE).await, [theirs.to_string()]);
    assert_eq!(counts(&db).await, [(NOTE.to_owned(), 1)]);
    assert_eq!(get(&db, &mine).await, None);
    // Its records are kept up to date.
    apply(&db, 20, vec![put(&mine, 2, r#"{"n":2}"#)]).await;
    lift(&db, &row).await;
    assert_eq!(get(&db, &mine).await, Some(serde_json::json!({"n": 2})));
    assert_eq!(counts(&db).await, [(NOTE.to_owned(), 2)]);
    decide(&db, Subject::Account(did(1)), Action::Hide).await;
    assert_eq!(list(&db, NOTE).await, [theirs.to_string()]);
    assert!(get(&db, &mine).await.is_some());
}

async fn an_event_of_the_network_lifts_nothing(db: TestDb) {
    let note = uri(1, NOTE, "a");
    apply(&db, 10, vec![put(&note, 1, "{}")]).await;
    let row = decide(&db, Subject::Account(did(1)), Action::Takedown).await;
    let reported = set_status(&db, 1, AccountStatus::Deactivated).await.statuses;
    assert_eq!(reported.len(), 1);
    assert_eq!(set_status(&db, 1, AccountStatus::Active).await.statuses.len(), 1);
    assert_eq!(get(&db, &note).await, None);
    assert_eq!(set_status(&db, 1, AccountStatus::Suspended).await.statuses.len(), 1);
    lift(&db, &row).await;
    assert_eq!(get(&db, &note).await, None, "the network still says that it is suspended");
    set_status(&db, 1, AccountStatus::Active).await;
    assert!(get(&db, &note).await.is_some());
}

async fn a_deleted_account_leaves_nothing(db: TestDb) {
    let note = uri(1, NOTE, "a");
    apply(&db, 10, vec![put(&note, 1, "{}")]).await;
    let of_record = take_down(&db, &note).await;
    let of_account = decide(&db, Subject::Account(did(1)), Action::Takedown).await;
    set_status(&db, 1, AccountStatus::Deleted).await;
    assert!(hidden::moderated(&db, &note).await.unwrap().is_none());
    lift(&db, &of_record).await;
    lift(&db, &of_account).await;
    assert_eq!(list(&db, NOTE).await, Vec::<String>::new());
    assert_eq!(count(&db, "records").await, 0);
}

async fn decisions_are_replaced_and_listed(db: TestDb) {
    let subject = Subject::Account(did(1));
    let decision = Decision {
        subject: subject.clone(),
        action: Action::Takedown,
        reason: "spam".to_owned(),
        by: MODERATOR.to_owned(),
        expires_at: Some(Timestamp(900)),
        replaces: None,
    };
    let moderate =
        async |decision: &Decision, at| moderation::moderate(&db, decision, Timestamp(at)).await.unwrap();
    let first = made(moderate(&decision, 500).await);
    let Moderated::Same(again) = moderate(&decision, 501).await else { panic!("it is the same") };
    assert_eq!(again, first);
    // The decision of another author is replaced by one that names it.
    let others = Decision { action: Action::Hide, by: "did:plc:other".to_owned(), ..decision.clone() };
    for replaces in [None, Some(first.id + 1)] {
        let Moderated::Other(kept) = moderate(&Decision { replaces, ..others.clone() }, 501).await else {
            panic!("another author's decision was replaced")
        };
        assert_eq!(kept, first);
    }
    let others = made(moderate(&Decision { replaces: Some(first.id), ..others }, 501).await);
    let longer = Decision { expires_at: Some(Timestamp(950)), replaces: Some(others.id), ..decision };
    let second = made(moderate(&longer, 502).await);
    assert_eq!(moderation::active(&db, &subject).await.unwrap(), Some(second.clone()));
    let read = async |active| {
        let filter =
            ModerationFilter { active, subject: Some(did(1).to_string()), ..ModerationFilter::default() };
        let rows = moderation::list(&db, &filter, 10).await.unwrap();
        rows.into_iter().map(|row| row.id).collect::<Vec<_>>()
    };
    let (first, others, second) = (first.id, others.id, second.id);
    assert_eq!(read(None).await, [second, others, first]);
    assert_eq!((read(Some(true)).await, read(Some(false)).await), (vec![second], vec![others, first]));
    assert_eq!(moderation::expired(&db, Timestamp(949), 10).await.unwrap(), Vec::<i64>::new());
    assert_eq!(moderation::expired(&db, Timestamp(950), 10).await.unwrap(), [second]);
    let lifted = moderation::lift(&db, second, None, Some("expired"), Timestamp(950)).await.unwrap().unwrap();
    assert_eq!((lifted.was_active, lifted.row.lifted_at), (true, Some(Timestamp(950))));
    assert!(!moderation::lift(&db, second, None, None, Timestamp(951)).await.unwrap().unwrap().was_active);
    assert!(moderation::lift(&db, 999, None, None, Timestamp(951)).await.unwrap().is_none());
    assert_eq!(moderation::get(&db, first).await.unwrap().unwrap().lift_reason.as_deref(), Some("replaced"));

    // One whose time is over does not count, also if it was not lifted yet.
    let third = made(moderate(&longer, 940).await);
    let others = Decision { by: "did:plc:other".to_owned(), expires_at: None, replaces: None, ..longer };
    assert!(matches!(moderate(&others, 949).await, Moderated::Other(kept) if kept == third));
    let fourth = made(moderate(&others, 950).await);
    assert_eq!(moderation::active(&db, &subject).await.unwrap(), Some(fourth));
}

async fn backfills_compare_moderated_records(db: TestDb) {
    let (a, b) = (uri(1, NOTE, "a"), uri(1, NOTE, "b"));
    apply(&db, 10, vec![put(&a, 1, "{}"), put(&b, 1, "{}"), put(&uri(1, NOTE, "c"), 1, "{}")]).await;
    take_down(&db, &b).await;
    let (did, note) = (did(1), nsid(NOTE));
    let indexed = IndexedRecords::open(&db, &did, &note, Timestamp(20)).await.unwrap();
    let rows = indexed.in_range(&KeyRange::default(), 2).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.rkey.as_str()).collect::<Vec<_>>(), ["c", "b"]);
    assert_eq!(indexed.with_keys(&["a", "b", "d"]).await.unwrap().len(), 2);
}

async fn moderated_records_are_listed_in_pages(db: TestDb) {
    for n in 0..6_u32 {
        // Two accounts, at two times each; every other record is large.
        let note = uri(n % 2, NOTE, &format!("r{n}"));
        let text = "x".repeat(if n % 2 == 0 { 400_000 } else { 1 });
        apply(&db, i64::from(10 + n / 3), vec![put(&note, 1, &format!(r#"{{"text":"{text}"}}"#))]).await;
        take_down(&db, &note).await;
    }
    take_down(&db, &uri(1, NOTE, "never")).await;
    let pages = async |did: Option<u32>, limit| {
        let did = did.map(self::did);
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let query = ModeratedQuery { collection: nsid(NOTE), did: did.clone(), rkey: None, after, limit };
            let (rows, next) = moderated::page(&db, &query).await.unwrap();
            let lengths = rows.iter().map(|full| full.row.record.len());
            let page = rows.iter().zip(lengths).map(|(full, len)| (full.row.rkey.clone(), len > 1_000));
            found.push(page.collect::<Vec<_>>());
            after = next;
            if after.is_none() {
                return found;
            }
        }
    };
    let (small, large) = (|n: u32| (format!("r{n}"), false), |n: u32| (format!("r{n}"), true));
    // The newest first; of one time by account.
    let all = [small(5), small(3), large(4), small(1), large(2), large(0)];
    assert_eq!(pages(None, 2).await, [&all[..2], &all[2..4], &all[4..]]);
    assert_eq!(pages(None, 4).await, [&all[..4], &all[4..]]);
    assert_eq!(pages(Some(1), 10).await, [[small(5), small(3), small(1)]]);
    assert_eq!(pages(Some(0), 2).await, [&[large(4), large(2)][..], &[large(0)][..]]);
    assert!(pages(Some(9), 2).await.concat().is_empty());
    for n in [6, 8] {
        let note = uri(0, NOTE, &format!("r{n}"));
        apply(&db, 20, vec![put(&note, 1, &format!(r#"{{"text":"{}"}}"#, "x".repeat(400_000)))]).await;
        take_down(&db, &note).await;
    }
    let sizes: Vec<usize> = pages(Some(0), 10).await.iter().map(Vec::len).collect();
    assert_eq!(sizes, [3, 2], "a page has a megabyte");
}
