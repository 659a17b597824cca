//! The filter tree of `db.query`.
//!
//! A value is compared within its JSON type: a number with numbers, a string with strings (by code point), a boolean
//! with booleans (false before true). A field that is missing or null makes its condition false, whatever the
//! operator, except `MISSING`. A value of another type is not equal, so `!=`, `NOT IN` and `NOT LIKE` are true for it and all
//! other operators false. `LIKE` ignores ASCII case; `%` and `_` are wildcards and `\` escapes them. Both databases behave
//! alike.
//!
//! `BETWEEN` and `PREFIX` are read as two comparisons, so everything that holds for comparisons holds for them.

mod operand;
mod read;

use serde_json::Value;

use self::operand::{MAX_LIST, MAX_LIST_TOTAL, MAX_PATTERN_BYTES};
use super::path::Path;

/// The maximum number of levels: the root is level 1 and a leaf condition counts as a level (service.md, Limits).
pub const MAX_DEPTH: usize = 5;
/// The maximum number of conditions in one filter: each is evaluated for every row that the query scans.
const MAX_CONDITIONS: usize = 100;
/// All operators, as errors list them.
const OPERATORS: &str = "=, !=, <, >, <=, >=, LIKE, NOT LIKE, IN, NOT IN, BETWEEN, PREFIX, EXISTS, MISSING";

#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    Condition { field: Path, test: Test },
    Group { combine: Combine, children: Vec<Self> },
}

/// The test of a field's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    Compare {
        op: Op,
        value: Scalar,
    },
    /// Whether the value equals one of these, or, negated, none.
    Among {
        values: Vec<Scalar>,
        is_negated: bool,
    },
    /// Whether there is a value of any type other than null, or, negated, none.
    Exists {
        is_negated: bool,
    },
}

/// The operator of a comparison.
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
    #[error("filter has too many values in the lists of IN and NOT IN (at most {MAX_LIST_TOTAL} in all)")]
    TooManyValues,
    #[error("invalid filter field {0:?}")]
    Field(String),
    #[error("invalid filter op {0:?}; the ops are {OPERATORS}")]
    Op(String),
    #[error("invalid filter combine {0:?}")]
    Combine(String),
    #[error("filter group is empty")]
    EmptyGroup,
    #[error("unsupported filter value: {0}")]
    Value(&'static str),
    #[error("filter op {op} takes {takes}")]
    Operand { op: &'static str, takes: &'static str },
    #[error("filter op {0} takes a string of at most {MAX_PATTERN_BYTES} bytes")]
    PatternTooLong(&'static str),
    #[error("filter op {0} takes a list of 1 to {MAX_LIST} strings, numbers and booleans")]
    List(&'static str),
    #[error("invalid filter: {0}")]
    Shape(&'static str),
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

impl Scalar {
    /// Whether both are of one JSON type, so that one can be less than the other.
    fn is_comparable(&self, other: &Self) -> bool {
        let is_number = |value: &Self| matches!(value, Self::Integer(_) | Self::Float(_));
        std::mem::discriminant(self) == std::mem::discriminant(other) || is_number(self) && is_number(other)
    }
}

impl Filter {
    /// Reads the JSON form of the script's table: a condition `{"field","op"?,"value"?}`, or a group: an array of
    /// children, or an object with `combine?` and the children as `"children"` or under the keys `"1"`, `"2"`, …
    /// (a Lua table with list items and named fields).
    ///
    /// # Errors
    /// Names the first error, for the script's author.
    pub fn from_json(value: &Value) -> Result<Self, FilterError> {
        read::filter(value)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn compare(field: &str, op: Op, value: Scalar) -> Filter {
        Filter::Condition { field: Path::parse(field).unwrap(), test: Test::Compare { op, value } }
    }

    #[test]
    fn reads_conditions_and_groups_in_every_shape() {
        let one = compare("a", Op::Eq, Scalar::Integer(1));
        let two = compare("b.c[0]", Op::NotLike, Scalar::Text("x%".into()));
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
            (
                json!({"field": "a", "op": "~", "value": 1}),
                "invalid filter op \"~\"; the ops are =, !=, <, >, <=, >=, LIKE, NOT LIKE, IN, NOT IN, BETWEEN, PREFIX, \
                 EXISTS, MISSING",
            ),
            (json!({"field": "a"}), "unsupported filter value: nil"),
            (json!({"field": "a", "value": [1]}), "unsupported filter value: a table"),
            (json!({"field": "a", "op": "LIKE", "value": 1}), "filter op LIKE takes a string"),
            (
                json!({"field": "a", "op": "in", "value": 1}),
                "filter op IN takes a list of 1 to 100 strings, numbers and booleans",
            ),
            (
                json!({"field": "a", "op": "NOT IN", "value": []}),
                "filter op NOT IN takes a list of 1 to 100 strings, numbers and booleans",
            ),
            (
                json!({"field": "a", "op": "IN", "value": vec![1; 101]}),
                "filter op IN takes a list of 1 to 100 strings, numbers and booleans",
            ),
            (
                json!({"field": "a", "op": "IN", "value": [1, null]}),
                "filter op IN takes a list of 1 to 100 strings, numbers and booleans",
            ),
            (
                json!({"field": "a", "op": "IN", "value": ["\0"]}),
                "unsupported filter value: a string with U+0000",
            ),
            (
                json!(vec![json!({"field": "a", "op": "IN", "value": vec![1; 100]}); 11]),
                "filter has too many values in the lists of IN and NOT IN (at most 1000 in all)",
            ),
            (
                json!({"field": "a", "op": "BETWEEN", "value": [1, "2"]}),
                "filter op BETWEEN takes a list of two values of one type, the lowest and the highest",
            ),
            (
                json!({"field": "a", "op": "BETWEEN", "value": [1]}),
                "filter op BETWEEN takes a list of two values of one type, the lowest and the highest",
            ),
            (json!({"field": "a", "op": "PREFIX", "value": 1}), "filter op PREFIX takes a string"),
            (json!({"field": "a", "op": "EXISTS", "value": 1}), "filter op EXISTS takes no value"),
            (json!({"field": "a", "value": "\0"}), "unsupported filter value: a string with U+0000"),
            (
                json!(vec![json!({"field": "a", "value": 1}); 101]),
                "filter has too many conditions (at most 100)",
            ),
        ] {
            assert_eq!(Filter::from_json(&value).unwrap_err().to_string(), text);
        }
    }

    #[test]
    fn a_range_is_two_comparisons() {
        let both = |low, high| {
            Ok(Filter::Group {
                combine: Combine::And,
                children: vec![compare("a", Op::Ge, low), compare("a", high, Scalar::Text("b".into()))],
            })
        };
        let text = |text: &str| Scalar::Text(text.into());
        let read =
            |op: &str, value: Value| Filter::from_json(&json!({"field": "a", "op": op, "value": value}));
        assert_eq!(read("between", json!(["a", "b"])), both(text("a"), Op::Le));
        assert_eq!(read("PREFIX", json!("a")), both(text("a"), Op::Lt));
        assert_eq!(read("PREFIX", json!("a\u{10ffff}")), both(text("a\u{10ffff}"), Op::Lt));
        assert_eq!(operand::upper_bound("\u{d7ff}").as_deref(), Some("\u{e000}"));
        assert_eq!(read("PREFIX", json!("")), Ok(compare("a", Op::Ge, text(""))));
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "(field|AND|or|LIKE|in|NOT IN|between|PREFIX|exists|a\\.b|.{0,5})".prop_map(Value::from),
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
