//! A part of the index of a field, and its condition in SQL.

use crate::query::filter::{Op, Scalar};
use crate::query::path::Path;
use crate::store::fields::{Kind, build};

use super::sql::{Classes, Dialect, Keys, Sql};

/// A part of an index for filters.
#[derive(Clone, Debug)]
pub(super) struct Bounds<'a> {
    pub(super) index: i64,
    pub(super) path: &'a Path,
    pub(super) class: Class,
    pub(super) conditions: Vec<(Op, &'a Scalar)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Number,
    Text,
    Boolean,
}

impl Bounds<'_> {
    pub(super) fn index_name(&self) -> String {
        build::name(Kind::Filter, self.index)
    }

    pub(super) fn is_one_value(&self) -> bool {
        self.conditions.iter().any(|(op, _)| *op == Op::Eq)
    }
}

/// The class that a value's index entries have.
pub(super) fn class(value: &Scalar) -> Class {
    match value {
        Scalar::Text(_) => Class::Text,
        Scalar::Integer(_) | Scalar::Float(_) => Class::Number,
        Scalar::Boolean(_) => Class::Boolean,
    }
}

/// The rows of an index that are within the bounds. The collection is a literal: an index of one collection is only
/// used by statements that name it.
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
        // A key may be shorter than its value, so values that differ may have one key: the condition itself, which
        // follows, tells them apart.
        let op = match op {
            Op::Lt | Op::Le => "<=",
            Op::Gt | Op::Ge => ">=",
            _ => "=",
        };
        let value = D::key_of(sql, value);
        sql.push(&format!(" AND {column} {op} {value}"));
    }
}
