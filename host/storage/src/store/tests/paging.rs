//! Keyset paging: every row is returned once, even with writes between the pages.

use crate::store::testing::TestDb;
use serde_json::json;

use super::fixtures::*;

use crate::query::{Filter, Query};
use crate::store::query;
use crate::store::records::Page;

use crate::store::Db;
use belvedere_web::fair_share::Tenant;

async fn read(db: &Db, query: &Query) -> Page {
    query::read(db, query, &US).await.unwrap()
}

/// All rkeys, page by page, with a write between the pages.
async fn walk(db: &Db, mut query: Query, write_between: bool) -> Vec<String> {
    let mut seen = Vec::new();
    loop {
        let page = read(db, &query).await;
        if !write_between {
            assert_eq!(pages_before(db, &query, page.previous.clone()).await, seen);
        }
        seen.extend(page.rows.iter().map(|row| row.rkey.clone()));
        if write_between {
            let n = seen.len() as u64;
            let old = uri(1, NOTE, &seen[0]);
            apply(db, 1_000_000, vec![put(&uri(1, NOTE, &format!("new{n}")), 1, r#"{"keep":true}"#)]).await;
            apply(db, 1_000_000, vec![put(&old, 100 + n, r#"{"keep":true,"updated":true}"#)]).await;
        }
        if !advance(&mut query, page.next) {
            return seen;
        }
    }
}

on_both!(
    newest_first_with_ties,
    stable_while_rows_are_written,
    stable_with_a_filter_and_an_account,
    a_cursor_only_when_more_exist,
    going_back_finds_what_was_there_and_what_is_new,
    nothing_indexed_is_an_empty_page
);

async fn going_back_finds_what_was_there_and_what_is_new(db: TestDb) {
    for n in 0..6 {
        apply(&db, n, vec![put(&uri(1, NOTE, &format!("r{n}")), 1, "{}")]).await;
    }
    let first = Query { limit: 2, ..Query::of(nsid(NOTE)) };
    let second = Query { after: read(&db, &first).await.next, ..first.clone() };
    let page = read(&db, &second).await;
    // A row that is new is before the ones that were first.
    apply(&db, 9, vec![put(&uri(1, NOTE, "new"), 1, "{}"), take(&uri(1, NOTE, "r5"), 2)]).await;
    assert_eq!(pages_before(&db, &second, page.previous).await, ["new", "r4"]);
    let deleted = ["r3", "r2", "r1", "r0"].map(|rkey| take(&uri(1, NOTE, rkey), 2));
    apply(&db, 10, deleted.into()).await;
    let empty = read(&db, &second).await;
    assert_eq!((empty.rows.len(), empty.next, empty.previous), (0, None, None));
}

async fn newest_first_with_ties(db: TestDb) {
    // Three batches; the rows of a batch have the same time.
    for batch in 0..3_u32 {
        let changes = (0..10).map(|n| put(&uri(1, NOTE, &format!("b{batch}n{n}")), 1, "{}")).collect();
        apply(&db, i64::from(batch), changes).await;
    }
    let query = Query { limit: 4, ..Query::of(nsid(NOTE)) };
    let seen = walk(&db, query, false).await;
    assert_eq!(seen.len(), 30);
    let batches: Vec<_> = seen.iter().map(|rkey| rkey[1..2].parse::<u32>().unwrap()).collect();
    assert!(batches.is_sorted_by(|a, b| a >= b));
    let mut unique = seen.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), 30);
}

async fn stable_while_rows_are_written(db: TestDb) {
    for n in 0..20 {
        apply(&db, n / 3, vec![put(&uri(1, NOTE, &format!("r{n:02}")), 1, r#"{"keep":true}"#)]).await;
    }
    let expected: Vec<_> = (0..20).rev().map(|n| format!("r{n:02}")).collect();
    let query = Query { limit: 3, ..Query::of(nsid(NOTE)) };
    assert_eq!(walk(&db, query.clone(), true).await, expected);
}

async fn stable_with_a_filter_and_an_account(db: TestDb) {
    for n in 0..20_u32 {
        let record = format!(r#"{{"keep":{}}}"#, n % 2 == 0);
        apply(&db, 5, vec![put(&uri(1 + n % 3, NOTE, &format!("r{n:02}")), 1, &record)]).await;
    }
    let filter = Filter::from_json(&json!({"field": "keep", "value": true})).unwrap();
    let query = Query { limit: 3, filter: Some(filter), ..Query::of(nsid(NOTE)) };
    assert_eq!(walk(&db, query.clone(), false).await.len(), 10);
    let query = Query { did: Some(did(1)), limit: 1, ..query };
    assert_eq!(walk(&db, query, false).await, ["r18", "r12", "r06", "r00"]);
    let query = Query { did: Some(did(1)), limit: 2, ..Query::of(nsid(NOTE)) };
    assert_eq!(walk(&db, query, false).await, ["r18", "r15", "r12", "r09", "r06", "r03", "r00"]);
}

async fn a_cursor_only_when_more_exist(db: TestDb) {
    let changes = (0..4).map(|n| put(&uri(n, NOTE, "a"), 1, "{}")).collect();
    apply(&db, 1, changes).await;
    for (limit, more) in [(3, true), (4, false), (5, false)] {
        let query = Query { limit, ..Query::of(nsid(NOTE)) };
        assert_eq!(read(&db, &query).await.next.is_some(), more);
        assert_eq!(query::read_full(&db, &query, &Tenant::Instance).await.unwrap().next.is_some(), more);
    }
}

async fn nothing_indexed_is_an_empty_page(db: TestDb) {
    let page = read(&db, &Query::of(nsid("com.example.unknown"))).await;
    assert!(page.rows.is_empty() && page.next.is_none());
    let query = Query { did: Some(did(99)), ..Query::of(nsid(NOTE)) };
    assert!(read(&db, &query).await.rows.is_empty());
}
