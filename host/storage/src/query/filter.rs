//! Parses the filter tree of `db.query`.
//!
//! A value is compared within its JSON type: a number with numbers, a string with strings (by code point), a boolean
//! with booleans (false before true). A field that is missing or null makes its condition false, whatever the
//! operator. A value of another type is not equal, so `!=` and `NOT LIKE` are true for it and all other operators
//! false. `LIKE` ignores ASCII case; `%` and `_` are wildcards and `\` escapes them. Both databases behave alike.

use serde_json::Value;

use super::path::Path;

/// The maximum number of levels: the root is level 1 and a leaf condition counts as a level (service.md, Limits).
pub const MAX_DEPTH: usize = 5;
/// The maximum number of conditions in one filter: each is evaluated for every row that the query scans.
const MAX_CONDITIONS: usize = 100;
/// Longer patterns are rejected, as in scripts' own SQL: no database checks its deadline while it compares one, and the
/// time grows with the product of both lengths.
const MAX_PATTERN_BYTES: usize = 250;
/// Longer texts are rejected: no sensible query compares with one.
const MAX_TEXT_BYTES: usize = 65_536;

#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    Condition { field: Path, op: Op, value: Scalar },
    Group { combine: Combine, children: Vec<Self> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Eq,
    Ne,
    Lt,
    Gt,
    Le,
    Ge,
    Like,
    NotLike,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combine {
    And,
    Or,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Scalar {
    /// Without U+0000.
    Text(String),
    Integer(i64),
    /// Finite.
    Float(f64),
    Boolean(bool),
}

/// Error for an invalid filter. The text is for the script's author.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    #[error("filter is nested too deep (at most {MAX_DEPTH} levels)")]
    TooDeep,
    #[error("filter has too many conditions (at most {MAX_CONDITIONS})")]
    TooMany,
    #[error("invalid filter field {0:?}")]
    Field(String),
    #[error("invalid filter op {0:?}")]
    Op(String),
    #[error("invalid filter combine {0:?}")]
    Combine(String),
    #[error("filter group is empty")]
    EmptyGroup,
    #[error("unsupported filter value: {0}")]
    Value(&'static str),
    #[error("invalid filter: {0}")]
    Shape(&'static str),
}

impl Op {
    /// Any letter case; one space in `NOT LIKE`.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text.to_ascii_uppercase().as_str() {
            "=" => Self::Eq,
            "!=" => Self::Ne,
            "<" => Self::Lt,
            ">" => Self::Gt,
            "<=" => Self::Le,
            ">=" => Self::Ge,
            "LIKE" => Self::Like,
            "NOT LIKE" => Self::NotLike,
            _ => return None,
        })
    }
}

impl Combine {
    /// Any letter case.
    pub fn parse(text: &str) -> Option<Self> {
        match text.to_ascii_uppercase().as_str() {
            "AND" => Some(Self::And),
            "OR" => Some(Self::Or),
            _ => None,
        }
    }
}

impl Filter {
    /// Reads the JSON form of the script's table: a condition `{"field","op"?,"value"}`, or a group: an array of
    /// children, or an object with `combine?` and the children as `"children"` or under the keys `"1"`, `"2"`, …
    /// (a Lua table with list items and named fields).
    ///
    /// # Errors
    /// Names the first error, for the script's author.
    pub fn from_json(value: &Value) -> Result<Self, FilterError> {
        let mut conditions = 0;
        read(value, 1, &mut conditions)
    }
}

fn read(value: &Value, level: usize, conditions: &mut usize) -> Result<Filter, FilterError> {
    if level > MAX_DEPTH {
        return Err(FilterError::TooDeep);
    }
    let object = match value {
        Value::Array(children) => return group(None, children.iter(), level, conditions),
        Value::Object(object) => object,
        _ => return Err(FilterError::Shape("it is not a table")),
    };
    if let Some(field) = object.get("field") {
        *conditions += 1;
        if *conditions > MAX_CONDITIONS {
            return Err(FilterError::TooMany);
        }
        return condition(field, object.get("op"), object.get("value"));
    }
    let combine = object.get("combine");
    match object.get("children") {
        Some(Value::Array(children)) => group(combine, children.iter(), level, conditions),
        Some(_) => Err(FilterError::Shape("children is not a list")),
        None => {
            let children = (1..).map_while(|n: usize| object.get(&n.to_string()));
            group(combine, children, level, conditions)
        }
    }
}

fn group<'a>(
    combine: Option<&Value>,
    children: impl Iterator<Item = &'a Value>,
    level: usize,
    conditions: &mut usize,
) -> Result<Filter, FilterError> {
    let combine = match combine {
        None | Some(Value::Null) => Combine::And,
        Some(Value::String(text)) => {
            Combine::parse(text).ok_or_else(|| FilterError::Combine(truncated(text)))?
        }
        Some(other) => return Err(FilterError::Combine(truncated(&other.to_string()))),
    };
    let children = children.map(|child| read(child, level + 1, conditions)).collect::<Result<Vec<_>, _>>()?;
    if children.is_empty() {
        return Err(FilterError::EmptyGroup);
    }
    Ok(Filter::Group { combine, children })
}

fn condition(field: &Value, op: Option<&Value>, value: Option<&Value>) -> Result<Filter, FilterError> {
    let Value::String(field) = field else { return Err(FilterError::Field(truncated(&field.to_string()))) };
    let path = Path::parse(field).map_err(|_| FilterError::Field(truncated(field)))?;
    let op = match op {
        None | Some(Value::Null) => Op::Eq,
        Some(Value::String(text)) => Op::parse(text).ok_or_else(|| FilterError::Op(truncated(text)))?,
        Some(other) => return Err(FilterError::Op(truncated(&other.to_string()))),
    };
    let value = match value {
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
    };
    if matches!(op, Op::Like | Op::NotLike) {
        match &value {
            Scalar::Text(pattern) if pattern.len() > MAX_PATTERN_BYTES => {
                return Err(FilterError::Value("the pattern is too long"));
            }
            Scalar::Text(_) => {}
            _ => return Err(FilterError::Value("LIKE takes a string")),
        }
    }
    Ok(Filter::Condition { field: path, op, value })
}

/// The beginning of an invalid text, for error messages.
fn truncated(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn path(text: &str) -> Path {
        Path::parse(text).unwrap()
    }

    #[test]
    fn reads_conditions_and_groups_in_every_shape() {
        let one = Filter::Condition { field: path("a"), op: Op::Eq, value: Scalar::Integer(1) };
        let two =
            Filter::Condition { field: path("b.c[0]"), op: Op::NotLike, value: Scalar::Text("x%".into()) };
        assert_eq!(Filter::from_json(&json!({"field": "a", "value": 1})), Ok(one.clone()));
        let (first, second) =
            (json!({"field": "a", "value": 1}), json!({"field": "b.c[0]", "op": "not like", "value": "x%"}));
        for (value, combine) in [
            (json!([first, second]), Combine::And),
            (json!({"combine": "or", "children": [first, second]}), Combine::Or),
            (json!({"combine": "OR", "1": first, "2": second}), Combine::Or),
            (json!({"1": first, "2": second, "4": 0}), Combine::And),
        ] {
            let children = vec![one.clone(), two.clone()];
            assert_eq!(Filter::from_json(&value), Ok(Filter::Group { combine, children }), "{value}");
        }
    }

    #[test]
    fn at_most_five_levels_are_accepted() {
        let mut value = json!({"field": "a", "value": 1});
        for _ in 1..MAX_DEPTH {
            value = json!([value]);
        }
        assert!(Filter::from_json(&value).is_ok());
        assert_eq!(Filter::from_json(&json!([value])), Err(FilterError::TooDeep));
    }

    #[test]
    fn errors_name_the_cause() {
        for (value, text) in [
            (json!("a"), "invalid filter: it is not a table"),
            (json!([]), "filter group is empty"),
            (json!({}), "filter group is empty"),
            (json!({"combine": "xor", "1": {"field": "a", "value": 1}}), "invalid filter combine \"xor\""),
            (json!({"field": "$type", "value": 1}), "invalid filter field \"$type\""),
            (json!({"field": 1, "value": 1}), "invalid filter field \"1\""),
            (json!({"field": "a", "op": "~", "value": 1}), "invalid filter op \"~\""),
            (json!({"field": "a"}), "unsupported filter value: nil"),
            (json!({"field": "a", "value": [1]}), "unsupported filter value: a table"),
            (
                json!({"field": "a", "op": "LIKE", "value": 1}),
                "unsupported filter value: LIKE takes a string",
            ),
            (json!({"field": "a", "value": "\0"}), "unsupported filter value: a string with U+0000"),
            (
                json!(vec![json!({"field": "a", "value": 1}); 101]),
                "filter has too many conditions (at most 100)",
            ),
        ] {
            assert_eq!(Filter::from_json(&value).unwrap_err().to_string(), text);
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "(field|AND|or|LIKE|a\\.b|.{0,5})".prop_map(Value::from),
        ];
        leaf.prop_recursive(8, 64, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec(("(field|op|value|combine|children|[0-3])", inner), 0..4)
                    .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn never_panics(value in any_json()) {
            let _ = Filter::from_json(&value);
        }
    }
}
