//! Defines the SQL builder of `db.query`, and the trait for what differs between the databases.

use std::borrow::Cow;

use crate::query::filter::{Op, Scalar};
use crate::query::path::Path;
use crate::query::sort::Direction;
use crate::store::partitions::Partition;

/// A statement being written.
#[derive(Debug)]
pub(in crate::store) struct Sql {
    pub(in crate::store) text: String,
    pub(in crate::store) values: Vec<Value>,
}

/// A value to bind.
#[derive(Debug)]
pub(in crate::store) enum Value {
    Text(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
}

impl Sql {
    /// Adds a value and returns its placeholder.
    pub(in crate::store) fn bind(&mut self, value: Value) -> String {
        self.values.push(value);
        format!("${}", self.values.len())
    }

    pub(in crate::store) fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }
}

/// The SQL that differs between the databases.
pub(in crate::store) trait Dialect {
    /// The columns of a row, in the order of `RawRow`.
    const COLUMNS: &'static str;
    /// What begins a statement whose rows an index returns in order, and what stands before its limit. See
    /// `limited` of `store::records`.
    const LIMITED: (&'static str, &'static str);
    /// Whether ORDER BY must list keys that are constant because they are NULL, so that the order of an index is used.
    /// PostgreSQL treats a column as constant if it equals a value, but not if it IS NULL. SQLite does both, and with a
    /// NULL expression in ORDER BY it would not use the index.
    const ORDER_NAMES_NULLS: bool;
    /// What stands before and after a subquery of ids, among which a row's id has to be. Makes the database find the rows
    /// by these ids.
    const ID_IS_AMONG: (&'static str, &'static str);
    /// The `LIKE` operator that ignores case only for ASCII letters.
    const LIKE: &'static str;
    /// The time and the id of a row in an index, in the order of the index.
    const INDEX_ORDER: (&'static str, &'static str);
    /// FROM and the first conditions: visible records `r` of a partition. Uses `index` if it is given.
    fn from_visible(partition: Partition, index: Option<&str>) -> Cow<'static, str>;
    /// As [`Self::from_visible`], with their account `d`, for a statement that sorts all records it finds.
    fn from_accounts(partition: Partition, index: Option<&str>) -> Cow<'static, str>;
    /// The DID of the account of `r`, where the account may not be joined.
    const DID: &'static str;
    /// A table to join and the condition for it, so that [`Self::COLUMNS`] can be selected from records `r`.
    const COLUMNS_JOIN: (&'static str, &'static str);
    /// FROM of a statement that reads only an index of a partition.
    fn from_index(partition: Partition, index: &str) -> Cow<'static, str>;
    /// How a statement reads the rows of one type in the index of a field of a collection.
    fn in_index(collection: i64, field: &Path, of: ValueType) -> InIndex;
    /// The SQL of one condition of a filter.
    fn condition(sql: &mut Sql, field: &Path, op: Op, value: &Scalar) -> String;
    /// The keys of a field in the column `record`, by which sorts and indexes of fields are ordered.
    fn keys(record: &str, field: &Path, classes: Classes) -> Keys;
    /// The text of a field in the column `record`, NULL if the field is not a string. Compared by code point.
    fn text(record: &str, field: &Path) -> String;
    /// A text as searches are sorted by it: its first [`MAX_TEXT_CHARS`](crate::query::sort::MAX_TEXT_CHARS) characters,
    /// ASCII letters in lower case.
    fn folded(text: &str) -> String;
    /// The placeholder of a value in the form of [`Keys`]. A value that is less or greater than a record's value has
    /// the same order to its key, or is equal to it.
    fn key_of(sql: &mut Sql, value: &Scalar) -> String;
    /// The columns that `PositionRow` reads, from the columns of `s`.
    const POSITION: &'static str;
    /// The same columns for a sort by time, which has no `s`.
    const POSITION_INDEXED_AT: &'static str;
    /// The placeholder of a decimal number, in a form that can be compared with `num`.
    fn number(sql: &mut Sql, text: &str) -> String;
}

/// The rank of each type in the order of a sort: numbers, strings, booleans when ascending, the reverse when
/// descending. Rows without a value are always last ([`MISSING`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct Classes {
    pub(super) number: i64,
    pub(super) text: i64,
    pub(super) boolean: i64,
}

/// The class of rows without a value.
pub(in crate::store) const MISSING: i64 = 3;

impl Classes {
    /// The classes in indexes of fields.
    pub(in crate::store) const INDEXED: Self = Self { number: 0, text: 1, boolean: 2 };

    pub(super) fn of(direction: Direction) -> Self {
        match direction {
            Direction::Asc => Self::INDEXED,
            Direction::Desc => Self { number: 2, text: 1, boolean: 0 },
        }
    }
}

/// The type of a field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum ValueType {
    Number,
    Text,
    Boolean,
    /// No value, or one that can't be compared.
    Missing,
}

impl ValueType {
    pub(super) fn of(value: &Scalar) -> Self {
        match value {
            Scalar::Text(_) => Self::Text,
            Scalar::Integer(_) | Scalar::Float(_) => Self::Number,
            Scalar::Boolean(_) => Self::Boolean,
        }
    }

    pub(super) fn class(self, classes: Classes) -> i64 {
        match self {
            Self::Number => classes.number,
            Self::Text => classes.text,
            Self::Boolean => classes.boolean,
            Self::Missing => MISSING,
        }
    }
}

/// The rows of one type in an index.
pub(in crate::store) struct InIndex {
    /// The condition that selects them.
    pub(super) condition: String,
    /// Their value; meaningless for [`ValueType::Missing`].
    pub(super) value: String,
    /// The same as in [`Keys`].
    pub(super) num: String,
    pub(super) txt: String,
}

/// Expressions for the keys by which a field is sorted and found. `num` is NULL for strings, `txt` for all other types.
pub(in crate::store) struct Keys {
    pub(in crate::store) class: String,
    /// Numbers, and 0 and 1 for booleans.
    pub(in crate::store) num: String,
    /// The first characters of a string.
    pub(in crate::store) txt: String,
}

pub(super) fn operator(op: Op) -> &'static str {
    match op {
        Op::Eq => "=",
        Op::Ne => "<>",
        Op::Lt => "<",
        Op::Gt => ">",
        Op::Le => "<=",
        Op::Ge => ">=",
        Op::Like => "LIKE",
        Op::NotLike => "NOT LIKE",
    }
}

/// Escapes a trailing lone `\` in a pattern, so that it matches itself. Unescaped it is an error on PostgreSQL and
/// never matches on SQLite.
pub(super) fn pattern(text: &str) -> String {
    let trailing = text.bytes().rev().take_while(|b| *b == b'\\').count();
    if trailing % 2 == 1 { format!("{text}\\") } else { text.to_owned() }
}
