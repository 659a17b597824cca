//! The part of a field's index that a query reads, and its condition in SQL.

use crate::query::filter::{Op, Scalar};
use crate::query::path::Path;
use crate::store::fields::IndexKind;

use super::sql::{Dialect, InIndex, Sql, ValueType};

/// The part of an index for filters that a query reads.
#[derive(Clone, Debug)]
pub(super) struct Bounds<'a> {
    pub(super) index: i64,
    pub(super) path: &'a Path,
    pub(super) of: ValueType,
    pub(super) conditions: Vec<(Op, &'a Scalar)>,
}

impl Bounds<'_> {
    pub(super) fn index_name(&self) -> String {
        IndexKind::Filter.index_name(self.index)
    }

    pub(super) fn is_one_value(&self) -> bool {
        self.conditions.iter().any(|(op, _)| *op == Op::Eq)
    }
}

/// Adds the conditions for the rows within the bounds. The collection is a literal, because the databases use an index
/// of one collection only for a statement with its literal id.
pub(super) fn within<D: Dialect>(sql: &mut Sql, collection: i64, bounds: &Bounds<'_>) {
    let InIndex { condition, value: column, .. } = D::in_index(collection, bounds.path, bounds.of);
    sql.push(&condition);
    for (op, value) in &bounds.conditions {
        // Keys of long texts are truncated, so different values may have the same key. The filter's own condition
        // follows and decides.
        let op = match op {
            Op::Lt | Op::Le => "<=",
            Op::Gt | Op::Ge => ">=",
            _ => "=",
        };
        let value = D::key_of(sql, value);
        sql.push(&format!(" AND {column} {op} {value}"));
    }
}
