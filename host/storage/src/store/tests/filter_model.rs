//! Compares random filters with an evaluator in Rust: without indexes and with them, newest first and sorted.

use std::cmp::Ordering;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use super::field_indexes::{build_all, pages, store, unhurried};
use super::fixtures::*;

use crate::query::filter::{Combine, Op, Scalar, Test};
use crate::query::path::Step;
use crate::query::{Direction, Filter, Query, Sort};
use crate::store::query::count;
use crate::store::testing::TestDb;

const RECORDS: usize = 150;
const FILTERS: usize = 250;

fn scalar() -> impl Strategy<Value = Value> {
    const BEYOND_DOUBLES: i64 = 1 << 53;
    const TEXTS: [&str; 15] =
        ["", "a", "A", "ab", "aB", "b", "ä", "äb", "a%", "a_", "\u{d7ff}", "\u{ffff}", "🎉", "1", "true"];
    prop_oneof![
        4 => prop::sample::select(&TEXTS[..]).prop_map(Value::from),
        1 => (prop::sample::select(vec!["a", "ä"]), 255..258_usize).prop_map(|(c, n)| json!(c.repeat(n))),
        3 => (-2..4_i64).prop_map(Value::from),
        1 => (BEYOND_DOUBLES - 1..BEYOND_DOUBLES + 3).prop_map(Value::from),
        1 => prop::sample::select(vec![0.5, -1.5, 2.0, 9_007_199_254_740_992.0, 1e300]).prop_map(Value::from),
        2 => any::<bool>().prop_map(Value::from),
    ]
}

fn record() -> impl Strategy<Value = Value> {
    let field = prop_oneof![
        8 => scalar().prop_map(Some),
        1 => Just(None),
        1 => Just(Some(Value::Null)),
        1 => prop::collection::vec(scalar(), 0..2).prop_map(|values| Some(json!(values))),
        1 => scalar().prop_map(|value| Some(json!({ "a": value }))),
    ];
    (field.clone(), field).prop_map(|(v, w)| {
        let mut record = serde_json::Map::new();
        record.extend(v.map(|v| ("v".to_owned(), v)));
        record.extend(w.map(|w| ("w".to_owned(), w)));
        Value::Object(record)
    })
}

fn filter() -> impl Strategy<Value = Value> {
    let field = || prop::sample::select(vec!["v", "v", "v", "w", "v.a", "v[0]", "w.a.a"]);
    let with = |ops: &[&'static str]| prop::sample::select(ops.to_vec());
    let condition = prop_oneof![
        4 => (field(), with(&["=", "!=", "<", ">", "<=", ">="]), scalar())
            .prop_map(|(field, op, value)| json!({"field": field, "op": op, "value": value})),
        4 => (field(), with(&["IN", "NOT IN"]), prop::collection::vec(scalar(), 1..6))
            .prop_map(|(field, op, value)| json!({"field": field, "op": op, "value": value})),
        // A list of one type can use an index.
        4 => (field(), with(&["IN"]), prop::collection::vec(-2..4_i64, 1..5))
            .prop_map(|(field, op, value)| json!({"field": field, "op": op, "value": value})),
        3 => (field(), scalar(), scalar()).prop_filter_map("of one type", |(field, low, high)| {
            let of = |value: &Value| (value.is_number(), value.is_string());
            (of(&low) == of(&high)).then(|| json!({"field": field, "op": "BETWEEN", "value": [low, high]}))
        }),
        4 => (field(), with(&["PREFIX", "LIKE", "NOT LIKE"]), "[aAbä%_🎉\u{ffff}\\\\]{0,2}")
            .prop_map(|(field, op, value)| json!({"field": field, "op": op, "value": value})),
        2 => (field(), with(&["EXISTS", "MISSING"])).prop_map(|(field, op)| json!({"field": field, "op": op})),
    ];
    condition.prop_recursive(2, 6, 3, |inner| {
        (with_combine(), prop::collection::vec(inner, 1..4))
            .prop_map(|(combine, children)| json!({"combine": combine, "children": children}))
    })
}

fn with_combine() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["AND", "OR"])
}

fn number(value: &Value) -> Scalar {
    value.as_i64().map_or_else(|| Scalar::Float(value.as_f64().unwrap()), Scalar::Integer)
}

fn compare_with_float(integer: i64, float: f64) -> Ordering {
    if float.abs() >= 9.3e18 {
        return 0.0.partial_cmp(&float).unwrap();
    }
    integer.cmp(&(float.trunc() as i64)).then(0.0.partial_cmp(&float.fract()).unwrap())
}

/// The order of two values of one type.
fn compare(found: &Value, value: &Scalar) -> Option<Ordering> {
    match (found, value) {
        (Value::String(found), Scalar::Text(text)) => Some(found.cmp(text)),
        (Value::Bool(found), Scalar::Boolean(value)) => Some(found.cmp(value)),
        (Value::Number(_), _) => match (number(found), value) {
            (Scalar::Integer(a), Scalar::Integer(b)) => Some(a.cmp(b)),
            (Scalar::Integer(a), Scalar::Float(b)) => Some(compare_with_float(a, *b)),
            (Scalar::Float(a), Scalar::Integer(b)) => Some(compare_with_float(*b, a).reverse()),
            (Scalar::Float(a), Scalar::Float(b)) => a.partial_cmp(b),
            _ => None,
        },
        _ => None,
    }
}

fn is_like(text: &[char], pattern: &[char]) -> bool {
    let is_same = |a: char, b: char| a.eq_ignore_ascii_case(&b);
    match pattern {
        [] => text.is_empty(),
        ['%', rest @ ..] => (0..=text.len()).any(|from| is_like(&text[from..], rest)),
        ['_', rest @ ..] => !text.is_empty() && is_like(&text[1..], rest),
        // A backslash at the end matches itself.
        ['\\', escaped, rest @ ..] => {
            text.first().is_some_and(|c| is_same(*c, *escaped)) && is_like(&text[1..], rest)
        }
        [c, rest @ ..] => text.first().is_some_and(|found| is_same(*found, *c)) && is_like(&text[1..], rest),
    }
}

fn is_match(record: &Value, filter: &Filter) -> bool {
    let (field, test) = match filter {
        Filter::Group { combine: Combine::And, children } => {
            return children.iter().all(|child| is_match(record, child));
        }
        Filter::Group { combine: Combine::Or, children } => {
            return children.iter().any(|child| is_match(record, child));
        }
        Filter::Condition { field, test } => (field, test),
    };
    let found = field.steps().iter().try_fold(record, |value, step| match step {
        Step::Key(key) => value.as_object()?.get(key),
        Step::Index(index) => value.as_array()?.get(*index as usize),
    });
    let found = found.filter(|value| !value.is_null());
    let Some(found) = found else { return *test == Test::Exists { is_negated: true } };
    match test {
        Test::Exists { is_negated } => !is_negated,
        Test::Among { values, is_negated } => {
            values.iter().any(|value| compare(found, value) == Some(Ordering::Equal)) != *is_negated
        }
        Test::Compare { op: op @ (Op::Like | Op::NotLike), value: Scalar::Text(pattern) } => {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            let is_like = found.as_str().is_some_and(|found| is_like(&chars(found), &chars(pattern)));
            is_like == (*op == Op::Like)
        }
        Test::Compare { op: Op::Ne, value } => compare(found, value) != Some(Ordering::Equal),
        Test::Compare { op, value } => compare(found, value).is_some_and(|order| match op {
            Op::Eq => order.is_eq(),
            Op::Lt => order.is_lt(),
            Op::Gt => order.is_gt(),
            Op::Le => order.is_le(),
            Op::Ge => order.is_ge(),
            Op::Ne | Op::Like | Op::NotLike => false,
        }),
    }
}

on_both!(filters_agree_with_the_model);

async fn filters_agree_with_the_model(db: TestDb) {
    let mut runner = TestRunner::deterministic();
    let mut any = |strategy: BoxedStrategy<Value>, n| -> Vec<Value> {
        (0..n).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect()
    };
    let records = any(record().boxed(), RECORDS);
    let filters = any(filter().boxed(), FILTERS);
    store(&db, 0, &records).await;
    let sorts = [None, Some(Sort::parse("v", Direction::Asc).unwrap())];
    for indexed in [false, true] {
        for filter in &filters {
            let read = Filter::from_json(filter).unwrap_or_else(|error| panic!("{filter}: {error}"));
            let is_found = |(_, record): &(usize, &Value)| is_match(record, &read);
            let mut expected: Vec<_> =
                records.iter().enumerate().filter(is_found).map(|(n, _)| format!("r{n}")).collect();
            expected.sort();
            let query = Query { filter: Some(read.clone()), ..Query::of(nsid(NOTE)) };
            let counted = unhurried(async || count(&db, &query, &US).await).await;
            assert_eq!(counted, expected.len() as u64, "{filter} indexed: {indexed}");
            for sort in &sorts {
                let query = Query {
                    filter: Some(read.clone()),
                    sort: sort.clone(),
                    limit: 60,
                    ..Query::of(nsid(NOTE))
                };
                let mut found = pages(&db, &query).await;
                found.sort();
                assert_eq!(found, expected, "{filter} sort: {sort:?} indexed: {indexed}");
            }
        }
        if !indexed {
            build_all(&db).await;
        }
    }
}
