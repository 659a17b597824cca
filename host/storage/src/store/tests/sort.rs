//! Sorting by a field: by type, then value, then id; the same on both databases, in pages of any size.

use std::cmp::Ordering;

use crate::store::testing::TestDb;
use serde_json::{Value, json};

use super::fixtures::*;

use crate::query::{Direction, Filter, Query, Sort};
use crate::store::query;

use crate::store::Db;

async fn store(db: &Db, values: &[Value]) {
    for (n, value) in values.iter().enumerate() {
        let account = 1 + n as u32 % 2;
        apply(db, 100 - n as i64, vec![put(&uri(account, NOTE, &format!("r{n}")), 1, &value.to_string())])
            .await;
    }
}

/// Positions of the records in this order, read in pages of `limit`.
async fn sorted(db: &Db, key: &str, direction: Direction, limit: u32) -> Vec<usize> {
    let sort = Sort::parse(key, direction).unwrap();
    positions(db, Query { limit, sort: Some(sort), ..Query::of(nsid(NOTE)) }).await
}

/// Positions of the records that a query finds on all its pages.
async fn positions(db: &Db, mut query: Query) -> Vec<usize> {
    let number = |rkey: &String| rkey[1..].parse::<usize>().unwrap();
    let mut seen = Vec::new();
    loop {
        let page = query::read(db, &query, &US).await.unwrap();
        if page.next.is_none() {
            let before = pages_before(db, &query, page.previous).await;
            assert_eq!(before.iter().map(number).collect::<Vec<_>>(), seen, "the way back has the same rows");
        }
        seen.extend(page.rows.iter().map(|row| number(&row.rkey)));
        if !advance(&mut query, page.next) {
            return seen;
        }
    }
}

async fn assert_order(db: &Db, key: &str, ascending: &[usize], descending: &[usize]) {
    for limit in [1, 2, 3, 100] {
        assert_eq!(sorted(db, key, Direction::Asc, limit).await, ascending, "{key} asc by {limit}");
        assert_eq!(sorted(db, key, Direction::Desc, limit).await, descending, "{key} desc by {limit}");
    }
}

on_both!(
    by_type_then_value_then_id,
    by_columns,
    nested_fields,
    long_strings_and_extreme_numbers,
    ties_page_stably_under_inserts,
    several_keys_in_pages_of_any_size
);

async fn by_type_then_value_then_id(db: TestDb) {
    store(
        &db,
        &[
            json!({"v": 10}),                        // 0
            json!({"v": 9}),                         // 1
            json!({"v": "b"}),                       // 2
            json!({"v": "a"}),                       // 3
            json!({"v": "B"}),                       // 4
            json!({"v": true}),                      // 5
            json!({"v": false}),                     // 6
            json!({"v": null}),                      // 7
            json!({}),                               // 8
            json!({"v": {"a": 1}}),                  // 9
            json!({"v": 9.5}),                       // 10
            json!({"v": 9}),                         // 11
            json!({"v": "a"}),                       // 12
            json!({"v": 0.1}),                       // 13
            json!({"v": 9_007_199_254_740_993_i64}), // 14
            json!({"v": 9_007_199_254_740_992_i64}), // 15
            json!({"v": -3}),                        // 16
            json!({"v": "ä"}),                       // 17
        ],
    )
    .await;
    assert_order(
        &db,
        "v",
        &[16, 13, 1, 11, 10, 0, 15, 14, 4, 3, 12, 2, 17, 6, 5, 7, 8, 9],
        &[5, 6, 17, 2, 12, 3, 4, 14, 15, 0, 10, 11, 1, 13, 16, 9, 8, 7],
    )
    .await;
}

async fn by_columns(db: TestDb) {
    store(&db, &vec![json!({}); 5]).await;
    // Even records belong to the first account; later ones were indexed earlier.
    assert_order(&db, "indexed_at", &[4, 3, 2, 1, 0], &[0, 1, 2, 3, 4]).await;
    assert_order(&db, "did", &[0, 2, 4, 1, 3], &[3, 1, 4, 2, 0]).await;
    assert_order(&db, "uri", &[0, 2, 4, 1, 3], &[3, 1, 4, 2, 0]).await;
}

async fn nested_fields(db: TestDb) {
    store(&db, &[json!({"a": {"b": [3]}}), json!({"a": {"b": [1]}}), json!({"a": {"b": [2]}})]).await;
    assert_order(&db, "a.b[0]", &[1, 2, 0], &[0, 2, 1]).await;
}

async fn long_strings_and_extreme_numbers(db: TestDb) {
    let long = "x".repeat(5_000);
    store(
        &db,
        &[
            json!({"v": format!("{long}b")}), // 0: ordered by id alone
            json!({"v": format!("{long}a")}), // 1
            json!({"v": "🎉".repeat(300)}),   // 2
            json!({"v": 1e300}),              // 3
            json!({"v": -1e300}),             // 4
            json!({"v": i64::MAX}),           // 5
            json!({"v": i64::MIN}),           // 6
            json!({"v": 1e-7}),               // 7
        ],
    )
    .await;
    assert_order(&db, "v", &[4, 6, 7, 5, 3, 0, 1, 2], &[2, 1, 0, 3, 5, 7, 6, 4]).await;
}

async fn ties_page_stably_under_inserts(db: TestDb) {
    for n in 0..9 {
        apply(&db, 1, vec![put(&uri(1, NOTE, &format!("r{n}")), 1, r#"{"v":1}"#)]).await;
    }
    let sort = Sort::parse("v", Direction::Asc).unwrap();
    let mut query = Query { limit: 2, sort: Some(sort), ..Query::of(nsid(NOTE)) };
    let mut seen = Vec::new();
    for round in 0.. {
        let page = query::read(&db, &query, &US).await.unwrap();
        seen.extend(page.rows.iter().map(|row| row.rkey.clone()));
        // Sorts before the page, so it must not be in it.
        apply(&db, 1, vec![put(&uri(1, NOTE, &format!("new{round}")), 1, r#"{"v":0}"#)]).await;
        match page.next {
            Some(next) => query.after = Some(next),
            None => break,
        }
    }
    assert_eq!(seen, ["r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8"]);
}

/// A value's place in an ascending order: its type, then its value. A missing one has none.
fn place(value: Option<&Value>) -> Option<(u8, i64, String)> {
    match value? {
        Value::Number(number) => Some((0, number.as_i64()?, String::new())),
        Value::String(text) => Some((1, 0, text.clone())),
        Value::Bool(value) => Some((2, i64::from(*value), String::new())),
        _ => None,
    }
}

fn by_place(a: Option<&Value>, b: Option<&Value>, direction: Direction) -> Ordering {
    match (place(a), place(b)) {
        (Some(a), Some(b)) if direction == Direction::Desc => b.cmp(&a),
        (Some(a), Some(b)) => a.cmp(&b),
        // Last in both directions.
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}

async fn several_keys_in_pages_of_any_size(db: TestDb) {
    let values = [json!(1), json!(2), json!("a"), json!("b"), json!(true), Value::Null];
    // Each combination of two values twice, in an order that differs from those of the keys.
    let records: Vec<Value> =
        (0..72).map(|n| n * 29 % 72).map(|n| json!({"v": values[n % 6], "w": values[n / 6 % 6]})).collect();
    store(&db, &records).await;
    let filter = Filter::from_json(&json!({"field": "v", "op": "<=", "value": 2})).unwrap();
    for (v, w) in [
        (Direction::Asc, Direction::Desc),
        (Direction::Desc, Direction::Asc),
        (Direction::Desc, Direction::Desc),
    ] {
        for filter in [None, Some(filter.clone())] {
            let mut expected: Vec<usize> = (0..records.len()).collect();
            if filter.is_some() {
                expected.retain(|n| records[*n]["v"].is_i64());
            }
            expected.sort_by(|a, b| {
                let by = |field: &str, direction| {
                    by_place(records[*a].get(field), records[*b].get(field), direction)
                };
                by("v", v).then(by("w", w)).then(if v == Direction::Asc { a.cmp(b) } else { b.cmp(a) })
            });
            for limit in [1, 7, 100] {
                let sort = Sort::parse_keys([("v", v), ("w", w)]).unwrap();
                let query = Query { limit, sort, filter: filter.clone(), ..Query::of(nsid(NOTE)) };
                assert_eq!(positions(&db, query).await, expected, "{v:?} {w:?} by {limit}");
            }
        }
    }
    // Later records were indexed earlier, and even ones belong to the first account.
    let sort =
        Sort::parse_keys([("did", Direction::Desc), ("v", Direction::Asc), ("indexed_at", Direction::Asc)]);
    let query = Query { limit: 5, sort: sort.unwrap(), ..Query::of(nsid(NOTE)) };
    let found = positions(&db, query).await;
    let mut expected: Vec<usize> = (0..records.len()).collect();
    expected.sort_by(|a, b| {
        (b % 2)
            .cmp(&(a % 2))
            .then(by_place(records[*a].get("v"), records[*b].get("v"), Direction::Asc))
            .then(b.cmp(a))
    });
    assert_eq!(found, expected);
}
