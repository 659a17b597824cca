//! Filters: every operator on every type gives the same result on both databases.

use crate::store::testing::TestDb;
use serde_json::{Value, json};

use super::fixtures::*;

use crate::query::{Filter, Query};
use crate::store::query;

use crate::store::Db;

/// Stores one record per value, with its position as the rkey.
async fn store(db: &Db, values: &[Value]) {
    let changes = values
        .iter()
        .enumerate()
        .map(|(n, value)| put(&uri(1, NOTE, &format!("r{n}")), 1, &value.to_string()))
        .collect();
    apply(db, 1, changes).await;
}

/// Positions of the records that match, in order.
async fn matching(db: &Db, filter: &Value) -> Vec<usize> {
    let query =
        Query { limit: 100, filter: Some(Filter::from_json(filter).unwrap()), ..Query::of(nsid(NOTE)) };
    let page = query::read(db, &query, &US).await.unwrap_or_else(|e| panic!("{filter}: {e}"));
    let mut found: Vec<usize> = page.rows.iter().map(|row| row.rkey[1..].parse().unwrap()).collect();
    found.sort_unstable();
    found
}

async fn assert_matches(db: &Db, cases: &[(&str, Value, &[usize])]) {
    for (op, value, expected) in cases {
        let filter = json!({"field": "v", "op": op, "value": value});
        assert_eq!(matching(db, &filter).await, *expected, "v {op} {value}");
    }
}

/// The same values for every type's test.
fn values() -> Vec<Value> {
    vec![
        json!({"v": 5}),                         // 0
        json!({"v": 50}),                        // 1
        json!({"v": -1.5}),                      // 2
        json!({"v": 5.0}),                       // 3
        json!({"v": "5"}),                       // 4
        json!({"v": "apple"}),                   // 5
        json!({"v": "Apple"}),                   // 6
        json!({"v": "äpfel"}),                   // 7
        json!({"v": "50% off_x"}),               // 8
        json!({"v": true}),                      // 9
        json!({"v": false}),                     // 10
        json!({"v": null}),                      // 11
        json!({}),                               // 12
        json!({"v": [5]}),                       // 13
        json!({"v": {"a": 5}}),                  // 14
        json!({"v": 9_007_199_254_740_993_i64}), // 15
        json!({"v": ""}),                        // 16
    ]
}

on_both!(numbers, strings, booleans, like, lists, ranges, presence, paths, groups, values_can_not_inject_sql);

async fn numbers(db: TestDb) {
    store(&db, &values()).await;
    assert_matches(
        &db,
        &[
            ("=", json!(5), &[0, 3]),
            ("=", json!(5.0), &[0, 3]),
            ("=", json!(-1.5), &[2]),
            ("!=", json!(5), &[1, 2, 4, 5, 6, 7, 8, 9, 10, 13, 14, 15, 16]),
            ("<", json!(5), &[2]),
            ("<=", json!(5), &[0, 2, 3]),
            (">", json!(5), &[1, 15]),
            (">=", json!(5), &[0, 1, 3, 15]),
            (">", json!(4.5), &[0, 1, 3, 15]),
            ("=", json!(9_007_199_254_740_993_i64), &[15]),
            ("=", json!(9_007_199_254_740_992_i64), &[]),
            (">", json!(9_007_199_254_740_992_i64), &[15]),
            ("<", json!(i64::MAX), &[0, 1, 2, 3, 15]),
        ],
    )
    .await;
}

async fn strings(db: TestDb) {
    store(&db, &values()).await;
    assert_matches(
        &db,
        &[
            ("=", json!("5"), &[4]),
            ("=", json!("apple"), &[5]),
            ("=", json!(""), &[16]),
            ("!=", json!("apple"), &[0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 13, 14, 15, 16]),
            // Ordered by code point: digits, capitals, small letters, the rest.
            ("<", json!("apple"), &[4, 6, 8, 16]),
            (">", json!("apple"), &[7]),
            (">=", json!("apple"), &[5, 7]),
            ("<=", json!("5"), &[4, 16]),
            (">", json!("5"), &[5, 6, 7, 8]),
        ],
    )
    .await;
}

async fn booleans(db: TestDb) {
    store(&db, &values()).await;
    assert_matches(
        &db,
        &[
            ("=", json!(true), &[9]),
            ("=", json!(false), &[10]),
            ("!=", json!(true), &[0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16]),
            ("<", json!(true), &[10]),
            ("<=", json!(true), &[9, 10]),
            (">", json!(false), &[9]),
            (">=", json!(false), &[9, 10]),
        ],
    )
    .await;
}

async fn like(db: TestDb) {
    store(&db, &values()).await;
    assert_matches(
        &db,
        &[
            ("LIKE", json!("a%"), &[5, 6]),
            ("like", json!("_pp%"), &[5, 6]),
            ("LIKE", json!("APPLE"), &[5, 6]),
            // Only ASCII letters match regardless of case.
            ("LIKE", json!("Ä%"), &[]),
            ("LIKE", json!("ä%"), &[7]),
            ("LIKE", json!("50\\% off%"), &[8]),
            ("LIKE", json!("%off\\_x"), &[8]),
            ("LIKE", json!("%off\\x_"), &[]),
            ("LIKE", json!("%\\"), &[]),
            ("LIKE", json!("%"), &[4, 5, 6, 7, 8, 16]),
            ("LIKE", json!(""), &[16]),
            ("NOT LIKE", json!("%p%"), &[0, 1, 2, 3, 4, 8, 9, 10, 13, 14, 15, 16]),
        ],
    )
    .await;
}

async fn lists(db: TestDb) {
    store(&db, &values()).await;
    assert_matches(
        &db,
        &[
            ("IN", json!([5, "5", true]), &[0, 3, 4, 9]),
            ("in", json!([5.0, 50, 7]), &[0, 1, 3]),
            ("IN", json!(["", "äpfel", "APPLE"]), &[7, 16]),
            ("IN", json!([9_007_199_254_740_992_i64]), &[]),
            ("NOT IN", json!([5, "5", true]), &[1, 2, 5, 6, 7, 8, 10, 13, 14, 15, 16]),
            ("NOT IN", json!(["x"]), &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 14, 15, 16]),
        ],
    )
    .await;
}

async fn ranges(db: TestDb) {
    store(&db, &values()).await;
    assert_matches(
        &db,
        &[
            ("BETWEEN", json!([-1.5, 5]), &[0, 2, 3]),
            ("BETWEEN", json!([5, -1.5]), &[]),
            ("BETWEEN", json!(["", "Apple"]), &[4, 6, 8, 16]),
            ("BETWEEN", json!([false, true]), &[9, 10]),
            ("PREFIX", json!("a"), &[5]),
            ("PREFIX", json!("5"), &[4, 8]),
            ("PREFIX", json!("ä"), &[7]),
            ("PREFIX", json!("%"), &[]),
            ("PREFIX", json!(""), &[4, 5, 6, 7, 8, 16]),
        ],
    )
    .await;
}

async fn presence(db: TestDb) {
    store(&db, &values()).await;
    let is = |field: &str, op: &str| json!({"field": field, "op": op});
    assert_eq!(matching(&db, &is("v", "MISSING")).await, [11, 12]);
    assert_eq!(matching(&db, &is("v", "EXISTS")).await, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 14, 15, 16]);
    assert_eq!(matching(&db, &is("v.a", "exists")).await, [14]);
    assert_eq!(matching(&db, &is("v[0]", "EXISTS")).await, [13]);
    assert_eq!(matching(&db, &json!([is("v.a", "MISSING"), is("v", "EXISTS")])).await.len(), 14);
}

async fn paths(db: TestDb) {
    store(
        &db,
        &[
            json!({"a": {"b": [{"c": 1}, {"c": 2}]}}), // 0
            json!({"a": {"b": [{"c": 2}]}}),           // 1
            json!({"a": [1, [2, 3]]}),                 // 2
            json!({"a": {"0": 1}}),                    // 3
            json!({"0": {"1": "x"}}),                  // 4
            json!({"a.b": 1, "a": "text"}),            // 5
            json!({"camelCase_1": 1}),                 // 6
        ],
    )
    .await;
    for (field, value, expected) in [
        ("a.b[0].c", json!(1), vec![0]),
        ("a.b[1].c", json!(2), vec![0]),
        ("a.b[2].c", json!(2), vec![]),
        ("a[0]", json!(1), vec![2]),
        ("a[1][1]", json!(3), vec![2]),
        // A string is no array.
        ("a[0]", json!("text"), vec![]),
        ("a[0][0]", json!("text"), vec![]),
        // A key is not an index and an index is not a key.
        ("a.0", json!(1), vec![3]),
        ("0.1", json!("x"), vec![4]),
        ("a.b", json!(1), vec![]),
        ("camelCase_1", json!(1), vec![6]),
        ("camelcase_1", json!(1), vec![]),
    ] {
        let filter = json!({"field": field, "value": value});
        assert_eq!(matching(&db, &filter).await, expected, "{filter}");
    }
}

async fn groups(db: TestDb) {
    let values: Vec<_> = (0..8).map(|n| json!({"x": n & 1, "y": n >> 1 & 1, "z": n >> 2})).collect();
    store(&db, &values).await;
    let is = |field: &str, value: i32| json!({"field": field, "value": value});
    for (filter, expected) in [
        (json!([is("x", 1), is("y", 1)]), vec![3, 7]),
        (json!({"combine": "OR", "children": [is("x", 1), is("y", 1)]}), vec![1, 2, 3, 5, 6, 7]),
        (
            json!({"combine": "or", "1": [is("x", 1), is("y", 1)], "2": [is("x", 0), is("z", 1)]}),
            vec![3, 4, 6, 7],
        ),
        (
            json!([is("z", 1), {"combine": "OR", "children": [is("x", 1), [is("x", 0), is("y", 1)]]}]),
            vec![5, 6, 7],
        ),
        (json!([[[[is("x", 1)]]]]), vec![1, 3, 5, 7]),
    ] {
        assert_eq!(matching(&db, &filter).await, expected, "{filter}");
    }
}

async fn values_can_not_inject_sql(db: TestDb) {
    store(&db, &[json!({"v": "' OR 1=1 --"}), json!({"v": "a"})]).await;
    assert_matches(
        &db,
        &[
            ("=", json!("' OR 1=1 --"), &[0]),
            ("=", json!("'; DROP TABLE records; --"), &[]),
            ("LIKE", json!("' OR%"), &[0]),
            ("LIKE", json!(format!("{}b", "%a".repeat(124))), &[]),
        ],
    )
    .await;
}
