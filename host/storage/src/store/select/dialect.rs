//! The differences between the databases.

use crate::query::filter::{Op, Scalar};
use crate::query::group::Bucket;
use crate::query::path::Path;
use crate::query::sort::Direction;
use crate::store::Backend;
use crate::store::intern::Collection;
use crate::store::partitions::Partition;

use super::{Accounts, By, Columns, Placeholder, Sql};

/// The SQL that differs between the databases.
pub(in crate::store) trait Dialect {
    /// The database, which the shape of a statement names.
    const BACKEND: Backend;
    /// Whether the rows after a keyset are read in two parts: those of its time, and earlier ones. SQLite looks up no pair
    /// whose second part is the id that it adds to every index: it would pass over all rows of that time, and a batch of
    /// the stream has one time.
    const SPLITS_TIMES: bool;
    /// The columns of a statement.
    fn columns(columns: Columns) -> &'static str;
    /// FROM and the first conditions, for records `r`. Those of the collection are only selected for [`By::Target`].
    fn from(sql: &mut Sql, collection: Collection, by: By<'_>, accounts: Accounts);
    /// Writes a statement whose rows an index returns in order: what `rows` writes, with a limit. `is_page`: the limit is
    /// that of a page.
    fn limited(
        sql: &mut Sql,
        columns: Columns,
        is_page: bool,
        limit: Placeholder,
        rows: impl FnOnce(&mut Sql),
    );
    /// Whether ORDER BY must list keys that are constant because they are NULL, so that the order of an index is used.
    /// PostgreSQL treats a column as constant if it equals a value, but not if it IS NULL. SQLite does both, and with a
    /// NULL expression in ORDER BY it would not use the index.
    const ORDER_NAMES_NULLS: bool;
    /// The SQL before and after a subquery of ids, among which a row's id has to be. Makes the database find the rows
    /// by these ids.
    const ID_IS_AMONG: (&'static str, &'static str);
    /// The SQL before and after a JSON array of DIDs, among which that of the account of `r` has to be. The array is read once.
    const DID_IS_IN_JSON: (&'static str, &'static str);
    /// The same for an array of the ids of accounts.
    const DID_ID_IS_IN_JSON: (&'static str, &'static str);
    /// The `LIKE` operator that ignores case only for ASCII letters.
    const LIKE: &'static str;
    /// The time and the id of a row in an index, in the order of the index.
    const INDEX_ORDER: (&'static str, &'static str);
    /// The DID of the account of `r`, where the account may not be joined.
    const DID: &'static str;
    /// The text of a binary CID in a column, NULL without one.
    fn cid_text(column: &str) -> String;
    /// A table to join and the condition for it, so that [`Columns::Row`] can be selected from records `r`.
    const COLUMNS_JOIN: (&'static str, &'static str);
    /// The table, with its alias, of a statement that reads only an index of a partition.
    fn index_table(partition: Partition, index: &str) -> String;
    /// The way in which a statement reads the rows of one type in the index of a field of a collection.
    fn in_index(collection: i64, field: &Path, of: ValueType) -> InIndex;
    /// The SQL of a comparison in a filter.
    fn condition(sql: &mut Sql, field: &Path, op: Op, value: &Scalar) -> String;
    /// The condition that a column of words, separated by spaces, has this one.
    fn has_word(column: &str, word: &str) -> String;
    /// The SQL of the condition that a field equals one of these values, or, negated, that it has another one.
    fn among(sql: &mut Sql, field: &Path, values: &[Scalar], is_negated: bool) -> String;
    /// The SQL of the condition that a field has a value other than null, or, negated, that it has none.
    fn exists(field: &Path, is_negated: bool) -> String;
    /// The keys of a field in the column `record`, by which sorts and indexes of fields are ordered.
    fn keys(record: &str, field: &Path, classes: Classes) -> Keys;
    /// The text of a field in the column `record`, NULL if the field is not a string. Compared by code point.
    fn text(record: &str, field: &Path) -> String;
    /// The canonical JSON text of an array in a field, the same on both databases: without spaces, the members of objects by name, whole
    /// numbers as integers. NULL if the field has none, or one that is no value of a group
    /// ([`GroupValue::Field`](crate::query::group::GroupValue::Field)).
    fn short_list(record: &str, field: &Path) -> String;
    /// The label of the bucket of a time in microseconds.
    fn bucket_of_micros(column: &str, bucket: Bucket) -> String;
    /// The label of the bucket of a datetime as text, NULL if it is none.
    fn bucket_of_text(text: &str, bucket: Bucket) -> String;
    /// A text as searches are sorted by it: its first [`MAX_TEXT_CHARS`](crate::query::sort::MAX_TEXT_CHARS) characters,
    /// ASCII letters in lower case.
    fn folded(text: &str) -> String;
    /// The placeholder of a value in the form of [`Keys`]. A value that is less or greater than a record's value has
    /// the same order to its key, or is equal to it.
    fn key_of(sql: &mut Sql, value: &Scalar) -> String;
    /// The columns that `PositionRow` reads of a key, from the columns of `s` with this suffix.
    fn position(suffix: &str) -> String;
    /// The placeholder of a decimal number, in a form that can be compared with `num`.
    fn number(sql: &mut Sql, text: &str) -> String;
}

/// The rank of each type in the order of a sort: numbers, strings, booleans when ascending, the reverse when
/// descending. Rows without a value are always last ([`MISSING`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct Classes {
    pub(in crate::store) number: i64,
    pub(in crate::store) text: i64,
    pub(in crate::store) boolean: i64,
}

/// The class of rows without a value.
pub(in crate::store) const MISSING: i64 = 3;

impl Classes {
    /// The classes in indexes of fields.
    pub(in crate::store) const INDEXED: Self = Self { number: 0, text: 1, boolean: 2 };

    pub(in crate::store) fn of(direction: Direction) -> Self {
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
    pub(in crate::store) fn of(value: &Scalar) -> Self {
        match value {
            Scalar::Text(_) => Self::Text,
            Scalar::Integer(_) | Scalar::Float(_) => Self::Number,
            Scalar::Boolean(_) => Self::Boolean,
        }
    }

    pub(in crate::store) fn class(self, classes: Classes) -> i64 {
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
    pub(in crate::store) condition: String,
    /// Their value; meaningless for [`ValueType::Missing`].
    pub(in crate::store) value: String,
    /// The same as in [`Keys`].
    pub(in crate::store) num: String,
    pub(in crate::store) txt: String,
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

/// A subquery of the parts of a datetime, for [`Dialect::bucket_of_text`]: `b` is the text to the seconds, and `z` the zone
/// without a fraction of a second. `barrier` keeps the database from computing the text once for each use.
pub(super) fn datetime_parts(text: &str, barrier: &str) -> String {
    format!(
        "(SELECT substr(x.t, 1, 19) AS b, CASE WHEN substr(x.t, 20, 1) BETWEEN '0' AND '9' THEN '' \
         ELSE ltrim(substr(x.t, 20), '.0123456789') END AS z FROM (SELECT {text} AS t{barrier}) x{barrier}) y"
    )
}
