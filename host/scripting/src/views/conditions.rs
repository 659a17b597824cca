//! The conditions of a view, which become those of a query when a call provides their values.

use serde_json::{Value, json};

use belvedere_base::clock::Timestamp;
use belvedere_storage::query::Path;

use super::operand::{Arguments, Operand};

/// Conditions that all hold. One whose value a call does not provide is left out.
#[derive(Clone, Debug, Default)]
pub(super) struct Conditions {
    /// The author, or a list of authors.
    pub(super) did: Option<Operands>,
    pub(super) rkey: Option<Operand>,
    pub(super) indexed_at: Vec<(TimeTest, Operand)>,
    pub(super) fields: Vec<FieldCondition>,
}

/// One value, or a list of values.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Operands {
    One(Operand),
    /// A parameter that is an array.
    Array(Operand),
    List(Vec<Operand>),
}

/// The test of the time at which a record was indexed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeTest {
    After,
    AtOrAfter,
    Before,
    AtOrBefore,
}

/// The test of a field, by its operator in filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldTest {
    Equal,
    Among,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    Prefix,
    Contains,
}

#[derive(Clone, Debug)]
pub(super) enum FieldCondition {
    Test { path: Path, test: FieldTest, value: Operands },
    Missing { path: Path, is_missing: bool },
    Any(Vec<Vec<Self>>),
    All(Vec<Vec<Self>>),
}

impl FieldTest {
    fn operator(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::Among => "IN",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Prefix => "PREFIX",
            Self::Contains => "LIKE",
        }
    }
}

impl TimeTest {
    /// The first time that matches, or the first that does not match any more.
    pub(super) fn bound(self, at: Timestamp) -> Timestamp {
        match self {
            Self::AtOrAfter | Self::Before => at,
            Self::After | Self::AtOrBefore => Timestamp(at.0.saturating_add(1)),
        }
    }

    pub(super) fn is_lower(self) -> bool {
        matches!(self, Self::After | Self::AtOrAfter)
    }
}

impl Operands {
    /// All operands of it.
    pub(super) fn all(&self) -> &[Operand] {
        match self {
            Self::One(operand) | Self::Array(operand) => std::slice::from_ref(operand),
            Self::List(operands) => operands,
        }
    }

    /// The value in a call: an array, unless it is one value.
    pub(super) fn value(&self, of: &dyn Fn(&Operand) -> Option<Value>) -> Option<Value> {
        match self {
            Self::One(operand) => of(operand),
            Self::Array(operand) => of(operand).map(|value| match value {
                Value::Array(values) => Value::Array(values),
                one => json!([one]),
            }),
            Self::List(operands) => {
                let values: Vec<Value> = operands.iter().filter_map(of).collect();
                (!values.is_empty()).then_some(Value::Array(values))
            }
        }
    }
}

impl Conditions {
    /// The filter of a call in its JSON form; `None` without one.
    pub(super) fn filter(&self, arguments: &Arguments) -> Option<Value> {
        all(&self.fields, &|operand| operand.value(arguments))
    }

    /// The filter if a call had a value for each parameter, to check its form.
    pub(super) fn probe(&self) -> Option<Value> {
        all(&self.fields, &|operand| match operand {
            Operand::Constant(value) => Some(value.clone()),
            Operand::Parameter(_) | Operand::Viewer => Some("a".into()),
        })
    }
}

fn all(conditions: &[FieldCondition], of: &dyn Fn(&Operand) -> Option<Value>) -> Option<Value> {
    let children: Vec<Value> = conditions.iter().filter_map(|condition| condition.filter(of)).collect();
    group("AND", children)
}

/// A group of conditions; one alone needs none.
fn group(combine: &str, mut children: Vec<Value>) -> Option<Value> {
    match children.len() {
        0 => None,
        1 => children.pop(),
        _ => Some(json!({ "combine": combine, "children": children })),
    }
}

impl FieldCondition {
    fn filter(&self, of: &dyn Fn(&Operand) -> Option<Value>) -> Option<Value> {
        match self {
            Self::Missing { path, is_missing } => {
                let op = if *is_missing { "MISSING" } else { "EXISTS" };
                Some(json!({ "field": path.to_string(), "op": op }))
            }
            Self::Test { path, test, value } => {
                let value = match (test, value.value(of)?) {
                    (FieldTest::Contains, Value::String(text)) => contains(&text).into(),
                    // No record has one of no values, and a filter refuses an empty list.
                    (FieldTest::Among, Value::Array(values)) if values.is_empty() => {
                        return Some(never(path));
                    }
                    (_, value) => value,
                };
                Some(json!({ "field": path.to_string(), "op": test.operator(), "value": value }))
            }
            Self::Any(alternatives) => {
                group("OR", alternatives.iter().filter_map(|conditions| all(conditions, of)).collect())
            }
            Self::All(parts) => {
                group("AND", parts.iter().filter_map(|conditions| all(conditions, of)).collect())
            }
        }
    }
}

/// A condition that no record meets.
fn never(path: &Path) -> Value {
    let test = |op: &str| json!({ "field": path.to_string(), "op": op });
    json!([test("EXISTS"), test("MISSING")])
}

/// The pattern of a text that contains this one.
fn contains(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len() + 2);
    pattern.push('%');
    for c in text.chars() {
        if matches!(c, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern.push('%');
    pattern
}
