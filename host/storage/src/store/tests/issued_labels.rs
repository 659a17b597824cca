//! The labels of this instance: their log, and those in force.

use super::fixtures::*;

use crate::store::index::AccountStatus;
use crate::store::issued_labels::latest::{LatestLabels, Pattern, latest};
use crate::store::issued_labels::{self, IssuedLabel};
use crate::store::labels::{self, Label};
use crate::store::testing::TestDb;
use belvedere_base::clock::Timestamp;

const US_AS_LABELER: &str = "did:web:index.example";

on_both!(
    labels_are_a_log_of_what_changes,
    the_latest_of_each_subject_is_found,
    pages_have_every_latest_label_once,
    a_version_has_labels_of_its_own,
    the_log_and_what_is_in_force_agree
);

fn label(uri: &str, val: &str, neg: bool, at: i64) -> Label {
    let (src, val) = (US_AS_LABELER.to_owned(), val.to_owned());
    Label { uri: uri.to_owned(), src, val, cid: None, neg, cts: Timestamp(at), exp: None }
}

async fn issue(db: &TestDb, label: Label) -> Option<i64> {
    let now = label.cts;
    issued_labels::issue(db, &[label], "did:plc:op", now).await.unwrap().pop().map(|issued| issued.seq)
}

fn shown(found: &[IssuedLabel]) -> Vec<(&str, &str, bool)> {
    found.iter().map(|one| (one.label.uri.as_str(), one.label.val.as_str(), one.label.neg)).collect()
}

async fn labels_are_a_log_of_what_changes(db: TestDb) {
    assert_eq!(issue(&db, label("did:plc:a", "spam", true, 1)).await, None, "nothing to negate");
    let first = issue(&db, label("did:plc:a", "spam", false, 2)).await.unwrap();
    assert_eq!(issue(&db, label("did:plc:a", "spam", false, 3)).await, None);
    let expiring = Label { exp: Some(Timestamp(10)), ..label("did:plc:a", "rude", false, 4) };
    let second = issue(&db, expiring.clone()).await.unwrap();
    assert_eq!(issue(&db, Label { cts: Timestamp(5), ..expiring.clone() }).await, None);
    let third = issue(&db, Label { cts: Timestamp(11), exp: Some(Timestamp(20)), ..expiring }).await.unwrap();
    let fourth = issue(&db, label("did:plc:a", "spam", true, 12)).await.unwrap();
    assert!(first < second && second < third && third < fourth);
    assert_eq!(issued_labels::last_seq(&db).await.unwrap(), fourth);
    let log = issued_labels::after(&db, US_AS_LABELER, first, 10).await.unwrap();
    assert_eq!(log.iter().map(|one| one.seq).collect::<Vec<_>>(), [second, third, fourth]);
    assert_eq!(issued_labels::after(&db, "did:web:other.example", 0, 10).await.unwrap(), []);
    assert_eq!(issued_labels::list(&db, Some("did:plc:a"), Some(fourth), 1).await.unwrap()[0].seq, third);
    let active = labels::active(&db, &["did:plc:a".to_owned()], Timestamp(15)).await.unwrap();
    let active = &active["did:plc:a"];
    assert_eq!((active.len(), active[0].val.as_str(), active[0].src.as_str()), (1, "rude", US_AS_LABELER));
}

async fn is_in_force(db: &TestDb, subject: &str) -> bool {
    labels::active(db, &[subject.to_owned()], Timestamp(90)).await.unwrap().contains_key(subject)
}

async fn the_log_and_what_is_in_force_agree(db: TestDb) {
    let note = uri(1, NOTE, "a").to_string();
    issue(&db, label(&note, "spam", false, 20)).await.unwrap();
    // By a host whose clock is behind.
    issue(&db, label(&note, "spam", true, 10)).await.unwrap();
    assert!(!is_in_force(&db, &note).await);
    issue(&db, label(&note, "spam", false, 30)).await.unwrap();
    // The label goes with the records of its account, but not from the log.
    apply(&db, 1, vec![put(&uri(1, NOTE, "a"), 1, "{}")]).await;
    set_status(&db, 1, AccountStatus::Deleted).await;
    assert!(!is_in_force(&db, &note).await);
    assert_eq!(issue(&db, label(&note, "spam", false, 40)).await, None);
    assert!(is_in_force(&db, &note).await);
}

async fn the_latest_of_each_subject_is_found(db: TestDb) {
    let (note, other) = (uri(1, NOTE, "a").to_string(), uri(1, NOTE, "ab").to_string());
    for (n, one) in [note.as_str(), other.as_str(), "did:plc:b"].into_iter().enumerate() {
        issue(&db, label(one, "spam", false, n as i64)).await.unwrap();
    }
    issue(&db, label(&note, "spam", true, 9)).await.unwrap();
    let find = async |patterns: &[Pattern], after, limit| find(&db, patterns, after, limit).await;
    let exact = [Pattern::Exact(note.clone())];
    assert_eq!(shown(&find(&exact, None, 10).await.labels), [(note.as_str(), "spam", true)]);
    let both = [Pattern::Prefix(note.clone())];
    let all = [(note.as_str(), "spam", true), (other.as_str(), "spam", false)];
    assert_eq!(shown(&find(&both, None, 10).await.labels), all);
    let everything = find(&[Pattern::Prefix(String::new())], None, 10).await;
    assert_eq!((everything.labels.len(), everything.next), (3, None));
    let two = [Pattern::Exact("did:plc:b".to_owned()), Pattern::Exact(note.clone())];
    let first = find(&two, None, 1).await;
    assert_eq!(shown(&first.labels), [(note.as_str(), "spam", true)]);
    let second = find(&two, first.next, 1).await;
    assert_eq!((shown(&second.labels), second.next), (vec![("did:plc:b", "spam", false)], None));
    assert_eq!(find(&[], None, 10).await.labels, []);
    assert!(latest(&db, US_AS_LABELER, &two, (Some(999), 1), &US).await.unwrap().is_none());
    assert!(latest(&db, "did:web:other.example", &two, (first.next, 1), &US).await.unwrap().is_none());
}

async fn find(db: &TestDb, patterns: &[Pattern], after: Option<i64>, limit: u32) -> LatestLabels {
    latest(db, US_AS_LABELER, patterns, (after, limit), &US).await.unwrap().unwrap()
}

/// Replaced labels cost a page its room only when there are very many.
async fn pages_have_every_latest_label_once(db: TestDb) {
    let log: Vec<Label> = (0..6_400)
        .map(|n| {
            // Each of 40 subjects has 80 labels with its first value, and then one of each of 80 other values.
            let (uri, n) = (format!("did:plc:{:02}", n % 40), n / 40);
            if n < 80 { label(&uri, "flips", n % 2 == 1, n) } else { label(&uri, &format!("v{n}"), false, n) }
        })
        .collect();
    issued_labels::issue(&db, &log, "did:plc:op", Timestamp(9_000)).await.unwrap();
    let (mut seen, mut after, mut pages) = (Vec::new(), None, 0);
    loop {
        let page = find(&db, &[Pattern::Prefix("did:".to_owned())], after, 250).await;
        seen.extend(page.labels.into_iter().map(|one| (one.label.uri, one.label.val, one.label.neg)));
        (after, pages) = (page.next, pages + 1);
        if after.is_none() {
            break;
        }
    }
    assert!(seen.is_sorted() && seen.windows(2).all(|pair| pair[0] != pair[1]));
    assert_eq!((seen.len(), pages), (40 * 81, 13));
    assert_eq!(seen.iter().filter(|one| one.1 == "flips" && one.2).count(), 40);
}

async fn a_version_has_labels_of_its_own(db: TestDb) {
    let cid = Some("bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a".to_owned());
    issue(&db, label("did:plc:a", "spam", false, 1)).await.unwrap();
    let versioned = Label { cid, ..label("did:plc:a", "spam", false, 2) };
    issue(&db, versioned.clone()).await.unwrap();
    issue(&db, Label { neg: true, cts: Timestamp(3), ..versioned }).await.unwrap();
    let patterns = [Pattern::Exact("did:plc:a".to_owned())];
    let found = find(&db, &patterns, None, 10).await;
    assert_eq!(shown(&found.labels), [("did:plc:a", "spam", false), ("did:plc:a", "spam", true)]);
}
