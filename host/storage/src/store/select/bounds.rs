//! The part of a field's index that a query reads, and its condition in SQL.

use crate::query::filter::{Filter, Op, Scalar};
use crate::query::path::Path;

use super::index_kind::IndexKind;
use super::{Dialect, InIndex, Sql, ValueType};

/// The part of an index for filters that a query reads.
#[derive(Clone, Debug)]
pub(in crate::store) struct Bounds<'a> {
    pub(in crate::store) index: i64,
    pub(in crate::store) path: &'a Path,
    pub(in crate::store) values: Values<'a>,
}

/// The number of conditions in a filter, including those under an OR.
pub(in crate::store) fn conditions(filter: &Filter) -> usize {
    match filter {
        Filter::Condition { .. } => 1,
        Filter::Group { children, .. } => children.iter().map(conditions).sum(),
    }
}

/// Conditions on one field that must all hold, for values of one type.
#[derive(Clone, Debug)]
pub(in crate::store) struct Values<'a> {
    pub(in crate::store) of: ValueType,
    pub(in crate::store) conditions: Vec<(Op, &'a Scalar)>,
}

impl<'a> Values<'a> {
    pub(in crate::store) fn of(op: Op, value: &'a Scalar) -> Self {
        Self { of: ValueType::of(value), conditions: vec![(op, value)] }
    }

    /// Adds a condition. One of another type is left out: no row matches both, and the filter's own conditions follow.
    pub(in crate::store) fn add(&mut self, op: Op, value: &'a Scalar) {
        if self.of == ValueType::of(value) {
            self.conditions.push((op, value));
        }
    }

    /// Adds the conditions to a statement, for the column of an index that has the values of this type.
    pub(in crate::store) fn push<D: Dialect>(&self, sql: &mut Sql, column: &str) {
        for (op, value) in &self.conditions {
            // Keys of long texts are truncated, so different values may have the same key. The filter's own condition
            // follows and decides.
            let op = match op {
                Op::Lt | Op::Le => "<=",
                Op::Gt | Op::Ge => ">=",
                _ => "=",
            };
            let value = D::key_of(sql, value);
            sql.push(format_args!(" AND {column} {op} {value}"));
        }
    }
}

impl Bounds<'_> {
    pub(in crate::store) fn index_name(&self) -> String {
        IndexKind::Filter.index_name(self.index)
    }

    pub(in crate::store) fn is_one_value(&self) -> bool {
        self.values.conditions.iter().any(|(op, _)| *op == Op::Eq)
    }
}

/// Adds the conditions for the rows within the bounds. The collection is a literal, because the databases use an index
/// of one collection only for a statement with its literal id.
pub(in crate::store) fn within<D: Dialect>(sql: &mut Sql, collection: i64, bounds: &Bounds<'_>) {
    let InIndex { condition, value: column, .. } = D::in_index(collection, bounds.path, bounds.values.of);
    sql.push(format_args!("{condition}"));
    bounds.values.push::<D>(sql, &column);
}
