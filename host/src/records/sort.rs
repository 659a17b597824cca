//! The order of a `db.query`.

use super::path::{InvalidPath, Path};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sort {
    pub key: SortKey,
    pub direction: Direction,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SortKey {
    IndexedAt,
    Did,
    Uri,
    /// By JSON type, then value; rows without the field come last in both directions.
    Field(Path),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Asc,
    Desc,
}

/// Where a row stands in a custom order.
#[derive(Clone, Debug, PartialEq)]
pub struct SortKeyset {
    pub value: SortValue,
    pub id: i64,
}

#[derive(Clone, Debug, PartialEq)]
pub enum SortValue {
    /// Decimal text of an integer or a float.
    Number(String),
    Text(String),
    Boolean(bool),
    /// No value at the path, or one that has no order.
    Missing,
}

impl Sort {
    /// `key` as scripts write it: `indexed_at`, `did`, `uri`, or a path.
    pub fn parse(_key: &str, _direction: Direction) -> Result<Self, InvalidPath> {
        todo!()
    }
}
