//! Labels: the newest one wins, expired ones are left out, and records can label themselves.

use serde_json::json;

use super::fixtures::*;

use crate::clock::Timestamp;
use crate::store::Db;
use crate::store::index::AccountStatus;
use crate::store::labels::{self, ActiveLabel, Label};

const LABELER: &str = "did:plc:labelerlabelerlabelerlab";

fn label(uri: &str, val: &str, cts: i64) -> Label {
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

/// Source and value of the labels in force at time 100.
async fn held(db: &Db, uri: &str) -> Vec<(String, String)> {
    let mut found = labels::active(db, &[uri.to_owned()], Timestamp(100)).await.unwrap();
    found.remove(uri).unwrap_or_default().into_iter().map(|held| (held.src, held.val)).collect()
}

fn theirs(vals: &[&str]) -> Vec<(String, String)> {
    vals.iter().map(|val| (LABELER.to_owned(), (*val).to_owned())).collect()
}

on_both! {
    async fn the_newest_label_wins_in_any_order(db) {
        let uri = "at://did:plc:a/com.example.note/1";
        let withdrawn = Label { neg: true, ..label(uri, "spam", 20) };
        labels::put(&db, &[withdrawn.clone(), label(uri, "spam", 10), label(uri, "rude", 10)]).await.unwrap();
        assert_eq!(held(&db, uri).await, theirs(&["rude"]));
        labels::put(&db, &[label(uri, "spam", 15)]).await.unwrap();
        assert_eq!(held(&db, uri).await, theirs(&["rude"]), "late, and withdrawn since");
        labels::put(&db, &[label(uri, "spam", 30)]).await.unwrap();
        assert_eq!(held(&db, uri).await, theirs(&["rude", "spam"]));
        labels::put(&db, &[]).await.unwrap();
        let other = Label { src: "did:plc:other".to_owned(), ..label(uri, "spam", 1) };
        labels::put(&db, &[other]).await.unwrap();
        assert_eq!(labels::delete_src(&db, LABELER).await.unwrap(), 2);
        assert_eq!(held(&db, uri).await, [("did:plc:other".to_owned(), "spam".to_owned())]);
    }

    async fn expired_labels_are_not_in_force(db) {
        let account = "did:plc:somebody";
        let until = |val: &str, exp| Label { exp: Some(Timestamp(exp)), ..label(account, val, 1) };
        labels::put(&db, &[until("over", 100), until("holds", 101)]).await.unwrap();
        assert_eq!(held(&db, account).await, theirs(&["holds"]));
    }

    async fn too_many_self_labels_are_ignored(db) {
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

    async fn records_label_themselves_and_one_query_gives_all(db) {
        let (a, b) = (uri(1, NOTE, "a"), uri(2, NOTE, "b"));
        let own = json!({ "labels": { "$type": "com.atproto.label.defs#selfLabels",
            "values": [{ "val": "nudity" }, { "val": 7 }, "bare", { "val": "art" }] } });
        apply(&db, 1, vec![put(&a, 1, &own.to_string()), put(&b, 1, r#"{"labels":{"values":"no"}}"#)]).await;
        labels::put(&db, &[label(&a.to_string(), "spam", 1), label(did(2).as_str(), "bot", 1)]).await.unwrap();
        let subjects = [a.to_string(), b.to_string(), did(2).to_string(), "at://x".to_owned(), a.to_string()];
        let found = labels::active(&db, &subjects[..4], Timestamp(100)).await.unwrap();
        let mine = |val: &str| ActiveLabel { src: did(1).to_string(), val: val.to_owned(), cts: None };
        let spam = ActiveLabel { src: LABELER.to_owned(), val: "spam".to_owned(), cts: Some(Timestamp(1)) };
        assert_eq!(found[&a.to_string()], [mine("art"), mine("nudity"), spam.clone()]);
        assert_eq!(found[did(2).as_str()].len(), 1);
        assert_eq!(found.len(), 2);
        // Self-labels of a hidden account's record are ignored; labels by others stay in force.
        set_status(&db, 1, AccountStatus::TakenDown).await;
        let found = labels::active(&db, &subjects, Timestamp(100)).await.unwrap();
        assert_eq!(found[&a.to_string()].iter().filter(|held| held.cts.is_none()).count(), 0);
        assert!(found[&a.to_string()].contains(&spam));
    }
}
