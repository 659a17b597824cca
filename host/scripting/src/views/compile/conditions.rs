//! Compiles `where`.

use serde_json::{Map, Value};

use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Did;
use belvedere_storage::query::{Filter, Path};

use super::fields::{operand, path};
use crate::views::conditions::{Conditions, FieldCondition, FieldTest, Operands, TimeTest};
use crate::views::document::{Tests, part};
use crate::views::offence::Offences;
use crate::views::operand::Operand;

pub(super) fn conditions(given: &Map<String, Value>, offences: &mut Offences) -> Conditions {
    let mut conditions = Conditions::default();
    for (name, value) in given {
        let at = format!("where.{name}");
        match name.as_str() {
            "did" => conditions.did = authors(value, &at, offences),
            "rkey" => conditions.rkey = operand(value, &at, offences),
            "indexedAt" => conditions.indexed_at = times(value, &at, offences),
            _ => field(name, value, &at, &mut conditions.fields, offences),
        }
    }
    if let Some(filter) = conditions.probe() {
        offences.check("where", Filter::from_json(&filter));
    }
    conditions
}

/// The author of a row, or a list of authors.
pub(super) fn authors(value: &Value, at: &str, offences: &mut Offences) -> Option<Operands> {
    let authors = match value {
        Value::Object(_) => among(part::<Tests>(value, at, offences)?.among.as_ref(), at, offences)?,
        one => Operands::One(operand(one, at, offences)?),
    };
    for author in authors.all() {
        if let Operand::Constant(text) = author
            && text.as_str().is_none_or(|text| Did::try_from(text).is_err())
        {
            offences.add(at, format!("{text} is not a DID"));
        }
    }
    Some(authors)
}

fn among(value: Option<&Value>, at: &str, offences: &mut Offences) -> Option<Operands> {
    match value {
        Some(Value::Array(values)) => {
            let values = values.iter().filter_map(|value| operand(value, at, offences)).collect();
            Some(Operands::List(values))
        }
        Some(one) => {
            let one = operand(one, at, offences)?;
            if matches!(one, Operand::Parameter(_)) {
                return Some(Operands::Array(one));
            }
            offences.add(at, "in takes a list, or a parameter that is an array");
            None
        }
        None => {
            offences.add(at, "its only operator is in");
            None
        }
    }
}

fn times(value: &Value, at: &str, offences: &mut Offences) -> Vec<(TimeTest, Operand)> {
    const WRONG: &str = "its operators are gt, gte, lt and lte, such as { \"gte\": \"$since\" }";
    if !value.is_object() {
        offences.add(at, WRONG);
        return Vec::new();
    }
    let Some(tests) = part::<Tests>(value, at, offences) else { return Vec::new() };
    let Tests { eq, among, prefix, contains, missing, gt, gte, lt, lte } = tests;
    if [&eq, &among, &prefix, &contains].iter().any(|other| other.is_some()) || missing.is_some() {
        offences.add(at, WRONG);
    }
    let given = [
        (TimeTest::After, gt),
        (TimeTest::AtOrAfter, gte),
        (TimeTest::Before, lt),
        (TimeTest::AtOrBefore, lte),
    ];
    let mut times = Vec::new();
    for (test, value) in given {
        let Some(value) = value.and_then(|value| operand(&value, at, offences)) else { continue };
        if let Operand::Constant(constant) = &value
            && constant.as_str().is_none_or(|text| Timestamp::parse(text).is_err())
        {
            offences.add(at, format!("{constant} is not a time such as 2026-01-31T12:00:00Z"));
        }
        times.push((test, value));
    }
    times
}

/// The conditions of a field, or of `any` and `all`.
fn field(name: &str, value: &Value, at: &str, into: &mut Vec<FieldCondition>, offences: &mut Offences) {
    if matches!(name, "any" | "all") && value.is_array() {
        let parts = alternatives(value, at, offences);
        into.push(if name == "any" { FieldCondition::Any(parts) } else { FieldCondition::All(parts) });
        return;
    }
    let Some(path) = path(name, at, offences) else { return };
    if !value.is_object() {
        if let Some(value) = operand(value, at, offences) {
            into.push(FieldCondition::Test { path, test: FieldTest::Equal, value: Operands::One(value) });
        }
        return;
    }
    let Some(tests) = part::<Tests>(value, at, offences) else { return };
    let before = into.len();
    push_tests(&path, tests, at, into, offences);
    if into.len() == before {
        offences.add(at, "it has no operator: eq, in, gt, gte, lt, lte, prefix, contains or missing");
    }
}

fn push_tests(path: &Path, tests: Tests, at: &str, into: &mut Vec<FieldCondition>, offences: &mut Offences) {
    let Tests { eq, among: list, gt, gte, lt, lte, prefix, contains, missing } = tests;
    let one = [
        (FieldTest::Equal, eq),
        (FieldTest::Greater, gt),
        (FieldTest::GreaterOrEqual, gte),
        (FieldTest::Less, lt),
        (FieldTest::LessOrEqual, lte),
        (FieldTest::Prefix, prefix),
        (FieldTest::Contains, contains),
    ];
    for (test, value) in one {
        if let Some(value) = value.and_then(|value| operand(&value, at, offences)) {
            into.push(FieldCondition::Test { path: path.clone(), test, value: Operands::One(value) });
        }
    }
    if list.is_some()
        && let Some(value) = among(list.as_ref(), at, offences)
    {
        into.push(FieldCondition::Test { path: path.clone(), test: FieldTest::Among, value });
    }
    if let Some(is_missing) = missing {
        into.push(FieldCondition::Missing { path: path.clone(), is_missing });
    }
}

fn alternatives(value: &Value, at: &str, offences: &mut Offences) -> Vec<Vec<FieldCondition>> {
    let mut parts = Vec::new();
    for (n, part) in value.as_array().into_iter().flatten().enumerate() {
        let at = format!("{at}[{n}]");
        let Value::Object(fields) = part else {
            offences.add(&at, "it is an object of conditions by field");
            continue;
        };
        let mut conditions = Vec::new();
        for (name, value) in fields {
            let at = format!("{at}.{name}");
            if matches!(name.as_str(), "did" | "rkey" | "indexedAt") {
                offences
                    .add(&at, "a row field is a condition of all rows: move it to the first level of where");
            } else {
                field(name, value, &at, &mut conditions, offences);
            }
        }
        parts.push(conditions);
    }
    parts
}
