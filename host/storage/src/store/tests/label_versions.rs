//! Labels: which of two applies, those for one version of a record, and labels that a server before 0054 has stored.

use crate::store::testing::TestDb;
use serde_json::json;

use super::fixtures::*;
use super::labels::{LABELER, label as label_of};
use super::older;

use crate::query::{HasLabel, Hidden, Narrow, Query};
use crate::store::dead_letters::{self, DeadLetter, DeadLetterFilter};
use crate::store::labelers::{self, LabelerStatus};
use crate::store::labels::{self, Label};
use crate::store::{Db, query, script_sql};
use belvedere_base::clock::Timestamp;

const HOUR: i64 = 3_600_000_000;
/// The version of the record that [`index_a`] stores, and another one.
const CURRENT: &str = "bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a";
const OTHER: &str = "bafyreihyrpefhacm6kkp4ql6j6udakdit7g3dmkzfriqfykhjw6cad5lrm";

fn label(val: &str, cts: i64) -> Label {
    label_of(&uri(1, NOTE, "a").to_string(), val, cts)
}

fn negated(label: Label) -> Label {
    Label { neg: true, ..label }
}

fn of_version(cid: &str, label: Label) -> Label {
    Label { cid: Some(cid.to_owned()), ..label }
}

async fn store(db: &Db, stored: &[Label], received: i64) {
    store_labels_at(db, LABELER, stored, Timestamp(received)).await;
}

/// Value and `cts` of the labels in force at time 100.
async fn held(db: &Db) -> Vec<(String, i64)> {
    let a = uri(1, NOTE, "a").to_string();
    let found = labels::active(db, std::slice::from_ref(&a), Timestamp(100)).await.unwrap().remove(&a);
    found.unwrap_or_default().into_iter().map(|held| (held.val, held.cts.unwrap().0)).collect()
}

fn values(held: Vec<(String, i64)>) -> Vec<String> {
    held.into_iter().map(|(val, _)| val).collect()
}

async fn index_a(db: &Db) {
    let mut first = put(&uri(1, NOTE, "a"), 1, r#"{"text":"first"}"#);
    if let Some(record) = &mut first.record {
        record.cid = Some(CURRENT.parse().unwrap());
    }
    apply(db, 1, vec![first]).await;
}

on_both!(
    a_label_of_the_future_is_one_of_its_receipt,
    a_label_that_is_dated_far_ahead_gives_way_to_any_later_one,
    of_equal_times_the_later_position_wins,
    a_label_of_a_version_is_apart_from_the_one_of_the_record,
    records_are_hidden_by_the_labels_that_are_in_force,
    expired_labels_of_a_version_are_removed,
    what_a_server_of_the_version_before_stores_is_moved,
    the_letters_of_a_label_script_are_bounded
);

async fn a_label_of_the_future_is_one_of_its_receipt(db: TestDb) {
    store(&db, &[label("soon", 1_000)], 50).await;
    assert_eq!(held(&db).await, [("soon".to_owned(), 50)]);
    store(&db, &[label("soon", 40)], 60).await;
    assert_eq!(held(&db).await, [("soon".to_owned(), 50)], "a late one");
    store(&db, &[negated(label("soon", 60))], 70).await;
    assert!(held(&db).await.is_empty());
    store(&db, &[label("soon", 55)], 80).await;
    assert!(held(&db).await.is_empty(), "late, and withdrawn since");
}

async fn a_label_that_is_dated_far_ahead_gives_way_to_any_later_one(db: TestDb) {
    // In a history that is read at once, the negation is older than the receipt.
    let ahead = || label("spam", 10 * HOUR);
    store(&db, &[ahead(), negated(label("spam", 20))], 50).await;
    assert!(held(&db).await.is_empty(), "in one transaction");
    store(&db, &[ahead()], 50).await;
    assert_eq!(held(&db).await, [("spam".to_owned(), 50)]);
    store(&db, &[negated(label("spam", 20))], 60).await;
    assert!(held(&db).await.is_empty(), "in two");
    store(&db, &[label("spam", 19)], 60).await;
    assert!(held(&db).await.is_empty(), "the negation's time counts again");
    store(&db, &[negated(ahead())], 60).await;
    store(&db, &[label("spam", 30)], 60).await;
    assert_eq!(held(&db).await, [("spam".to_owned(), 30)], "a negation does not last for ever either");
    store(&db, &[ahead(), negated(ahead())], 70).await;
    assert!(held(&db).await.is_empty());
    store(&db, &[ahead(), negated(ahead()), ahead()], 70).await;
    assert_eq!(values(held(&db).await), ["spam"]);
}

async fn of_equal_times_the_later_position_wins(db: TestDb) {
    let (given, withdrawn) = (label("spam", 10), negated(label("spam", 10)));
    store(&db, &[given.clone(), withdrawn.clone()], 50).await;
    assert!(held(&db).await.is_empty());
    store(&db, &[withdrawn.clone(), given.clone()], 50).await;
    assert_eq!(values(held(&db).await), ["spam"]);
    store(&db, &[withdrawn], 50).await;
    assert!(held(&db).await.is_empty());
    store(&db, &[given], 50).await;
    assert_eq!(values(held(&db).await), ["spam"]);
}

async fn a_label_of_a_version_is_apart_from_the_one_of_the_record(db: TestDb) {
    index_a(&db).await;
    let (record, version) = (label("spam", 10), of_version(CURRENT, label("spam", 11)));
    store(&db, &[record.clone(), version.clone()], 50).await;
    assert_eq!(held(&db).await, [("spam".to_owned(), 11)], "one label is shown, with the later time");
    store(&db, &[negated(of_version(CURRENT, label("spam", 12)))], 50).await;
    assert_eq!(held(&db).await, [("spam".to_owned(), 10)], "negated for the version only");
    store(&db, &[version], 50).await;
    assert_eq!(held(&db).await, [("spam".to_owned(), 10)], "late, and withdrawn since");
    store(&db, &[of_version(CURRENT, label("spam", 13)), negated(label("spam", 14))], 50).await;
    assert_eq!(held(&db).await, [("spam".to_owned(), 13)], "negated for the record only");
    store(&db, &[of_version(OTHER, label("spam", 99)), negated(of_version(OTHER, label("spam", 100)))], 100)
        .await;
    assert_eq!(held(&db).await, [("spam".to_owned(), 13)], "another version");
    store(&db, &[label("spam", 90)], 100).await;
    assert_eq!(held(&db).await, [("spam".to_owned(), 90)]);
    let view = script_sql::run(&db, &US, "SELECT val, cid FROM labels ORDER BY cts", &[]).await.unwrap();
    let view: serde_json::Value = serde_json::from_slice(&view.rows).unwrap();
    assert_eq!(view, json!([{ "val": "spam", "cid": CURRENT }, { "val": "spam" }]));

    let deleted = async |limit| labels::delete_of(&db, LABELER, limit).await.unwrap();
    assert_eq!((deleted(2).await, deleted(2).await), (2, 1));
}

/// A list without the records that have the label.
fn without(val: &str) -> Query {
    let labels = vec![HasLabel::new(val.to_owned(), Timestamp(100)).unwrap()];
    let hidden = Hidden { labels, accounts: Vec::new() };
    Query { narrow: Narrow { hidden, ..Narrow::default() }, ..Query::of(nsid(NOTE)) }
}

async fn shown_without(db: &Db, val: &str) -> Vec<String> {
    let page = query::read(db, &without(val), &US).await.unwrap();
    page.rows.into_iter().map(|row| row.rkey).collect()
}

/// A record is hidden if, and only if, the label is in its answer.
async fn records_are_hidden_by_the_labels_that_are_in_force(db: TestDb) {
    index_a(&db).await;
    // A record without a CID has no version.
    apply(&db, 1, vec![put(&uri(1, NOTE, "b"), 1, r#"{"text":"second"}"#)]).await;
    let b = |val: &str| label_of(&uri(1, NOTE, "b").to_string(), val, 1);
    let stored = [
        of_version(CURRENT, label("current", 1)),
        of_version(OTHER, label("other", 1)),
        of_version(CURRENT, b("absent")),
        negated(of_version(CURRENT, label("negated", 1))),
        of_version("bafkqaaa", label("no", 1)),
        label("every", 1),
        Label { exp: Some(Timestamp(100)), ..label("over", 1) },
    ];
    store(&db, &stored, 50).await;
    let vals = ["current", "other", "absent", "negated", "no", "every", "over", "never"];
    let both = ["b".to_owned(), "a".to_owned()];
    for val in vals {
        let is_held = held(&db).await.iter().any(|(held, _)| held == val);
        let expected = if is_held { &both[..1] } else { &both };
        assert_eq!(shown_without(&db, val).await, expected, "{val}");
    }
    assert_eq!(values(held(&db).await), ["current", "every"]);
    let plan = query::explain(&db, &without("every"), &US).await.unwrap();
    assert!(plan.contains("labels_pkey") || plan.contains("SEARCH l USING PRIMARY KEY (uri=?"), "{plan}");
    labelers::set_status(&db, LABELER, LabelerStatus::Deleting, Timestamp(3)).await.unwrap().unwrap();
    for val in vals {
        assert_eq!(shown_without(&db, val).await, both, "{val}, of a labeler that is being deleted");
    }
}

async fn expired_labels_of_a_version_are_removed(db: TestDb) {
    index_a(&db).await;
    let until = |cid, exp| Label { exp: Some(Timestamp(exp)), ..of_version(cid, label("spam", 1)) };
    store(
        &db,
        &[until(CURRENT, 100), until(OTHER, 200), Label { exp: Some(Timestamp(100)), ..label("spam", 1) }],
        50,
    )
    .await;
    assert!(held(&db).await.is_empty());
    assert_eq!(labels::delete_expired(&db, Timestamp(150), 10).await.unwrap(), 2);
    assert_eq!(count(&db, "labels").await, 1);
}

async fn what_a_server_of_the_version_before_stores_is_moved(db: TestDb) {
    index_a(&db).await;
    let a = uri(1, NOTE, "a");
    let insert = async |val: &str, cid: &str, neg: bool, cts: i64| {
        execute(&db, &format!(
            "INSERT INTO labels (uri, src, val, cid, neg, cts, exp) \
             VALUES ('{a}', '{LABELER}', '{val}', {cid}, {neg}, {cts}, NULL) \
             ON CONFLICT (uri, src, val) DO UPDATE SET cid = excluded.cid, neg = excluded.neg, cts = excluded.cts, \
                 exp = excluded.exp WHERE excluded.cts >= labels.cts"
        )).await;
    };
    let version = format!("'{CURRENT}'");
    for (val, cts) in [("a", 10), ("b", 10), ("c", 10)] {
        insert(val, &version, false, cts).await;
    }
    insert("whole", "NULL", false, 10).await;
    assert_eq!(values(held(&db).await), ["a", "b", "c", "whole"], "before they are moved");
    // One that was withdrawn since, and one that was given again.
    store(&db, &[negated(of_version(CURRENT, label("a", 20))), of_version(CURRENT, label("b", 5))], 50).await;
    assert_eq!(labels::move_versions(&db, 2).await.unwrap(), 2);
    assert_eq!(labels::move_versions(&db, 2).await.unwrap(), 1);
    assert_eq!(labels::move_versions(&db, 2).await.unwrap(), 0);
    assert_eq!(held(&db).await, [("b".to_owned(), 10), ("c".to_owned(), 10), ("whole".to_owned(), 10)]);
    assert_eq!(count(&db, "labels").await, 4);
    insert("whole", "NULL", true, 20).await;
    assert_eq!(values(held(&db).await), ["b", "c"]);
}

async fn the_letters_of_a_label_script_are_bounded(db: TestDb) {
    let insert = async |key: &str, script: &str, host_kind: &str| {
        let text = |text: &str| text.to_owned();
        let letter = DeadLetter {
            script_ref: text(script),
            host_kind: text(host_kind),
            host_id: text(LABELER),
            lexicon_id: text(script),
            collection: text(NOTE),
            uri: text("at://x"),
            did: text(LABELER),
            rkey: text("spam"),
            action: text(host_kind),
            rev: None,
            cid: None,
            payload: None,
        };
        assert!(dead_letters::insert(&db, key, &letter, "failed", 1, Timestamp(1)).await.unwrap());
    };
    for n in 0..5 {
        insert(&format!("label {n}"), "labeler.apply:_actor", "label").await;
        insert(&format!("other {n}"), "labeler.apply:com.example.note", "label").await;
        insert(&format!("record {n}"), "labeler.apply:_actor", "record").await;
    }
    let of = async |script: &str, resolved: bool| -> Vec<i64> {
        let filter = DeadLetterFilter { resolved: Some(resolved), ..DeadLetterFilter::default() };
        let rows = dead_letters::list(&db, &filter, 100).await.unwrap();
        let rows =
            rows.into_iter().filter(|row| row.letter.script_ref == script && row.letter.host_kind == "label");
        rows.map(|row| row.id).collect()
    };
    let all = of("labeler.apply:_actor", false).await;
    // A letter that was resolved takes no place.
    dead_letters::resolve(&db, all[0], Timestamp(2)).await.unwrap();
    dead_letters::trim_labels(&db, "labeler.apply:_actor", 3).await.unwrap();
    assert_eq!(of("labeler.apply:_actor", false).await, all[1..4], "the newest");
    assert_eq!(of("labeler.apply:_actor", true).await, all[..1]);
    assert_eq!(of("labeler.apply:com.example.note", false).await.len(), 5);
    assert_eq!(count(&db, "dead_letters").await, 14);
}

/// A label that won for ever before the migration gives way to its negation after it.
async fn a_label_of_the_far_future_is_migrated(db: &Db) {
    db.migrate().await.unwrap();
    let a = uri(1, NOTE, "a").to_string();
    let now = 2_000_000_000_000_000;
    let held = async || {
        let found = labels::active(db, std::slice::from_ref(&a), Timestamp(now)).await.unwrap();
        found.get(&a).map_or(0, Vec::len)
    };
    assert_eq!(held().await, 1);
    store(db, &[negated(label("spam", 1_700_000_000_000_000))], now).await;
    assert_eq!(held().await, 0);
}

/// The statement that stores one, in the year 2999.
fn of_the_future() -> String {
    format!(
        "INSERT INTO labels (uri, src, val, neg, cts) VALUES ('{}', '{LABELER}', 'spam', false, 32472144000000000)",
        uri(1, NOTE, "a")
    )
}

#[tokio::test]
async fn a_label_of_the_far_future_is_migrated_on_sqlite() {
    let database = older::sqlite(54, &of_the_future()).await;
    a_label_of_the_far_future_is_migrated(&Db::open(&database.url, 2).await.unwrap()).await;
}

#[tokio::test]
async fn a_label_of_the_far_future_is_migrated_on_postgres() {
    let database = older::postgres(54, &of_the_future()).await;
    a_label_of_the_far_future_is_migrated(&Db::open(&database.url, 2).await.unwrap()).await;
}
