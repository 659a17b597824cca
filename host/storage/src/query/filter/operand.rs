//! Reads the values that operators take.

use serde_json::Value;

use super::{FilterError, Scalar};

/// The maximum number of values in a list.
pub(super) const MAX_LIST: usize = 100;
/// The maximum number of values in all lists of a filter: a field is compared with each of them for every row that the
/// query scans.
pub(super) const MAX_LIST_TOTAL: usize = 1_000;
/// Longer patterns are rejected, as in scripts' own SQL: no database checks its deadline while it compares one, and the
/// time grows with the product of both lengths.
pub(super) const MAX_PATTERN_BYTES: usize = 250;
/// Longer texts are rejected: no sensible query compares with one.
const MAX_TEXT_BYTES: usize = 65_536;

pub(super) fn scalar(value: Option<&Value>) -> Result<Scalar, FilterError> {
    Ok(match value {
        None | Some(Value::Null) => return Err(FilterError::Value("nil")),
        Some(Value::Array(_) | Value::Object(_)) => return Err(FilterError::Value("a table")),
        Some(Value::Bool(value)) => Scalar::Boolean(*value),
        Some(Value::String(text)) if text.contains('\0') => {
            return Err(FilterError::Value("a string with U+0000"));
        }
        Some(Value::String(text)) if text.len() > MAX_TEXT_BYTES => {
            return Err(FilterError::Value("the string is too long"));
        }
        Some(Value::String(text)) => Scalar::Text(text.clone()),
        Some(Value::Number(number)) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => Scalar::Integer(integer),
            (None, Some(float)) if float.is_finite() => Scalar::Float(float),
            _ => return Err(FilterError::Value("the number is out of range")),
        },
    })
}

/// The text of an operator that takes nothing else.
pub(super) fn text(op: &'static str, value: Option<&Value>) -> Result<String, FilterError> {
    let wrong = FilterError::Operand { op, takes: "a string" };
    if !value.is_some_and(Value::is_string) {
        return Err(wrong);
    }
    match scalar(value)? {
        Scalar::Text(text) => Ok(text),
        _ => Err(wrong),
    }
}

/// The pattern of LIKE.
pub(super) fn pattern(op: &'static str, value: Option<&Value>) -> Result<String, FilterError> {
    let pattern = text(op, value)?;
    if pattern.len() > MAX_PATTERN_BYTES {
        return Err(FilterError::PatternTooLong(op));
    }
    Ok(pattern)
}

/// The values of IN, each once. Adds their number to `total`.
pub(super) fn list(
    op: &'static str,
    value: Option<&Value>,
    total: &mut usize,
) -> Result<Vec<Scalar>, FilterError> {
    let Some(Value::Array(given)) = value else { return Err(FilterError::List(op)) };
    let is_scalar = |value: &Value| value.is_string() || value.is_number() || value.is_boolean();
    if !(1..=MAX_LIST).contains(&given.len()) || !given.iter().all(is_scalar) {
        return Err(FilterError::List(op));
    }
    *total += given.len();
    if *total > MAX_LIST_TOTAL {
        return Err(FilterError::TooManyValues);
    }
    let mut values = Vec::with_capacity(given.len());
    for value in given {
        let value = scalar(Some(value))?;
        if !values.contains(&value) {
            values.push(value);
        }
    }
    Ok(values)
}

/// The two ends of BETWEEN.
pub(super) fn range(value: Option<&Value>) -> Result<(Scalar, Scalar), FilterError> {
    const WRONG: FilterError = FilterError::Operand {
        op: "BETWEEN",
        takes: "a list of two values of one type, the lowest and the highest",
    };
    let Some([low, high]) = value.and_then(Value::as_array).map(Vec::as_slice) else { return Err(WRONG) };
    match (scalar(Some(low))?, scalar(Some(high))?) {
        (low, high) if low.is_comparable(&high) => Ok((low, high)),
        _ => Err(WRONG),
    }
}

/// The least text that is greater than all texts with this prefix. There is none for the empty one, which all texts have.
pub(super) fn upper_bound(prefix: &str) -> Option<String> {
    let mut text = prefix.to_owned();
    while let Some(last) = text.pop() {
        // The range of characters passes over surrogates.
        if let Some(next) = (last..=char::MAX).nth(1) {
            text.push(next);
            return Some(text);
        }
    }
    None
}
