//! Indexes of record fields: expensive queries get one, and return the same as without it.

use crate::store::testing::TestDb;
use serde_json::{Value, json};

use super::fixtures::*;

use crate::query::{Direction, Filter, Query, Sort};
use crate::store::query;

use crate::store::fields::advice::advise;
use crate::store::fields::table::{self, State};
use crate::store::testing::sqlite;
use crate::store::{Db, StoreError};
use belvedere_base::clock::{Clock, Timestamp};

pub(super) const NOW: Timestamp = Timestamp(1_800_000_000_000_000);

pub(super) async fn execute(db: &Db, sql: &'static str) {
    match db {
        Db::Sqlite(db) => drop(sqlx::raw_sql(sql).execute(&db.writer).await.unwrap()),
        Db::Postgres(db) => drop(sqlx::raw_sql(sql).execute(&db.pool).await.unwrap()),
    }
}

/// Makes all queries so far count as expensive enough, and builds the missing indexes.
pub(super) async fn build_all(db: &Db) {
    let clock = Clock::fixed(NOW);
    advise(db, &clock, 0).await.unwrap();
    execute(db, "UPDATE field_indexes SET scans = 1, scan_micros = 9000000 - id WHERE state = 0").await;
    loop {
        advise(db, &clock, 100).await.unwrap();
        let entries = table::list(db).await.unwrap();
        if let Some(failed) = entries.iter().find(|entry| entry.state == State::Failed) {
            panic!("{failed:?}");
        }
        if entries.iter().all(|entry| entry.state == State::Ready) {
            return;
        }
    }
}

pub(super) async fn states(db: &Db) -> Vec<(String, &'static str, &'static str)> {
    let entries = table::list(db).await.unwrap();
    let mut states: Vec<_> =
        entries.iter().map(|e| (e.key.path.to_string(), e.key.kind.as_str(), e.state.as_str())).collect();
    states.sort();
    states
}

/// Values of every type, several of each, some larger than an index key.
pub(super) fn values() -> Vec<Value> {
    let long = "ä".repeat(300);
    let mut values = vec![
        json!({"v": 5}),
        json!({"v": 5.0}),
        json!({"v": 50}),
        json!({"v": -1.5}),
        json!({"v": 0.1}),
        json!({"v": 9_007_199_254_740_993_i64}),
        json!({"v": i64::MIN}),
        json!({"v": 1e300}),
        json!({"v": "5"}),
        json!({"v": ""}),
        json!({"v": "apple"}),
        json!({"v": "Apple"}),
        json!({"v": "äpfel"}),
        json!({"v": long}),
        json!({"v": format!("{long}a")}),
        json!({"v": format!("{long}b")}),
        json!({"v": true}),
        json!({"v": false}),
        json!({"v": null}),
        json!({}),
        json!({"v": [5]}),
        json!({"v": {"a": 5}}),
    ];
    for n in 0..40 {
        values.push(json!({"v": n % 7, "w": {"x": [format!("w{}", n % 5)]}}));
    }
    values
}

pub(super) async fn store(db: &Db, first: usize, values: &[Value]) {
    for (n, value) in values.iter().enumerate() {
        let n = first + n;
        let at = i64::try_from(n / 3).unwrap();
        apply(db, at, vec![put(&uri(n as u32 % 4, NOTE, &format!("r{n}")), 1, &value.to_string())]).await;
    }
}

fn queries() -> Vec<Query> {
    let operands: Vec<Value> =
        values().iter().filter_map(|value| value.get("v")).filter(|v| !v.is_null()).cloned().collect();
    let mut filters = vec![None];
    for value in operands.iter().filter(|value| !value.is_array() && !value.is_object()) {
        for op in ["=", "<", "<=", ">", ">=", "!="] {
            filters.push(Some(json!({"field": "v", "op": op, "value": value})));
        }
    }
    filters.extend([
        Some(json!([{"field": "v", "op": ">", "value": 2}, {"field": "v", "op": "<", "value": 5}])),
        Some(json!([{"field": "v", "value": 3}, {"field": "w.x[0]", "value": "w3"}])),
        Some(
            json!({"combine": "OR", "1": {"field": "v", "value": 3}, "2": {"field": "v", "value": "apple"}}),
        ),
        Some(json!([{"field": "v", "value": 3}, {"field": "v", "value": "apple"}])),
        Some(json!([{"field": "v", "op": ">", "value": 3}, {"field": "v", "op": "<", "value": "z"}])),
        Some(json!({"field": "v", "op": "IN", "value": [5, 3, 2.0, 1e300]})),
        Some(json!([{"field": "v", "op": "IN", "value": [5, 3]}, {"field": "w.x[0]", "value": "w3"}])),
        Some(json!({"field": "w.x[0]", "op": "IN", "value": ["w1", "w3", "w9"]})),
        Some(json!({"field": "v", "op": "BETWEEN", "value": ["A", "apple"]})),
        Some(json!({"field": "w.x[0]", "op": "PREFIX", "value": "w"})),
    ]);
    let sort = |key, direction| Some(Sort::parse(key, direction).unwrap());
    let sorts = [
        None,
        sort("indexed_at", Direction::Asc),
        sort("v", Direction::Asc),
        sort("v", Direction::Desc),
        sort("w.x[0]", Direction::Desc),
        sort("uri", Direction::Asc),
    ];
    let mut queries = Vec::new();
    for filter in &filters {
        for sort in &sorts {
            let filter = filter.as_ref().map(|filter| Filter::from_json(filter).unwrap());
            queries.push(Query { filter, sort: sort.clone(), limit: 7, ..Query::of(nsid(NOTE)) });
        }
    }
    queries
}

/// The result of a read. One that ends at its time limit is repeated: the machine may be busy with other tests.
pub(super) async fn unhurried<T>(mut read: impl AsyncFnMut() -> Result<T, StoreError>) -> T {
    for _ in 0..20 {
        match read().await {
            Err(StoreError::TooSlow) => {}
            read => return read.unwrap(),
        }
    }
    panic!("it is too slow each time");
}

/// All pages of a query.
pub(super) async fn pages(db: &Db, query: &Query) -> Vec<String> {
    let (mut query, mut found) = (query.clone(), Vec::new());
    loop {
        let page = unhurried(async || query::read(db, &query, &US).await).await;
        found.extend(page.rows.into_iter().map(|row| row.rkey));
        if page.next.is_none() {
            return found;
        }
        query.after = page.next;
    }
}

on_both!(
    queries_return_the_same_with_an_index,
    hidden_accounts_stay_hidden,
    the_plan_is_the_index,
    lists_and_prefixes_read_the_index,
    a_range_of_the_sorted_field_is_a_part_of_its_index
);

async fn queries_return_the_same_with_an_index(db: TestDb) {
    store(&db, 0, &values()).await;
    let queries = queries();
    let mut expected = Vec::new();
    for query in &queries {
        expected.push(pages(&db, query).await);
    }
    build_all(&db).await;
    let kinds = states(&db).await;
    let index = |path: &str, kind| (path.to_owned(), kind, "ready");
    assert_eq!(
        kinds,
        [index("v", "filter"), index("v", "sort"), index("w.x[0]", "filter"), index("w.x[0]", "sort")]
    );
    for (query, expected) in queries.iter().zip(&expected) {
        assert_eq!(pages(&db, query).await, *expected, "{query:?}");
        assert_eq!(pages_from_end(&db, query).await, *expected, "from the end: {query:?}");
    }

    // A page read by the collection and the next read by the index fit together, and indexes follow later writes.
    apply(&db, 90, vec![take(&uri(0, NOTE, "r0"), 2), put(&uri(2, NOTE, "r2"), 2, r#"{"v":"apple"}"#)]).await;
    let apples = Query {
        filter: Some(Filter::from_json(&json!({"field": "v", "value": "apple"})).unwrap()),
        ..Query::of(nsid(NOTE))
    };
    assert_eq!(pages(&db, &apples).await, ["r10", "r2"]);
    let fives = Filter::from_json(&json!({"field": "v", "value": 5})).unwrap();
    let fives = Query { filter: Some(fives), ..Query::of(nsid(NOTE)) };
    let found = pages(&db, &fives).await;
    assert!(!found.contains(&"r0".to_owned()) && found.contains(&"r1".to_owned()), "{found:?}");
}

async fn hidden_accounts_stay_hidden(db: TestDb) {
    store(&db, 0, &values()).await;
    let by_value = Query { sort: Some(Sort::parse("v", Direction::Asc).unwrap()), ..Query::of(nsid(NOTE)) };
    pages(&db, &by_value).await;
    build_all(&db).await;
    let before = pages(&db, &by_value).await.len();
    set_status(&db, 1, crate::store::index::AccountStatus::Deactivated).await;
    assert_eq!(pages(&db, &by_value).await.len(), before - values().len().div_ceil(4));
}

async fn the_plan_is_the_index(db: TestDb) {
    let changes = (0..20_000_u32).map(|n| {
        let (author, flag, pad) = (n % 500, n % 100 == 0, "x".repeat(200));
        let record = format!(r#"{{"n":{n},"author":"a{author}","flag":{flag},"pad":"{pad}"}}"#);
        put(&uri(n % 100, NOTE, &format!("r{n}")), 1, &record)
    });
    apply(&db, 1, changes.collect()).await;
    let filters = [
        json!({"field": "author", "value": "a7"}),
        json!([{"field": "n", "op": ">=", "value": 19_950}]),
        json!({"field": "n", "value": 7}),
        json!({"field": "flag", "value": true}),
    ]
    .map(|filter| Filter::from_json(&filter).unwrap());
    let sorts = ["n", "author", "flag"]
        .map(|key| [Direction::Asc, Direction::Desc].map(|d| Sort::parse(key, d).unwrap()))
        .concat();
    let newest = |filter: &Filter| Query { filter: Some(filter.clone()), ..Query::of(nsid(NOTE)) };
    let sorted = |sort: &Sort| Query { sort: Some(sort.clone()), ..Query::of(nsid(NOTE)) };
    let all: Vec<_> = filters.iter().map(newest).chain(sorts.iter().map(sorted)).collect();
    for args in &all {
        query::read(&db, args, &US).await.unwrap();
    }
    build_all(&db).await;
    for (n, args) in all.iter().enumerate() {
        let plan = query::explain(&db, args, &US).await.unwrap();
        // SQLite's plans show the alias of the table that is the index.
        assert!(plan.contains("field_index_") || plan.contains("SEARCH f USING PRIMARY KEY"), "{n}: {plan}");
        assert!(!plan.contains("Seq Scan on records") && !plan.contains("SCAN r"), "{n}: {plan}");
        // Only a range needs a sort: its few rows are in the order of the value, not of the time.
        let in_order = n != 1;
        // The page itself is sorted once more after the index was read.
        let sorts = plan.matches("TEMP B-TREE").count() + plan.matches("Sort  (").count();
        assert!(!in_order || sorts <= usize::from(n >= filters.len()), "{n}: {plan}");
        let found = query::read(&db, args, &US).await.unwrap().rows.len();
        assert_eq!(found, if n == 2 { 1 } else { 20 }, "{n}");
    }
    // Beside an equality that many records match, with an index or without, the index of the range is read.
    let beside =
        [json!({"field": "flag", "value": false}), json!({"field": "pad", "value": "x".repeat(200)})]
            .map(|equal| json!([equal, {"field": "n", "op": ">=", "value": 19_990}]))
            .map(|filter| Filter::from_json(&filter).unwrap());
    for filter in &beside {
        let plan = query::explain(&db, &newest(filter), &US).await.unwrap();
        let reads_range = match &*db {
            Db::Sqlite(_) => plan.contains("key>?"),
            // The one for filters or the one for sorts.
            Db::Postgres(_) => {
                plan.lines().any(|line| line.contains("Index Cond") && line.contains("-> 'n'"))
            }
        };
        assert!(reads_range, "{plan}");
        assert_eq!(query::read(&db, &newest(filter), &US).await.unwrap().rows.len(), 10);
    }
}

async fn lists_and_prefixes_read_the_index(db: TestDb) {
    let record = |n: u32| json!({"kind": format!("k{}", n % 4), "name": format!("n{n:05}")}).to_string();
    apply(&db, 1, (0..12_000).map(|n| put(&uri(n % 100, NOTE, &format!("r{n}")), 1, &record(n))).collect())
        .await;
    let query = |field: &str, op: &str, value: Value| {
        let filter = json!({"field": field, "op": op, "value": value});
        Query { filter: Some(Filter::from_json(&filter).unwrap()), limit: 100, ..Query::of(nsid(NOTE)) }
    };
    // Three thousand records of each kind: the kinds are read one after the other.
    let merged = query("kind", "IN", json!(["k3", "k1", "absent"]));
    let sorted = [
        query("name", "IN", json!(["n00003", "n11999", "absent"])),
        query("name", "PREFIX", json!("n0012")),
        query("name", "BETWEEN", json!(["n00100", "n00119"])),
    ];
    let before = pages(&db, &merged).await;
    for query in &sorted {
        pages(&db, query).await;
    }
    build_all(&db).await;
    assert_eq!(before.len(), 6_000);
    assert!(pages(&db, &merged).await == before, "the index has another order");
    for query in sorted.iter().chain([&merged]) {
        let plan = query::explain(&db, query, &US).await.unwrap();
        assert!(plan.contains("field_index_") || plan.contains("SEARCH f USING PRIMARY KEY"), "{plan}");
    }
    let found = [pages(&db, &sorted[0]).await.len(), pages(&db, &sorted[1]).await.len()];
    assert_eq!((found, pages(&db, &sorted[2]).await.len()), ([2, 10], 20));
}

async fn a_range_of_the_sorted_field_is_a_part_of_its_index(db: TestDb) {
    let record =
        |n: u32| json!({"n": if n.is_multiple_of(3) { json!(n) } else { json!(n.to_string()) }}).to_string();
    let changes = (0..6_000).map(|n| put(&uri(n % 100, NOTE, &format!("r{n}")), 1, &record(n)));
    apply(&db, 1, changes.collect()).await;
    let query = |filter: Value, direction| Query {
        filter: Some(Filter::from_json(&filter).unwrap()),
        sort: Some(Sort::parse("n", direction).unwrap()),
        ..Query::of(nsid(NOTE))
    };
    let within = |from: u32, to: u32| {
        json!([
            {"field": "n", "op": ">=", "value": from}, {"field": "n", "op": "<", "value": to}
        ])
    };
    let queries: Vec<_> = [Direction::Asc, Direction::Desc]
        .into_iter()
        .flat_map(|direction| {
            let mixed =
                json!([{"field": "n", "op": ">", "value": 5}, {"field": "n", "op": "<", "value": "6"}]);
            [within(2_990, 3_100), mixed, json!({"field": "n", "op": "<=", "value": "59"})]
                .map(|filter| query(filter, direction))
        })
        .collect();
    let mut expected = Vec::new();
    for query in &queries {
        expected.push(pages(&db, query).await);
    }
    build_all(&db).await;
    // An index for filters would not help.
    assert_eq!(states(&db).await, [("n".to_owned(), "sort", "ready")]);
    for (query, expected) in queries.iter().zip(&expected) {
        assert_eq!(pages(&db, query).await, *expected, "{query:?}");
    }
    assert_eq!(expected.iter().map(Vec::len).collect::<Vec<_>>()[..2], [37, 0]);

    let args = query(within(2_990, 3_100), Direction::Asc);
    let plan = query::explain(&db, &args, &US).await.unwrap();
    let part = match *db {
        Db::Sqlite(_) => "(class=? AND key>? AND key<?)",
        Db::Postgres(_) => ">= ",
    };
    assert!(plan.contains(part), "{plan}");
}

#[tokio::test]
async fn an_index_has_no_entries_of_other_collections() {
    let db = sqlite().await;
    store(&db, 0, &values()).await;
    let query = Query { sort: Some(Sort::parse("v", Direction::Asc).unwrap()), ..Query::of(nsid(NOTE)) };
    pages(&db, &query).await;
    build_all(&db).await;
    apply(&db, 1, vec![put(&uri(1, LIKE, "x"), 1, r#"{"v":1}"#)]).await;
    let likes = Query { sort: query.sort.clone(), ..Query::of(nsid(LIKE)) };
    assert_eq!(pages(&db, &likes).await, ["x"]);
    assert!(!pages(&db, &query).await.contains(&"x".to_owned()));
}
