//! The records that belong to each of many targets, the accounts that an account links to, and hidden records.

use belvedere_protocol::atproto::Did;

use super::fixtures::*;
use crate::query::{Direction, HasLabel, Hidden, Links, Query, Related, Relation};
use crate::store::index::{AccountStatus, Change};
use crate::store::labels::Label;
use crate::store::records::{PAGE_BYTES, Room, linked_accounts, related, shown_links};
use crate::store::testing::TestDb;
use crate::store::{Db, query};
use belvedere_base::clock::Timestamp;

const LABELER: &str = "did:plc:labelerlabelerlabelerlab";
const NOW: Timestamp = Timestamp(1_800_000_000_000_000);

fn target(n: u32) -> String {
    uri(n, NOTE, "target").to_string()
}

/// A like of a target at this path.
fn like(n: u32, rkey: &str, of: &str, paths: &str) -> Change {
    let mut change = put_with_refs(&uri(n, LIKE, rkey), 1, "{}", &[of]);
    let refs = &mut change.record.as_mut().unwrap().refs;
    paths.clone_into(&mut refs[0].paths);
    change
}

fn wanted(relation: Relation, limit: u32) -> Related {
    Related { collection: nsid(LIKE), relation, direction: Direction::Desc, limit, hidden: Hidden::NONE }
}

fn at(path: Option<&str>) -> Relation {
    Relation::Link { path: path.map(str::to_owned) }
}

/// The target and the key of each record.
async fn read(db: &Db, related: &Related, targets: &[String]) -> Vec<(usize, String)> {
    let page = related::read(db, related, targets, Room::of(PAGE_BYTES), &US).await.unwrap();
    assert!(page.next.is_none());
    page.rows.into_iter().map(|found| (found.target, found.row.rkey)).collect()
}

fn keys(found: &[(usize, &str)]) -> Vec<(usize, String)> {
    found.iter().map(|(target, rkey)| (*target, (*rkey).to_owned())).collect()
}

/// Three targets: the first has three likes at `subject` and one elsewhere, the second one, the third none.
async fn fill(db: &TestDb) {
    let likes = [
        (1, "a", 1, "subject"),
        (2, "b", 1, "subject"),
        (3, "c", 2, "subject"),
        (1, "d", 1, "other"),
        (4, "e", 1, "subject"),
    ];
    for (n, (account, rkey, of, path)) in (1_i64..).zip(likes) {
        apply(db, n, vec![like(account, rkey, &target(of), path)]).await;
    }
}

on_both!(
    each_target_has_its_first_records,
    records_of_accounts_are_their_first,
    large_answers_end,
    accounts_are_listed_from_links,
    accounts_are_listed_that_link,
    counts_are_of_the_records_that_are_shown,
    hidden_records_are_left_out,
    many_targets_take_an_index
);

async fn each_target_has_its_first_records(db: TestDb) {
    fill(&db).await;
    let targets = [target(2), target(3), target(1)];
    let of = |path, limit| wanted(at(path), limit);
    assert_eq!(read(&db, &of(Some("subject"), 2), &targets).await, keys(&[(0, "c"), (2, "e"), (2, "b")]));
    assert_eq!(read(&db, &of(None, 3), &targets).await, keys(&[(0, "c"), (2, "e"), (2, "d"), (2, "b")]));
    let oldest = Related { direction: Direction::Asc, ..of(Some("subject"), 2) };
    assert_eq!(read(&db, &oldest, &targets).await, keys(&[(0, "c"), (2, "a"), (2, "b")]));
    assert_eq!(read(&db, &of(None, 3), &[]).await, []);
    assert_eq!(
        read(&db, &Related { collection: nsid("com.example.none"), ..of(None, 3) }, &targets).await,
        []
    );
    set_status(&db, 4, AccountStatus::TakenDown).await;
    assert_eq!(read(&db, &of(Some("subject"), 2), &targets).await, keys(&[(0, "c"), (2, "b"), (2, "a")]));
}

async fn records_of_accounts_are_their_first(db: TestDb) {
    fill(&db).await;
    let dids = [did(9).to_string(), did(1).to_string(), did(3).to_string()];
    assert_eq!(read(&db, &wanted(Relation::Author, 5), &dids).await, keys(&[(1, "d"), (1, "a"), (2, "c")]));
    assert_eq!(read(&db, &wanted(Relation::Author, 1), &dids).await, keys(&[(1, "d"), (2, "c")]));
}

async fn large_answers_end(db: TestDb) {
    let text = format!("{{\"text\":\"{}\"}}", "x".repeat(20_000));
    for n in 1..=3 {
        let mut change = put_with_refs(&uri(n, LIKE, "large"), 1, &text, &[&target(1)]);
        "subject".clone_into(&mut change.record.as_mut().unwrap().refs[0].paths);
        apply(&db, i64::from(n), vec![change]).await;
    }
    let targets: Vec<String> = (0..2_000).map(target).collect();
    let all = related::read(&db, &wanted(at(None), 50), &targets, Room::of(100_000), &US).await.unwrap();
    assert_eq!((all.rows.len(), all.next.is_none()), (3, true));
    assert!(all.rows.iter().all(|found| found.target == 1 && found.row.record.len() > 20_000));
    let few = related::read(&db, &wanted(at(None), 50), &targets, Room::of(50_000), &US).await.unwrap();
    assert_eq!((few.rows.len(), few.next.is_some()), (2, true));
}

async fn accounts_are_listed_from_links(db: TestDb) {
    for (n, of) in
        (1_u32..).zip([did(5).to_string(), did(6).to_string(), target(1), "did:nonsense".to_owned()])
    {
        apply(&db, i64::from(n), vec![like(1, &format!("f{n}"), &of, "subject")]).await;
    }
    let links = |path: Option<&str>| Links { collection: nsid(LIKE), path: path.map(str::to_owned) };
    let read = async |account: u32, path: Option<&str>, limit: usize| {
        linked_accounts::read(&db, &did(account), &links(path), limit, &US).await.unwrap()
    };
    assert_eq!(read(1, Some("subject"), 10).await, [did(6), did(5)]);
    assert_eq!(read(1, None, 3).await, [did(6)], "the newest records are read");
    assert_eq!(read(1, Some("other"), 10).await, []);
    assert_eq!(read(2, None, 10).await, []);
    set_status(&db, 1, AccountStatus::Deactivated).await;
    assert_eq!(read(1, None, 10).await, []);
}

async fn accounts_that_link(db: &Db, path: Option<&str>, limit: usize) -> Vec<Did> {
    let links = Links { collection: nsid(LIKE), path: path.map(str::to_owned) };
    linked_accounts::linking(db, &did(9), &links, limit, &US).await.unwrap()
}

async fn accounts_are_listed_that_link(db: TestDb) {
    let likes = [(1, "subject"), (2, "subject"), (3, "other"), (1, "subject")];
    for (n, (account, path)) in (1_i64..).zip(likes) {
        apply(&db, n, vec![like(account, &format!("b{n}"), did(9).as_str(), path)]).await;
    }
    apply(&db, 9, vec![like(4, "b", did(8).as_str(), "subject")]).await;
    assert_eq!(accounts_that_link(&db, None, 10).await, [did(1), did(3), did(2), did(1)]);
    assert_eq!(accounts_that_link(&db, Some("subject"), 2).await, [did(1), did(2)]);
    assert_eq!(accounts_that_link(&db, Some("none"), 2).await, []);
}

async fn counts_are_of_the_records_that_are_shown(db: TestDb) {
    fill(&db).await;
    let bad = Label {
        uri: uri(2, LIKE, "b").to_string(),
        src: LABELER.to_owned(),
        val: "bad".to_owned(),
        cid: None,
        neg: false,
        cts: Timestamp(1),
        exp: None,
    };
    store_labels(&db, LABELER, &[bad]).await;
    let labels = vec![HasLabel::new("bad".to_owned(), NOW).unwrap()];
    let both = Hidden { labels: labels.clone(), accounts: vec![did(1)] };
    let targets = [target(3), target(1), target(2)];
    let count = async |path: Option<&str>, hidden: &Hidden| {
        let links = Links { collection: nsid(LIKE), path: path.map(str::to_owned) };
        shown_links::count(&db, &links, hidden, &targets, &US).await.unwrap()
    };
    assert_eq!(count(Some("subject"), &Hidden::NONE).await, [0, 3, 1]);
    assert_eq!(count(Some("subject"), &Hidden { labels, accounts: Vec::new() }).await, [0, 2, 1]);
    assert_eq!(count(Some("subject"), &both).await, [0, 1, 1]);
    assert_eq!(count(None, &both).await, [0, 1, 1]);
    let many = (0..250).map(|n| like(1, &format!("m{n}"), &target(1), "subject")).collect();
    apply(&db, 20, many).await;
    for _ in 0..2 {
        assert_eq!(count(Some("subject"), &both).await, [0, 253, 1], "many links are not looked through");
    }
    let links = Links { collection: nsid(LIKE), path: None };
    let plan = shown_links::explain(&db, &links, &both, &targets).await.unwrap();
    assert!(!plan.contains("SCAN r") && !plan.contains("SCAN f") && !plan.contains("SCAN d"), "{plan}");
}

async fn hidden_records_are_left_out(db: TestDb) {
    fill(&db).await;
    let own = "{\"labels\":{\"values\":[{\"val\":\"bad\"}]}}";
    apply(&db, 9, vec![put_with_refs(&uri(5, LIKE, "own"), 1, own, &[&target(1)])]).await;
    let bad = |uri: String| Label {
        uri,
        src: LABELER.to_owned(),
        val: "bad".to_owned(),
        cid: None,
        neg: false,
        cts: Timestamp(1),
        exp: None,
    };
    store_labels(&db, LABELER, &[bad(uri(2, LIKE, "b").to_string()), bad(did(3).to_string())]).await;
    let labels = vec![HasLabel::new("bad".to_owned(), NOW).unwrap()];
    let hidden = Hidden { labels, accounts: vec![did(4)] };
    let related = Related { hidden: hidden.clone(), ..wanted(at(None), 9) };
    assert_eq!(read(&db, &related, &[target(1), target(2)]).await, keys(&[(0, "d"), (0, "a")]));

    let accounts: Vec<Did> = (1..=5).map(did).collect();
    for dids in [None, Some(accounts)] {
        let mut query = Query { dids, limit: 2, ..Query::of(nsid(LIKE)) };
        query.narrow.hidden = hidden.clone();
        let page = query::read(&db, &query, &US).await.unwrap();
        let found: Vec<_> = page.rows.iter().map(|row| row.rkey.as_str()).collect();
        assert_eq!(found, ["d", "a"], "the page is full");
    }
}

async fn many_targets_take_an_index(db: TestDb) {
    fill(&db).await;
    let targets: Vec<String> = (0..100).map(target).collect();
    for relation in [at(Some("subject")), Relation::Author] {
        let plan = related::explain(&db, &wanted(relation.clone(), 3), &targets).await.unwrap();
        let (is_sqlite, by_link) = (plan.contains("SEARCH"), relation != Relation::Author);
        let index = match (is_sqlite, by_link) {
            (true, true) => "SEARCH f USING PRIMARY KEY (target=? AND collection_id=?)",
            (true, false) => "records_list_did",
            (false, true) => "record_refs",
            (false, false) => "records",
        };
        assert!(plan.contains(index), "{relation:?}: {plan}");
        assert!(!plan.contains("SCAN r") && !plan.contains("SCAN f"), "{plan}");
    }
}
