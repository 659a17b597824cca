//! Counts by values, compared with a model in Rust, on both databases, with an index for the filter and without.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use super::field_indexes::{build_all, store, unhurried};
use super::fixtures::*;

use crate::query::group::{Group, GroupKey};
use crate::query::{Direction, Filter, Query};
use crate::store::index::AccountStatus;
use crate::store::testing::TestDb;
use crate::store::{Db, query};
use belvedere_base::clock::Timestamp;

const DAY: i64 = 86_400_000_000;

async fn grouped(db: &Db, group: &Group) -> Vec<Value> {
    let rows = unhurried(async || query::group(db, group, &US).await).await;
    rows.into_iter().map(|row| Value::from(group.object(row))).collect()
}

fn key(field: &str) -> GroupKey {
    GroupKey::parse(field, None, None).unwrap()
}

fn bucket(field: &str, bucket: &str) -> GroupKey {
    GroupKey::parse(field, Some(bucket), None).unwrap()
}

fn notes() -> Query {
    Query::of(nsid(NOTE))
}

fn by(keys: Vec<GroupKey>) -> Group {
    Group::new(notes(), keys, [], None).unwrap()
}

on_both!(
    groups_agree_with_the_model,
    arrays_that_are_written_differently_are_one,
    buckets_are_those_of_the_calendar,
    texts_that_are_no_datetimes_have_no_bucket,
    columns_of_rows_are_keys,
    orders_and_limits,
    hidden_accounts_are_left_out
);

fn value() -> impl Strategy<Value = Option<Value>> {
    const BEYOND_DOUBLES: i64 = 1 << 53;
    prop_oneof![
        4 => prop::sample::select(vec!["", "a", "A", "ä", "🎉", "1", "true"]).prop_map(|text| Some(json!(text))),
        1 => (255..258_usize).prop_map(|n| Some(json!("ä".repeat(n)))),
        3 => (-2..3_i64).prop_map(|n| Some(json!(n))),
        1 => (BEYOND_DOUBLES..BEYOND_DOUBLES + 3).prop_map(|n| Some(json!(n))),
        1 => prop::sample::select(vec![0.5, 1.0, -1.5, 1e300]).prop_map(|n| Some(json!(n))),
        2 => any::<bool>().prop_map(|value| Some(json!(value))),
        1 => Just(Some(Value::Null)),
        1 => Just(None),
        3 => prop::collection::vec(element(), 0..3).prop_map(|list| Some(json!(list))),
        1 => Just(Some(json!({ "a": 1 }))),
        1 => (250..260_usize, prop::sample::select(vec!["x", "ä"])).prop_map(|(n, of)| Some(json!([of.repeat(2 * n)]))),
        1 => (254..258_usize).prop_map(|n| Some(json!(vec![1; n]))),
    ]
}

/// An element of an array, of which few are equal although their JSON differs.
fn element() -> impl Strategy<Value = Value> {
    const BEYOND: i64 = 999_999_999_999_999;
    let scalars = vec![
        json!("a"),
        json!("b, c"),
        json!("\u{1}\n\"\\/<ä\u{7f}"),
        json!(1),
        json!(1.0),
        json!(-0.0),
        json!(1.5),
        json!(BEYOND),
        json!(BEYOND + 1),
        json!(i64::MIN),
        json!(1e300),
        json!(true),
        json!(null),
    ];
    let objects = vec![
        json!({}),
        json!({ "name": "a", "id": 1, "é b": null }),
        json!({ "a": { "b": 1 } }),
        json!({ "a": [] }),
    ];
    prop_oneof![
        6 => prop::sample::select(scalars),
        2 => prop::sample::select(objects),
        1 => Just(json!(["a"])),
    ]
}

/// An array as it is counted. Whole numbers are integers.
fn keyed_list(list: &[Value]) -> Option<Value> {
    let scalar = |value: &Value| match value {
        Value::Array(_) | Value::Object(_) => None,
        Value::Number(number) => {
            let float = number.as_f64()?;
            (float.fract() == 0.0 && float.abs() < 1e15).then(|| json!(float as i64))
        }
        other => Some(other.clone()),
    };
    let element = |value: &Value| match value {
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| Some((name.clone(), scalar(value)?)));
            Some(Value::Object(members.collect::<Option<_>>()?))
        }
        value => scalar(value),
    };
    let list = Value::Array(list.iter().map(element).collect::<Option<_>>()?);
    (list.to_string().chars().count() <= 512).then_some(list)
}

/// The value by which a record is counted.
fn keyed(value: Option<&Value>) -> Option<Value> {
    match value? {
        Value::Null | Value::Object(_) => None,
        Value::Array(list) => keyed_list(list),
        Value::String(text) => Some(text.chars().take(256).collect::<String>().into()),
        Value::Number(number) => Some(match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 9e18 => {
                json!(float as i64)
            }
            _ => json!(number),
        }),
        other @ Value::Bool(_) => Some(other.clone()),
    }
}

async fn groups_agree_with_the_model(db: TestDb) {
    let mut runner = TestRunner::deterministic();
    let strategy = (value(), value());
    let records: Vec<Value> = (0..300)
        .map(|_| {
            let (v, w) = strategy.new_tree(&mut runner).unwrap().current();
            let fields = [("v", v), ("w", w)].into_iter();
            Value::Object(fields.filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
        })
        .collect();
    store(&db, 0, &records).await;
    let filters = [
        None,
        Some(json!({"field": "v", "op": ">=", "value": 0})),
        Some(json!({"field": "w", "value": "a"})),
    ];
    for indexed in [false, true] {
        for filter in &filters {
            let is_found = |record: &&Value| match filter {
                None => true,
                Some(filter) if filter["field"] == "v" => record["v"].as_f64().is_some_and(|n| n >= 0.0),
                Some(_) => record["w"] == "a",
            };
            for fields in [&["v"][..], &["w", "v"], &["v[0]"]] {
                let mut expected: BTreeMap<String, u64> = BTreeMap::new();
                for record in records.iter().filter(is_found) {
                    let keys: serde_json::Map<_, _> = fields
                        .iter()
                        .filter_map(|field| {
                            let found = match *field {
                                "v[0]" => record
                                    .get("v")
                                    .filter(|list| list.is_array())
                                    .and_then(|list| list.get(0)),
                                field => record.get(field),
                            };
                            Some(((*field).to_owned(), keyed(found)?))
                        })
                        .collect();
                    *expected.entry(Value::from(keys).to_string()).or_default() += 1;
                }
                let query = Query {
                    filter: filter.as_ref().map(|filter| Filter::from_json(filter).unwrap()),
                    ..notes()
                };
                let keys = fields.iter().map(|field| key(field)).collect();
                let group = Group::new(query, keys, [], Some(1_000)).unwrap();
                let rows = grouped(&db, &group).await;
                let counts: Vec<u64> = rows.iter().map(|row| row["count"].as_u64().unwrap()).collect();
                assert!(counts.is_sorted_by(|a, b| a >= b), "{counts:?}");
                let found: BTreeMap<String, u64> = rows
                    .into_iter()
                    .map(|mut row| {
                        let count = row.as_object_mut().unwrap().remove("count").unwrap();
                        (row.to_string(), count.as_u64().unwrap())
                    })
                    .collect();
                assert_eq!(found, expected, "{fields:?} {filter:?} indexed: {indexed}");
            }
        }
        if !indexed {
            build_all(&db).await;
        }
    }
}

/// Backfills and the stream write the same record in different ways.
async fn arrays_that_are_written_differently_are_one(db: TestDb) {
    let texts = [
        r#"[ { "name": "A\u003cB", "id": 1 }, "x" ]"#,
        r#"[{"id":1.0,"name":"A<B"},"\u0078"]"#,
        r#"[{"name":"A<B","id":1e0},"x"]"#,
    ];
    for (n, text) in (1_i64..).zip(texts) {
        let record = format!("{{\"v\": {text}}}");
        apply(&db, n, vec![put(&uri(1, NOTE, &format!("a{n}")), 1, &record)]).await;
    }
    let list = json!([{ "id": 1, "name": "A<B" }, "x"]);
    assert_eq!(grouped(&db, &by(vec![key("v")])).await, [json!({ "v": list, "count": 3 })]);
}

/// The label of a time, from its Thursday for weeks.
fn label(micros: i64, bucket: &str) -> String {
    let text = |micros| Timestamp(micros).to_string();
    let day = micros.div_euclid(DAY);
    match bucket {
        "hour" => text(micros)[..13].to_owned(),
        "day" => text(micros)[..10].to_owned(),
        "month" => text(micros)[..7].to_owned(),
        _ => {
            // 1970-01-01 was a Thursday.
            let thursday = day - (day + 3).rem_euclid(7) + 3;
            let year = text(thursday * DAY)[..4].to_owned();
            let first = Timestamp::parse(&format!("{year}-01-01T00:00:00Z")).unwrap().0.div_euclid(DAY);
            format!("{year}-W{:02}", (thursday - first) / 7 + 1)
        }
    }
}

async fn buckets_are_those_of_the_calendar(db: TestDb) {
    let first = Timestamp::parse("1000-01-02T00:00:00Z").unwrap().0;
    let last = Timestamp::parse("9998-12-30T00:00:00Z").unwrap().0;
    let strategy = (
        first..last,
        -14 * 60..=14 * 60_i64,
        prop::sample::select(vec!["", ".1", ".123456", ".000000000001"]),
    );
    let mut runner = TestRunner::deterministic();
    let mut times = Vec::new();
    for n in 0..150_i64 {
        let (micros, minutes, fraction) = strategy.new_tree(&mut runner).unwrap().current();
        // Days around the ends of years, with their weeks, are frequent.
        let micros = if n % 3 == 0 { micros } else { (n * 365 - 4_000) * DAY + micros % (9 * DAY) };
        let local = Timestamp(micros + minutes * 60_000_000).to_string()[..19].to_owned();
        let zone = match minutes {
            0 => "Z".to_owned(),
            minutes => format!(
                "{}{:02}:{:02}",
                if minutes < 0 { '-' } else { '+' },
                minutes.abs() / 60,
                minutes.abs() % 60
            ),
        };
        times.push((micros, format!("{local}{fraction}{zone}")));
    }
    let records: Vec<Value> = times.iter().map(|(_, text)| json!({ "at": text })).collect();
    store(&db, 0, &records).await;
    for of in ["hour", "day", "week", "month"] {
        let mut expected: BTreeMap<String, u64> = BTreeMap::new();
        for (micros, _) in &times {
            *expected.entry(label(*micros, of)).or_default() += 1;
        }
        let group =
            Group::new(notes(), vec![bucket("at", of)], [("at", Direction::Asc)], Some(1_000)).unwrap();
        let found: Vec<_> = grouped(&db, &group)
            .await
            .into_iter()
            .map(|row| (row["at"].as_str().unwrap().to_owned(), row["count"].as_u64().unwrap()))
            .collect();
        assert_eq!(found, Vec::from_iter(expected), "{of}");
    }
}

async fn texts_that_are_no_datetimes_have_no_bucket(db: TestDb) {
    let texts = [
        "2024-02-30T00:00:00Z",
        "2023-02-29T00:00:00Z",
        "2024-00-10T00:00:00Z",
        "2024-13-10T00:00:00Z",
        "2024-01-00T00:00:00Z",
        "2024-01-32T00:00:00Z",
        "2024-01-10T24:00:00Z",
        "2024-01-10T10:60:00Z",
        "2024-01-10T10:00:60Z",
        "2024-01-10T10:00:00",
        "2024-01-10T10:00Z",
        "2024-01-10 10:00:00Z",
        "2024-01-10T10:00:001Z",
        "2024-01-10T10:00:00+15:00",
        "2024-01-10T10:00:00+14:01",
        "2024-01-10T10:00:00+1:00",
        "2024-01-10T10:00:00+01:00\n",
        "2024-01-10",
        "0999-01-10T10:00:00Z",
        "9999-01-10T10:00:00Z",
        "now",
        "2460000.5",
        "",
        "infinity",
        "２０２４-01-10T10:00:00Z",
    ];
    let mut records: Vec<Value> = texts.iter().map(|text| json!({ "at": text })).collect();
    records.extend([
        json!({ "at": 1_700_000_000 }),
        json!({ "at": null }),
        json!({}),
        json!({ "at": ["2024-01-10T10:00:00Z"] }),
    ]);
    let none = records.len();
    records.push(json!({ "at": "2024-02-29T23:59:59.9-00:01" }));
    store(&db, 0, &records).await;
    for (of, label) in
        [("hour", "2024-03-01T00"), ("day", "2024-03-01"), ("week", "2024-W09"), ("month", "2024-03")]
    {
        assert_eq!(
            grouped(&db, &by(vec![bucket("at", of)])).await,
            [json!({ "count": none }), json!({ "at": label, "count": 1 })],
            "{of}"
        );
    }
}

async fn columns_of_rows_are_keys(db: TestDb) {
    apply(&db, DAY, vec![put(&uri(1, NOTE, "a"), 1, r#"{"did": "x"}"#), put(&uri(2, NOTE, "a"), 1, "{}")])
        .await;
    apply(&db, 2 * DAY, vec![put(&uri(1, NOTE, "b"), 2, "{}"), put(&uri(1, LIKE, "b"), 1, "{}")]).await;
    let of = async |keys| grouped(&db, &by(keys)).await;
    assert_eq!(
        of(vec![key("did")]).await,
        [json!({ "did": did(1), "count": 2 }), json!({ "did": did(2), "count": 1 })]
    );
    assert_eq!(of(vec![key("collection")]).await, [json!({ "collection": NOTE, "count": 3 })]);
    assert_eq!(
        of(vec![key("rkey"), bucket("indexed_at", "day")]).await,
        [
            json!({ "rkey": "a", "indexed_at": "1970-01-02", "count": 2 }),
            json!({ "rkey": "b", "indexed_at": "1970-01-03", "count": 1 })
        ]
    );
    let at = "1970-01-02T00:00:00.000000Z";
    assert_eq!(of(vec![key("indexed_at")]).await[0], json!({ "indexed_at": at, "count": 2 }));
    let elsewhere = Group::new(Query::of(nsid("com.example.none")), vec![key("did")], [], None).unwrap();
    assert!(grouped(&db, &elsewhere).await.is_empty());
}

async fn orders_and_limits(db: TestDb) {
    let records = [("a", 1), ("a", 1), ("a", 2), ("b", 1), ("c", 1), ("c", 2)];
    store(&db, 0, &records.map(|(v, w)| json!({ "v": v, "w": w }))).await;
    let of = async |keys: &[&str], order: &[(&'static str, Direction)], limit| {
        let keys = keys.iter().map(|field| key(field)).collect();
        let group = Group::new(notes(), keys, order.iter().copied(), limit).unwrap();
        let rows = grouped(&db, &group).await;
        rows.iter()
            .map(|row| format!("{}{} {}", row["v"].as_str().unwrap(), row["w"], row["count"]))
            .collect::<Vec<_>>()
    };
    assert_eq!(of(&["v"], &[], None).await, ["anull 3", "cnull 2", "bnull 1"]);
    assert_eq!(of(&["v"], &[], Some(2)).await, ["anull 3", "cnull 2"]);
    assert_eq!(of(&["v"], &[("count", Direction::Asc)], Some(0)).await, ["bnull 1"]);
    assert_eq!(
        of(&["v", "w"], &[("v", Direction::Desc), ("count", Direction::Desc)], None).await,
        ["c1 1", "c2 1", "b1 1", "a1 2", "a2 1"]
    );
    assert_eq!(of(&["v", "w"], &[], None).await, ["a1 2", "a2 1", "b1 1", "c1 1", "c2 1"]);
}

async fn hidden_accounts_are_left_out(db: TestDb) {
    let change = |n| put(&uri(n, NOTE, "a"), 1, r#"{"v": 1}"#);
    apply(&db, 1, vec![change(1), change(2)]).await;
    set_status(&db, 1, AccountStatus::TakenDown).await;
    assert_eq!(
        grouped(&db, &by(vec![key("v"), key("did")])).await,
        [json!({ "v": 1, "did": did(2), "count": 1 })]
    );
    let of_one = Query { did: Some(did(1)), ..notes() };
    assert!(grouped(&db, &Group::new(of_one, vec![key("v")], [], None).unwrap()).await.is_empty());
}
