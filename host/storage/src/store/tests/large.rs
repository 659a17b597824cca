//! Pages of large records: they end at a MiB, have at least one record, and together have every record once.

use crate::store::testing::TestDb;
use bytes::Bytes;
use serde_json::json;

use super::field_indexes::build_all;
use super::fixtures::*;

use crate::query::{Backlinks, Direction, Filter, Links, Position, Query, Search, Sort};
use crate::store::query;
use crate::store::records::{
    self, PAGE_BYTES, Page, PartialRow, RecordRow, Room, backlinks, complete, get_many_full,
};
use crate::store::search;

use crate::store::Db;
use belvedere_web::fair_share::Tenant;

const TARGET: &str = "at://did:plc:target/com.example.note/1";

/// Sizes of the records in the order in which they are stored: small ones, some that are fetched separately, some of
/// which one fills a page, and one that is larger than a page.
const SIZES: [usize; 16] = [
    10, 900_000, 900_000, 20, 30_000, 30_000, 30_000, 30_000, 30_000, 30_000, 11_000, 900_000, 1_048_000, 10,
    400_000, 400_000,
];

/// `noise` does not compress, so that PostgreSQL's stored size is that of the text; `x`s do.
fn text(n: usize, size: usize) -> String {
    if n.is_multiple_of(2) {
        return "x".repeat(size);
    }
    let mut state = n as u64 + 1;
    let mut noise = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'a' + (state >> 59) as u8 % 26)
    };
    (0..size).map(|_| noise()).collect()
}

/// On PostgreSQL every third has no text beside its value.
async fn store(db: &Db) {
    for (n, size) in SIZES.into_iter().enumerate() {
        let record = json!({"n": n, "even": n % 2 == 0, "find": "needle", "text": text(n, size)}).to_string();
        let put = put_with_refs(&uri(n as u32 % 3, NOTE, &format!("r{n}")), 1, &record, &[TARGET]);
        apply(db, n as i64 / 3, vec![put]).await;
    }
    if matches!(db, Db::Postgres(_)) {
        change(db, |of| format!("UPDATE {} SET record_text = NULL WHERE id % 3 = 0", of.records)).await;
    }
}

/// The numbers of all records, page by page.
async fn walk(mut next: impl AsyncFnMut(Option<Position>) -> Page) -> Vec<u64> {
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = next(after).await;
        let bytes: usize = page.rows.iter().map(|row| row.record.len()).sum();
        assert!(!page.rows.is_empty(), "a page has a record");
        assert!(
            bytes <= PAGE_BYTES || page.rows.len() == 1,
            "{bytes} bytes on a page of {}",
            page.rows.len()
        );
        for row in &page.rows {
            let record = json(row);
            let n = record["n"].as_u64().unwrap();
            assert_eq!(record["text"].as_str().unwrap().len(), SIZES[n as usize], "{n} is whole");
            seen.push(n);
        }
        after = page.next;
        if after.is_none() {
            return seen;
        }
    }
}

async fn read_all(db: &Db, query: &Query) -> Vec<u64> {
    walk(async |after| query::read(db, &Query { after, ..query.clone() }, &US).await.unwrap()).await
}

fn all() -> Vec<u64> {
    (0..SIZES.len() as u64).collect()
}

fn newest_first() -> Vec<u64> {
    all().into_iter().rev().collect()
}

on_both!(
    lists_return_all_records,
    a_record_that_was_deleted_during_the_read_is_left_out,
    the_admin_list_returns_all_records,
    queries_return_all_records_with_and_without_an_index,
    backlinks_return_all_records,
    a_search_ends_at_the_page_size,
    records_by_uri_share_one_bound,
    a_deletion_between_pages_does_not_end_the_list
);

async fn lists_return_all_records(db: TestDb) {
    store(&db).await;
    for limit in [1, 2, 5, 16, 100] {
        let query = Query { limit, ..Query::of(nsid(NOTE)) };
        assert_eq!(read_all(&db, &query).await, newest_first(), "{limit}");
    }
    let of_one = Query { limit: 100, did: Some(did(1)), ..Query::of(nsid(NOTE)) };
    assert_eq!(read_all(&db, &of_one).await, [13, 10, 7, 4, 1]);
}

async fn a_record_that_was_deleted_during_the_read_is_left_out(db: TestDb) {
    let record = json!({ "text": "x".repeat(20_000) }).to_string();
    let (old, new) = (uri(1, NOTE, "old"), uri(2, NOTE, "new"));
    apply(&db, 1, vec![put(&old, 1, &record)]).await;
    let found = records::get(&db, &old).await.unwrap().unwrap();
    let row = RecordRow { record: Bytes::new(), ..found };
    let read = async || {
        let found = PartialRow { row: row.clone(), size: 20_000, values: Vec::new() };
        complete(&db, vec![found], 1, Room::of(PAGE_BYTES)).await.unwrap().rows.pop()
    };
    assert!(read().await.unwrap().record.len() >= record.len());
    assert!(records::delete(&db, &old).await.unwrap());
    assert!(read().await.is_none());
    apply(&db, 2, vec![put(&new, 1, &record)]).await;
    let id = records::get(&db, &new).await.unwrap().unwrap().id;
    // SQLite gives the id again.
    assert_eq!(id == row.id, matches!(*db, Db::Sqlite(_)));
    assert!(read().await.is_none());
}

async fn the_admin_list_returns_all_records(db: TestDb) {
    store(&db).await;
    let seen = walk(async |after| {
        let query = Query { after, limit: 100, ..Query::of(nsid(NOTE)) };
        let page = query::read_full(&db, &query, &Tenant::Instance).await.unwrap();
        Page { rows: page.rows.into_iter().map(|full| full.row).collect(), next: page.next, previous: None }
    });
    assert_eq!(seen.await, newest_first());
}

async fn queries_return_all_records_with_and_without_an_index(db: TestDb) {
    store(&db).await;
    let even = Filter::from_json(&json!({"field": "even", "value": true})).unwrap();
    let any = Filter::from_json(&json!({"field": "n", "op": ">=", "value": 0})).unwrap();
    let by = |key, direction| Some(Sort::parse(key, direction).unwrap());
    let query = Query { limit: 100, ..Query::of(nsid(NOTE)) };
    let cases = [
        (Query { filter: Some(even.clone()), ..query.clone() }, vec![14, 12, 10, 8, 6, 4, 2, 0]),
        (Query { filter: Some(any), ..query.clone() }, newest_first()),
        (Query { sort: by("n", Direction::Asc), ..query.clone() }, all()),
        (Query { sort: by("n", Direction::Desc), ..query.clone() }, newest_first()),
        (Query { sort: by("indexed_at", Direction::Asc), ..query.clone() }, all()),
        (
            Query { filter: Some(even), sort: by("n", Direction::Asc), ..query },
            vec![0, 2, 4, 6, 8, 10, 12, 14],
        ),
    ];
    for (n, (query, expected)) in cases.iter().enumerate() {
        assert_eq!(read_all(&db, query).await, *expected, "{n}");
    }
    build_all(&db).await;
    for (n, (query, expected)) in cases.iter().enumerate() {
        assert_eq!(read_all(&db, query).await, *expected, "by an index: {n}");
    }
}

async fn backlinks_return_all_records(db: TestDb) {
    store(&db).await;
    for did in [None, Some(did(0))] {
        let links = Backlinks {
            links: Links { collection: nsid(NOTE), path: None },
            target: TARGET.to_owned(),
            did,
            limit: 100,
            after: None,
            uris_only: false,
        };
        let seen = walk(async |after| {
            backlinks::read(&db, &Backlinks { after, ..links.clone() }, &US).await.unwrap()
        });
        let expected = if links.did.is_some() { vec![15, 12, 9, 6, 3, 0] } else { newest_first() };
        assert_eq!(seen.await, expected);
    }
}

async fn a_search_ends_at_the_page_size(db: TestDb) {
    store(&db).await;
    let search = Search::parse(nsid(NOTE), &["find"], "needle".to_owned(), Some(100), None).unwrap();
    let rows = search::read(&db, &search, &US).await.unwrap().rows;
    let numbers: Vec<u64> = rows.iter().map(|row| json(row)["n"].as_u64().unwrap()).collect();
    // Equal matches are ordered by age: the third record would exceed the size.
    assert_eq!(numbers, [0, 1]);
}

async fn records_by_uri_share_one_bound(db: TestDb) {
    store(&db).await;
    let uris = |from: usize, to: usize| -> Vec<_> {
        (from..to).map(|n| uri(n as u32 % 3, NOTE, &format!("r{n}"))).collect()
    };
    let whole = get_many_full(&db, &uris(0, 16), Room::of(8 << 20)).await.unwrap();
    assert_eq!(whole.next, None);
    let mut rows: Vec<&RecordRow> = whole.rows.iter().map(|full| &full.row).collect();
    rows.sort_by_key(|row| row.id);
    let lengths = rows.iter().map(|row| json(row)["text"].as_str().unwrap().len());
    assert_eq!(lengths.collect::<Vec<_>>(), SIZES);
    let cut = get_many_full(&db, &uris(0, 16), Room::of(PAGE_BYTES)).await.unwrap();
    assert!(
        cut.next.is_some() && cut.rows.iter().map(|full| full.row.record.len()).sum::<usize>() <= PAGE_BYTES
    );
    let twice = get_many_full(&db, &[uris(1, 2), uris(1, 2)].concat(), Room::of(8 << 20)).await.unwrap();
    assert_eq!(twice.rows.len(), 2);
}

async fn a_deletion_between_pages_does_not_end_the_list(db: TestDb) {
    store(&db).await;
    let query = Query { limit: 2, ..Query::of(nsid(NOTE)) };
    let first = query::read(&db, &query, &US).await.unwrap();
    apply(&db, 50, (2..14).map(|n| take(&uri(n % 3, NOTE, &format!("r{n}")), 2)).collect()).await;
    let rest = walk(async |after| {
        let after = after.or(first.next.clone());
        query::read(&db, &Query { after, ..query.clone() }, &US).await.unwrap()
    });
    assert_eq!(rest.await, [1, 0]);
}
