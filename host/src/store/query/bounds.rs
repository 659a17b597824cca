//! The part of a field's index that a query reads, and its condition in SQL.

use crate::query::filter::{Op, Scalar};
use crate::query::path::Path;
use crate::store::fields::{IndexKind, build};

use super::sql::{Classes, Dialect, Keys, Sql};

/// The part of an index for filters that a query reads.
#[derive(Clone, Debug)]
pub(super) struct Bounds<'a> {
    pub(super) index: i64,
    pub(super) path: &'a Path,
    pub(super) class: Class,
    pub(super) conditions: Vec<(Op, &'a Scalar)>,
}

/// The type of the value of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Number,
    Text,
    Boolean,
}

impl Bounds<'_> {
    pub(super) fn index_name(&self) -> String {
        build::name(IndexKind::Filter, self.index)
    }

    pub(super) fn is_one_value(&self) -> bool {
        self.conditions.iter().any(|(op, _)| *op == Op::Eq)
    }
}

/// The type of a value.
pub(super) fn class(value: &Scalar) -> Class {
    match value {
        Scalar::Text(_) => Class::Text,
        Scalar::Integer(_) | Scalar::Float(_) => Class::Number,
        Scalar::Boolean(_) => Class::Boolean,
    }
}

/// Adds the conditions for the rows within the bounds. The collection is a literal, because the databases use an index
/// of one collection only for a statement with its literal id.
pub(super) fn within<D: Dialect>(sql: &mut Sql, collection: i64, bounds: &Bounds<'_>) {
    let classes = Classes::INDEXED;
    let Keys { class, num, txt } = D::keys("r.record", bounds.path, classes);
    let (number, column, other) = match bounds.class {
        Class::Number => (classes.number, &num, &txt),
        Class::Boolean => (classes.boolean, &num, &txt),
        Class::Text => (classes.text, &txt, &num),
    };
    sql.push(&format!("r.collection_id = {collection} AND {class} = {number} AND {other} IS NULL"));
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
