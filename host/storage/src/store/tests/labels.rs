//! Labels: the newest one wins, expired ones are left out, and records can label themselves.

use crate::store::testing::TestDb;
use serde_json::json;

use super::fixtures::*;

use crate::store::Db;
use crate::store::index::AccountStatus;
use crate::store::labelers::{self, LabelerStatus};
use crate::store::labels::{self, ActiveLabel, Label};
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Did;

pub(super) const LABELER: &str = "did:plc:labelerlabelerlabelerlab";

pub(super) fn label(uri: &str, val: &str, cts: i64) -> Label {
    Label {
        uri: uri.to_owned(),
        src: LABELER.to_owned(),
        val: val.to_owned(),
        cid: None,
        neg: false,
        cts: Timestamp(cts),
        exp: None,
    }
}

async fn store(db: &Db, stored: &[Label]) {
    store_labels(db, LABELER, stored).await;
}

/// Source and value of the labels in force at time 100.
async fn held(db: &Db, uri: &str) -> Vec<(String, String)> {
    let mut found = labels::active(db, &[uri.to_owned()], Timestamp(100)).await.unwrap();
    found.remove(uri).unwrap_or_default().into_iter().map(|held| (held.src, held.val)).collect()
}

fn theirs(vals: &[&str]) -> Vec<(String, String)> {
    vals.iter().map(|val| (LABELER.to_owned(), (*val).to_owned())).collect()
}

on_both!(
    the_newest_label_wins_in_any_order,
    expired_labels_are_not_in_force,
    too_many_self_labels_are_ignored,
    records_label_themselves_and_one_query_gives_all,
    a_label_for_one_version_applies_to_that_version_only,
    of_many_labels_of_a_subject_the_newest_are_in_force,
    labels_are_stored_with_the_cursor_or_not_at_all,
    what_is_known_about_a_labeler_is_stored,
    only_labels_that_expired_long_ago_are_removed
);

async fn the_newest_label_wins_in_any_order(db: TestDb) {
    let uri = "at://did:plc:a/com.example.note/1";
    let withdrawn = Label { neg: true, ..label(uri, "spam", 20) };
    store(&db, &[withdrawn.clone(), label(uri, "spam", 10), label(uri, "rude", 10)]).await;
    assert_eq!(held(&db, uri).await, theirs(&["rude"]));
    store(&db, &[label(uri, "spam", 15)]).await;
    assert_eq!(held(&db, uri).await, theirs(&["rude"]), "late, and withdrawn since");
    store(&db, &[label(uri, "spam", 30)]).await;
    assert_eq!(held(&db, uri).await, theirs(&["rude", "spam"]));
    store(&db, &[]).await;
    let other = Label { src: "did:plc:other".to_owned(), ..label(uri, "spam", 1) };
    store(&db, &[other]).await;
    assert_eq!(labels::delete_of(&db, LABELER, 1).await.unwrap(), 1);
    assert_eq!(labels::delete_of(&db, LABELER, 10).await.unwrap(), 1);
    assert_eq!(held(&db, uri).await, [("did:plc:other".to_owned(), "spam".to_owned())]);
}

async fn expired_labels_are_not_in_force(db: TestDb) {
    let account = "did:plc:somebody";
    let until = |val: &str, exp| Label { exp: Some(Timestamp(exp)), ..label(account, val, 1) };
    store(&db, &[until("over", 100), until("holds", 101)]).await;
    assert_eq!(held(&db, account).await, theirs(&["holds"]));
}

async fn too_many_self_labels_are_ignored(db: TestDb) {
    let many = |count: usize| {
        let values: Vec<_> = (0..count).map(|n| json!({ "val": format!("label-{n:04}") })).collect();
        json!({ "labels": { "values": values } }).to_string()
    };
    let (a, b) = (uri(1, NOTE, "a"), uri(1, NOTE, "b"));
    apply(&db, 1, vec![put(&a, 1, &many(100)), put(&b, 1, &many(10_000))]).await;
    let subjects = [a.to_string(), b.to_string()];
    let found = labels::active(&db, &subjects, Timestamp(100)).await.unwrap();
    assert_eq!((found.len(), found[&subjects[0]].len()), (1, 100));
}

async fn records_label_themselves_and_one_query_gives_all(db: TestDb) {
    let (a, b) = (uri(1, NOTE, "a"), uri(2, NOTE, "b"));
    let own = json!({ "labels": { "$type": "com.atproto.label.defs#selfLabels",
        "values": [{ "val": "nudity" }, { "val": 7 }, "bare", { "val": "art" }] } });
    apply(&db, 1, vec![put(&a, 1, &own.to_string()), put(&b, 1, r#"{"labels":{"values":"no"}}"#)]).await;
    store(&db, &[label(&a.to_string(), "spam", 1), label(did(2).as_str(), "bot", 1)]).await;
    let subjects = [a.to_string(), b.to_string(), did(2).to_string(), "at://x".to_owned(), a.to_string()];
    let found = labels::active(&db, &subjects[..4], Timestamp(100)).await.unwrap();
    let mine = |val: &str| ActiveLabel { src: did(1).to_string(), val: val.to_owned(), cts: None };
    let spam = ActiveLabel { src: LABELER.to_owned(), val: "spam".to_owned(), cts: Some(Timestamp(1)) };
    assert_eq!(found[&a.to_string()], [spam.clone(), mine("art"), mine("nudity")]);
    assert_eq!(found[did(2).as_str()].len(), 1);
    assert_eq!(found.len(), 2);
    // Self-labels of a hidden account's record are ignored; labels by others stay in force.
    set_status(&db, 1, AccountStatus::TakenDown).await;
    let found = labels::active(&db, &subjects, Timestamp(100)).await.unwrap();
    assert_eq!(found[&a.to_string()].iter().filter(|held| held.cts.is_none()).count(), 0);
    assert!(found[&a.to_string()].contains(&spam));
}

async fn a_label_for_one_version_applies_to_that_version_only(db: TestDb) {
    let (a, b) = (uri(1, NOTE, "a"), uri(1, NOTE, "b"));
    let current = "bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a";
    let mut first = put(&a, 1, r#"{"text":"first"}"#);
    if let Some(record) = &mut first.record {
        record.cid = Some(current.parse().unwrap());
    }
    apply(&db, 1, vec![first]).await;
    let limited = |uri: &str, val: &str, cid: &str| Label { cid: Some(cid.to_owned()), ..label(uri, val, 1) };
    let other = "bafyreihyrpefhacm6kkp4ql6j6udakdit7g3dmkzfriqfykhjw6cad5lrm";
    store(
        &db,
        &[
            limited(&a.to_string(), "current", current),
            limited(&a.to_string(), "other", other),
            limited(&b.to_string(), "absent", other),
            limited(did(1).as_str(), "account", other),
            label(&a.to_string(), "every", 1),
        ],
    )
    .await;
    assert_eq!(held(&db, &a.to_string()).await, theirs(&["current", "every"]));
    assert!(held(&db, &b.to_string()).await.is_empty(), "a record that is not indexed has no version");
    assert!(held(&db, did(1).as_str()).await.is_empty());
}

async fn of_many_labels_of_a_subject_the_newest_are_in_force(db: TestDb) {
    let (a, b) = (uri(1, NOTE, "a"), uri(1, NOTE, "b"));
    let current = "bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a";
    let other = "bafyreihyrpefhacm6kkp4ql6j6udakdit7g3dmkzfriqfykhjw6cad5lrm";
    let mut first = put(&a, 1, r#"{"text":"first"}"#);
    if let Some(record) = &mut first.record {
        record.cid = Some(current.parse().unwrap());
    }
    apply(&db, 1, vec![first]).await;
    let of_version = |n: i64, cid: &str| Label {
        cid: Some(cid.to_owned()),
        ..label(&a.to_string(), &format!("v{n:04}"), n % 90)
    };
    // Those for other versions don't take the permit of the others, however many they are.
    let all: Vec<_> = (0..1_500)
        .flat_map(|n| [of_version(n, other), label(&a.to_string(), &format!("n{n:04}"), n / 20)])
        .chain([of_version(89, current), label(&b.to_string(), "one", 1)])
        .collect();
    store(&db, &all).await;
    let found = labels::active(&db, &[a.to_string(), b.to_string()], Timestamp(100)).await.unwrap();
    let vals: Vec<_> = found[&a.to_string()].iter().map(|held| held.val.clone()).collect();
    assert_eq!(vals.len(), 1_000);
    assert!(vals.contains(&"v0089".to_owned()));
    assert!(vals.iter().filter(|val| val.starts_with('n')).all(|val| val.as_str() >= "n0500"));
    assert_eq!(found[&b.to_string()].len(), 1);
}

async fn labels_are_stored_with_the_cursor_or_not_at_all(db: TestDb) {
    let subject = "did:plc:somebody";
    store(&db, &[label(subject, "first", 1)]).await;
    let labeler = Did::try_from(LABELER).unwrap();
    let second = [label(subject, "second", 1)];
    let put =
        async |from, to| labelers::store(&db, &labeler, from, Some(to), &second, Timestamp(9)).await.unwrap();
    assert!(!put(None, 5).await, "another host was faster");
    assert!(!put(Some(9), 5).await);
    assert_eq!(held(&db, subject).await, theirs(&["first"]));
    labelers::set_status(&db, LABELER, LabelerStatus::Paused, Timestamp(2)).await.unwrap().unwrap();
    assert!(!put(Some(1), 5).await, "paused");
    assert_eq!(held(&db, subject).await, theirs(&["first"]), "the labels of a paused labeler stay");
    labelers::set_status(&db, LABELER, LabelerStatus::Active, Timestamp(2)).await.unwrap().unwrap();
    assert!(put(Some(1), 5).await);
    assert!(labelers::rewind(&db, &labeler, Some(5), None).await.unwrap());
    assert!(!labelers::rewind(&db, &labeler, Some(5), None).await.unwrap());
    assert_eq!(labelers::get(&db, LABELER).await.unwrap().unwrap().cursor, None);
    assert_eq!(held(&db, subject).await, theirs(&["first", "second"]));

    labelers::set_status(&db, LABELER, LabelerStatus::Deleting, Timestamp(3)).await.unwrap().unwrap();
    assert!(held(&db, subject).await.is_empty(), "none is in force from the first moment");
    assert!(!put(None, 6).await, "a batch that comes late");
    assert_eq!(labelers::create(&db, &labeler, Timestamp(4)).await.unwrap(), labelers::Added::Deleting);
    assert_eq!(labelers::set_status(&db, LABELER, LabelerStatus::Active, Timestamp(4)).await.unwrap(), None);
    labelers::remove(&db, LABELER).await.unwrap();
    assert!(labelers::list(&db).await.unwrap().is_empty());
}

async fn what_is_known_about_a_labeler_is_stored(db: TestDb) {
    store(&db, &[]).await;
    let labeler = Did::try_from(LABELER).unwrap();
    let row = async || labelers::get(&db, LABELER).await.unwrap().unwrap();
    let ended = async |connection, error, at| {
        labelers::set_disconnected(&db, &labeler, connection, error, Timestamp(at)).await.unwrap();
    };
    labelers::set_connected(&db, &labeler, "a").await.unwrap();
    assert_eq!((row().await.connection.is_some(), row().await.last_error), (true, None));
    ended(None, Some("of an attempt before"), 5).await;
    ended(Some("b"), Some("of a host that hung"), 5).await;
    assert_eq!((row().await.connection.is_some(), row().await.last_error), (true, None));
    ended(Some("a"), Some("gone"), 6).await;
    assert!(row().await.connection.is_none());
    labelers::set_connected(&db, &labeler, "c").await.unwrap();
    ended(Some("c"), None, 7).await;
    let now = row().await;
    assert_eq!((now.last_error.as_deref(), now.last_error_at), (Some("gone"), Some(Timestamp(6))));
    labelers::set_connected(&db, &labeler, "d").await.unwrap();
    for status in [LabelerStatus::Paused, LabelerStatus::Active, LabelerStatus::Paused] {
        labelers::set_status(&db, LABELER, status, Timestamp(8)).await.unwrap().unwrap();
    }
    assert!(row().await.connection.is_some(), "its host has not ended it yet");
    ended(Some("d"), None, 8).await;
    labelers::set_connected(&db, &labeler, "e").await.unwrap();
    assert!(row().await.connection.is_none(), "paused in the meantime");
    labelers::set_status(&db, LABELER, LabelerStatus::Active, Timestamp(8)).await.unwrap().unwrap();
    labelers::set_connected(&db, &labeler, "f").await.unwrap();
    labelers::disconnect_all(&db).await.unwrap();
    assert!(row().await.connection.is_none());
}

async fn only_labels_that_expired_long_ago_are_removed(db: TestDb) {
    const DAY: i64 = 86_400_000_000;
    let account = "did:plc:somebody";
    let until = |val: &str, exp| Label { exp: Some(Timestamp(exp)), ..label(account, val, 1) };
    store(&db, &[until("long", DAY), until("lately", 9 * DAY), label("at://did:plc:x/a.b.c/1", "early", 1)])
        .await;
    assert_eq!(labels::delete_expired(&db, Timestamp(3 * DAY), 10).await.unwrap(), 1);
    let left = labels::delete_of(&db, LABELER, 10).await.unwrap();
    assert_eq!(left, 2, "one expired a day ago, one has no record in the index");
}
