//! A level of a tree: the records that link to any of many targets, the oldest of the first targets.

use super::fixtures::*;
use crate::query::{Below, Hidden, Links};
use crate::store::Db;
use crate::store::index::{AccountStatus, Change};
use crate::store::records::{PAGE_BYTES, Room, below};
use crate::store::testing::TestDb;

fn target(n: u32) -> String {
    uri(n, NOTE, "target").to_string()
}

/// A reply of an account to a target.
fn reply(n: u32, rkey: &str, of: u32, record: &str) -> Change {
    let mut change = put_with_refs(&uri(n, LIKE, rkey), 1, record, &[&target(of)]);
    "parent".clone_into(&mut change.record.as_mut().unwrap().refs[0].paths);
    change
}

fn wanted(path: Option<&str>, limit: u32) -> Below {
    let links = Links { collection: nsid(LIKE), path: path.map(str::to_owned) };
    Below { links, limit, hidden: Hidden::NONE }
}

async fn read(db: &Db, below: &Below, targets: &[String]) -> Vec<(usize, String)> {
    let page = below::read(db, below, targets, Room::of(PAGE_BYTES), &US).await.unwrap();
    assert!(page.next.is_none());
    page.rows.into_iter().map(|found| (found.target, found.row.rkey)).collect()
}

fn keys(found: &[(usize, &str)]) -> Vec<(usize, String)> {
    found.iter().map(|(target, rkey)| (*target, (*rkey).to_owned())).collect()
}

/// Three replies to the first target, one to the second, none to the third.
async fn fill(db: &TestDb) {
    for (n, (account, rkey, of)) in (1_i64..).zip([(1, "a", 1), (2, "b", 1), (3, "c", 2), (4, "d", 1)]) {
        apply(db, n, vec![reply(account, rkey, of, "{}")]).await;
    }
}

on_both!(
    the_oldest_of_the_first_targets_are_read,
    hidden_accounts_are_left_out,
    large_records_end_a_level,
    a_level_of_a_thousand_is_one_walk
);

async fn the_oldest_of_the_first_targets_are_read(db: TestDb) {
    fill(&db).await;
    let targets = [target(3), target(1), target(2)];
    let all = keys(&[(1, "a"), (1, "b"), (1, "d"), (2, "c")]);
    for path in [None, Some("parent")] {
        assert_eq!(read(&db, &wanted(path, 9), &targets).await, all);
        for limit in 1..=4 {
            assert_eq!(read(&db, &wanted(path, limit), &targets).await, all[..limit as usize]);
        }
    }
    assert_eq!(read(&db, &wanted(Some("root"), 9), &targets).await, []);
    assert_eq!(read(&db, &wanted(None, 9), &[]).await, []);
    let mut unknown = wanted(None, 9);
    unknown.links.collection = nsid("com.example.none");
    assert_eq!(read(&db, &unknown, &targets).await, []);
}

async fn hidden_accounts_are_left_out(db: TestDb) {
    fill(&db).await;
    set_status(&db, 2, AccountStatus::TakenDown).await;
    let hides = Below { hidden: Hidden { accounts: vec![did(1)], ..Hidden::NONE }, ..wanted(None, 2) };
    assert_eq!(read(&db, &hides, &[target(1), target(2)]).await, keys(&[(0, "d"), (1, "c")]));
}

async fn large_records_end_a_level(db: TestDb) {
    let text = format!("{{\"text\":\"{}\"}}", "x".repeat(20_000));
    apply(&db, 1, (1..=5).map(|n| reply(n, "large", 1, &text)).collect()).await;
    let read =
        async |bytes| below::read(&db, &wanted(None, 9), &[target(1)], Room::of(bytes), &US).await.unwrap();
    let (all, few) = (read(1_000_000).await, read(50_000).await);
    assert_eq!((all.rows.len(), all.next.is_some()), (5, false));
    assert!(all.rows.iter().all(|found| found.row.record.len() > 20_000));
    assert_eq!((few.rows.len(), few.next.is_some()), (2, true));
}

async fn a_level_of_a_thousand_is_one_walk(db: TestDb) {
    let replies = (0..1_100_u32).map(|n| reply(n % 50, &format!("r{n}"), n % 2, "{}"));
    apply(&db, 1, replies.collect()).await;
    let targets: Vec<String> = (0..1_000).map(target).collect();
    let found = read(&db, &wanted(Some("parent"), 1_000), &targets).await;
    assert_eq!(found.len(), 1_000);
    assert_eq!((found[549].0, found[550].0), (0, 1));
    let plan = below::explain(&db, &wanted(Some("parent"), 1_000), &targets).await.unwrap();
    match &*db {
        Db::Sqlite(_) => {
            assert!(plan.contains("SEARCH f USING PRIMARY KEY (target=? AND collection_id=?)"), "{plan}");
            assert!(!plan.contains("TEMP B-TREE") && !plan.contains("SCAN r"), "{plan}");
        }
        Db::Postgres(_) => {
            let mut steps = plan.lines().map(|line| line.trim().trim_start_matches("->").trim());
            assert!(steps.next().unwrap().starts_with("Limit"), "{plan}");
            assert!(
                steps.next().unwrap().starts_with("Nested Loop"),
                "the first targets end the read: {plan}"
            );
        }
    }
}
