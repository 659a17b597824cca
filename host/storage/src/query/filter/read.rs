//! Reads filters from JSON.

use serde_json::Value;

use super::operand::{list, pattern, range, scalar, text, upper_bound};
use super::{Combine, Filter, FilterError, MAX_CONDITIONS, MAX_DEPTH, Op, Scalar, Test};
use crate::query::path::Path;

/// An operator as filters name it.
#[derive(Clone, Copy)]
enum Operator {
    Compare(Op),
    Like { op: Op, name: &'static str },
    In { is_negated: bool, name: &'static str },
    Between,
    Prefix,
    Exists { is_negated: bool, name: &'static str },
}

impl Operator {
    /// Any letter case; one space in `NOT LIKE` and `NOT IN`.
    fn parse(text: &str) -> Option<Self> {
        Some(match text.to_ascii_uppercase().as_str() {
            "=" => Self::Compare(Op::Eq),
            "!=" => Self::Compare(Op::Ne),
            "<" => Self::Compare(Op::Lt),
            ">" => Self::Compare(Op::Gt),
            "<=" => Self::Compare(Op::Le),
            ">=" => Self::Compare(Op::Ge),
            "LIKE" => Self::Like { op: Op::Like, name: "LIKE" },
            "NOT LIKE" => Self::Like { op: Op::NotLike, name: "NOT LIKE" },
            "IN" => Self::In { is_negated: false, name: "IN" },
            "NOT IN" => Self::In { is_negated: true, name: "NOT IN" },
            "BETWEEN" => Self::Between,
            "PREFIX" => Self::Prefix,
            "EXISTS" => Self::Exists { is_negated: false, name: "EXISTS" },
            "MISSING" => Self::Exists { is_negated: true, name: "MISSING" },
            _ => return None,
        })
    }
}

/// The conditions and the values of lists that were read so far.
#[derive(Default)]
pub(super) struct Totals {
    conditions: usize,
    pub(super) values: usize,
}

pub(super) fn filter(value: &Value) -> Result<Filter, FilterError> {
    node(value, 1, &mut Totals::default())
}

fn node(value: &Value, level: usize, totals: &mut Totals) -> Result<Filter, FilterError> {
    if level > MAX_DEPTH {
        return Err(FilterError::TooDeep);
    }
    let object = match value {
        Value::Array(children) => return group(None, children.iter(), level, totals),
        Value::Object(object) => object,
        _ => return Err(FilterError::Shape("it is not a table")),
    };
    if let Some(field) = object.get("field") {
        totals.conditions += 1;
        if totals.conditions > MAX_CONDITIONS {
            return Err(FilterError::TooMany);
        }
        return condition(field, object.get("op"), object.get("value"), totals);
    }
    let combine = object.get("combine");
    match object.get("children") {
        Some(Value::Array(children)) => group(combine, children.iter(), level, totals),
        Some(_) => Err(FilterError::Shape("children is not a list")),
        None => {
            let children = (1..).map_while(|n: usize| object.get(&n.to_string()));
            group(combine, children, level, totals)
        }
    }
}

fn group<'a>(
    combine: Option<&Value>,
    children: impl Iterator<Item = &'a Value>,
    level: usize,
    totals: &mut Totals,
) -> Result<Filter, FilterError> {
    let combine = match combine {
        None | Some(Value::Null) => Combine::And,
        Some(Value::String(text)) => {
            Combine::parse(text).ok_or_else(|| FilterError::Combine(truncated(text)))?
        }
        Some(other) => return Err(FilterError::Combine(truncated(&other.to_string()))),
    };
    let children = children.map(|child| node(child, level + 1, totals)).collect::<Result<Vec<_>, _>>()?;
    if children.is_empty() {
        return Err(FilterError::EmptyGroup);
    }
    Ok(Filter::Group { combine, children })
}

fn condition(
    field: &Value,
    op: Option<&Value>,
    value: Option<&Value>,
    totals: &mut Totals,
) -> Result<Filter, FilterError> {
    let Value::String(field) = field else { return Err(FilterError::Field(truncated(&field.to_string()))) };
    let path = Path::parse(field).map_err(|_| FilterError::Field(truncated(field)))?;
    let operator = match op {
        None | Some(Value::Null) => Operator::Compare(Op::Eq),
        Some(Value::String(text)) => Operator::parse(text).ok_or_else(|| FilterError::Op(truncated(text)))?,
        Some(other) => return Err(FilterError::Op(truncated(&other.to_string()))),
    };
    let value = value.filter(|value| !value.is_null());
    let test = match operator {
        Operator::Compare(op) => Test::Compare { op, value: scalar(value)? },
        Operator::Like { op, name } => Test::Compare { op, value: Scalar::Text(pattern(name, value)?) },
        Operator::In { is_negated, name } => {
            Test::Among { values: list(name, value, &mut totals.values)?, is_negated }
        }
        Operator::Exists { name, .. } if value.is_some() => {
            return Err(FilterError::Operand { op: name, takes: "no value" });
        }
        Operator::Exists { is_negated, .. } => Test::Exists { is_negated },
        Operator::Between => {
            let (low, high) = range(value)?;
            return Ok(both(path, low, Op::Le, high));
        }
        Operator::Prefix => {
            let low = text("PREFIX", value)?;
            match upper_bound(&low) {
                Some(high) => return Ok(both(path, Scalar::Text(low), Op::Lt, Scalar::Text(high))),
                None => Test::Compare { op: Op::Ge, value: Scalar::Text(low) },
            }
        }
    };
    Ok(Filter::Condition { field: path, test })
}

/// The condition that a field is at least `low`, and below `high` or equal to it.
fn both(field: Path, low: Scalar, below: Op, high: Scalar) -> Filter {
    let compare = |field, op, value| Filter::Condition { field, test: Test::Compare { op, value } };
    let children = vec![compare(field.clone(), Op::Ge, low), compare(field, below, high)];
    Filter::Group { combine: Combine::And, children }
}

/// The beginning of an invalid text, for error messages.
fn truncated(text: &str) -> String {
    text.chars().take(80).collect()
}
