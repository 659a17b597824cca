//! Sorting by a field: by type, then value, then id; the same on both databases, in pages of any size.

use crate::store::testing::TestDb;
use serde_json::{Value, json};

use super::fixtures::*;

use crate::query::{Direction, Query, Sort};
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
    let mut query = Query { limit, sort: Some(sort), ..Query::of(nsid(NOTE)) };
    let mut seen = Vec::new();
    loop {
        let page = query::read(db, &query, &US).await.unwrap();
        seen.extend(page.rows.iter().map(|row| row.rkey[1..].parse::<usize>().unwrap()));
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
    ties_page_stably_under_inserts
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
