//! The part of a field's index that a query reads, and its condition in SQL.

use crate::query::filter::{Filter, Op, Scalar, Test};
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

/// A condition that an index can find the rows of.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) enum Bound<'a> {
    /// Equality, or one end of a range.
    Compare(Op, &'a Scalar),
    /// Equality with one of several values of one type.
    Among(&'a [Scalar]),
}

impl<'a> Bound<'a> {
    /// `None` for a test that needs every row.
    pub(in crate::store) fn of(test: &'a Test) -> Option<Self> {
        match test {
            Test::Compare { op: op @ (Op::Eq | Op::Lt | Op::Le | Op::Gt | Op::Ge), value } => {
                Some(Self::Compare(*op, value))
            }
            Test::Among { values, is_negated: false } => {
                let of = ValueType::of(values.first()?);
                values.iter().all(|value| ValueType::of(value) == of).then_some(Self::Among(values))
            }
            Test::Compare { .. } | Test::Among { .. } | Test::Exists { .. } => None,
        }
    }

    pub(in crate::store) fn is_list(self) -> bool {
        matches!(self, Self::Among(_))
    }

    fn value_type(self) -> ValueType {
        match self {
            Self::Compare(_, value) => ValueType::of(value),
            Self::Among(values) => values.first().map_or(ValueType::Missing, ValueType::of),
        }
    }
}

/// Conditions on one field that must all hold, for values of one type.
#[derive(Clone, Debug)]
pub(in crate::store) struct Values<'a> {
    pub(in crate::store) of: ValueType,
    pub(in crate::store) conditions: Vec<Bound<'a>>,
}

impl<'a> Values<'a> {
    pub(in crate::store) fn of(bound: Bound<'a>) -> Self {
        Self { of: bound.value_type(), conditions: vec![bound] }
    }

    /// Adds a condition. One of another type is left out: no row matches both, and the filter's own conditions follow.
    pub(in crate::store) fn add(&mut self, bound: Bound<'a>) {
        if self.of == bound.value_type() {
            self.conditions.push(bound);
        }
    }

    /// Adds the conditions to a statement, for the column of an index that has the values of this type.
    pub(in crate::store) fn push<D: Dialect>(&self, sql: &mut Sql, column: &str) {
        for bound in &self.conditions {
            // Keys of long texts are truncated, so different values may have the same key. The filter's own condition
            // follows and decides.
            match bound {
                Bound::Compare(op, value) => {
                    let op = match op {
                        Op::Lt | Op::Le => "<=",
                        Op::Gt | Op::Ge => ">=",
                        _ => "=",
                    };
                    let value = D::key_of(sql, value);
                    sql.push(format_args!(" AND {column} {op} {value}"));
                }
                Bound::Among(values) => {
                    let values: Vec<_> = values.iter().map(|value| D::key_of(sql, value)).collect();
                    sql.push(format_args!(" AND {column} IN ({})", values.join(", ")));
                }
            }
        }
    }
}

impl Bounds<'_> {
    pub(in crate::store) fn index_name(&self) -> String {
        IndexKind::Filter.index_name(self.index)
    }

    pub(in crate::store) fn is_one_value(&self) -> bool {
        self.values.conditions.iter().any(|bound| matches!(bound, Bound::Compare(Op::Eq, _)))
    }

    pub(in crate::store) fn is_list(&self) -> bool {
        self.values.conditions.iter().any(|bound| bound.is_list())
    }

    /// Whether all rows within the bounds match the filter.
    pub(in crate::store) fn has_all_of(&self, filter: Option<&Filter>) -> bool {
        self.values.conditions.len() == filter.map_or(0, conditions)
    }

    /// The bounds of each value of the first list: together they contain the same rows.
    pub(in crate::store) fn split(&self) -> Vec<Self> {
        let list = self.values.conditions.iter().enumerate().find_map(|(at, bound)| match bound {
            Bound::Among(values) => Some((at, *values)),
            Bound::Compare(..) => None,
        });
        let Some((at, values)) = list else { return vec![self.clone()] };
        let one = |value| {
            let mut one = self.clone();
            one.values.conditions[at] = Bound::Compare(Op::Eq, value);
            one
        };
        values.iter().map(one).collect()
    }
}

/// Adds the conditions for the rows within the bounds. The collection is a literal, because the databases use an index
/// of one collection only for a statement with its literal id.
pub(in crate::store) fn within<D: Dialect>(sql: &mut Sql, collection: i64, bounds: &Bounds<'_>) {
    let InIndex { condition, value: column, .. } = D::in_index(collection, bounds.path, bounds.values.of);
    sql.push(format_args!("{condition}"));
    bounds.values.push::<D>(sql, &column);
}
