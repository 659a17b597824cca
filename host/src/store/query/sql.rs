//! Statements of `db.query`, piece by piece, and what each dialect has to say for itself.

use std::borrow::Cow;

use crate::query::filter::{Op, Scalar};
use crate::query::path::Path;
use crate::query::sort::Direction;

/// A statement being written.
#[derive(Debug)]
pub(in crate::store) struct Sql {
    pub(in crate::store) text: String,
    pub(in crate::store) values: Vec<Value>,
}

#[derive(Debug)]
pub(in crate::store) enum Value {
    Text(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
}

impl Sql {
    /// Keeps a value and gives its placeholder.
    pub(in crate::store) fn bind(&mut self, value: Value) -> String {
        self.values.push(value);
        format!("${}", self.values.len())
    }

    pub(in crate::store) fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }
}

/// What a dialect says in its own words.
pub(in crate::store) trait Dialect {
    /// The columns of a row, in the order of `RawRow`.
    const COLUMNS: &'static str;
    /// Whether an order has to name keys that are constant because they are NULL. PostgreSQL takes a column for
    /// constant when it equals something, but not when it is NULL; SQLite does, and for expressions it then does not
    /// want to hear of it.
    const ORDER_NAMES_NULLS: bool;
    /// `LIKE` that ignores the case of ASCII letters alone.
    const LIKE: &'static str;
    /// Visible records `r` with their account `d`, up to the first conditions; by way of an index if one is named.
    fn from_visible(index: Option<&str>) -> Cow<'static, str>;
    /// The condition of one leaf.
    fn condition(sql: &mut Sql, field: &Path, op: Op, value: &Scalar) -> String;
    /// The keys of a field in the column `record`: what sorts go by, and what indexes of fields hold.
    fn keys(record: &str, field: &Path, classes: Classes) -> Keys;
    /// The text at a field of the column `record`, NULL when it holds no string. By code point.
    fn text(record: &str, field: &Path) -> String;
    /// The placeholder of a value in the form that [`Keys`] have: what compares with a record's value compares with
    /// its key in the same way, or is equal to it.
    fn key_of(sql: &mut Sql, value: &Scalar) -> String;
    /// What `PlaceRow` reads, from these columns of `s`.
    const PLACE: &'static str;
    /// The same for a sort by time, which needs no `s`.
    const PLACE_INDEXED_AT: &'static str;
    /// The placeholder of a decimal number, with what it takes to compare it with `num`.
    fn number(sql: &mut Sql, text: &str) -> String;
}

/// The place of each type in a custom order, such that smaller comes first: numbers, strings, booleans when
/// ascending, the other way round when descending, and rows without a value last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct Classes {
    pub(super) number: i64,
    pub(super) text: i64,
    pub(super) boolean: i64,
}

pub(super) const MISSING: i64 = 3;

impl Classes {
    /// As indexes have them.
    pub(in crate::store) const INDEXED: Self = Self { number: 0, text: 1, boolean: 2 };

    pub(super) fn of(direction: Direction) -> Self {
        match direction {
            Direction::Asc => Self::INDEXED,
            Direction::Desc => Self { number: 2, text: 1, boolean: 0 },
        }
    }
}

/// What a field is sorted and found by. `num` is NULL for strings, `txt` for all but strings.
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

/// A pattern that ends in a lone `\` is an error on PostgreSQL and never matches on SQLite: it means the sign itself.
pub(super) fn pattern(text: &str) -> String {
    let trailing = text.bytes().rev().take_while(|b| *b == b'\\').count();
    if trailing % 2 == 1 { format!("{text}\\") } else { text.to_owned() }
}
