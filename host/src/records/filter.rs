//! The filter tree of `db.query`.

use super::path::Path;

/// Levels a filter may have: the root is level 1 and a leaf condition counts as one (service.md, Limits).
pub const MAX_DEPTH: usize = 5;

#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    Condition { field: Path, op: Op, value: Scalar },
    Group { combine: Combine, children: Vec<Filter> },
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
    Text(String),
    Integer(i64),
    /// Finite.
    Float(f64),
    Boolean(bool),
}

/// What is wrong with a filter; the text is for the script's author.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    #[error("filter is nested too deep (at most {MAX_DEPTH} levels)")]
    TooDeep,
    #[error("filter has too many conditions")]
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

impl Filter {
    /// Reads the JSON form of the script's table: a condition `{"field","op"?,"value"}`, or a group: an array of
    /// children, or an object with `combine?` and the children under the keys `"1"`, `"2"`, … (a Lua table with
    /// both parts) or as `"children"`.
    pub fn from_json(_value: &serde_json::Value) -> Result<Self, FilterError> {
        todo!()
    }
}
