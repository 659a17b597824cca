//! Tells which columns of a result are JSON. SQLite has no type for it: there a column is JSON if it is one of the views'
//! JSON columns or an own column of that type, or is computed from JSON by an operator or a function that gives JSON. On
//! PostgreSQL the same columns have a JSON type, except for texts of the views.

use sqlparser::ast::{BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments};

use super::Emitter;
use super::names::single;

/// Functions of SQLite that return JSON.
const RETURN_JSON: [&str; 11] = [
    "json",
    "json_array",
    "json_group_array",
    "json_group_object",
    "json_insert",
    "json_object",
    "json_patch",
    "json_quote",
    "json_remove",
    "json_replace",
    "json_set",
];

/// Functions that return one of their arguments, or the value that the first has in another row.
const RETURN_ARGUMENT: [&str; 8] =
    ["coalesce", "first_value", "ifnull", "lag", "last_value", "lead", "nth_value", "nullif"];

impl Emitter<'_> {
    /// Whether the value of an expression of a SELECT is JSON. To be called directly after it was written.
    pub(super) fn written_is_json(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Nested(inner) => self.written_is_json(inner),
            // The subquery was the last query that ended.
            Expr::Subquery(_) => self.last_query_is_json,
            other => self.is_json(other),
        }
    }

    fn is_json(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Nested(inner) => self.is_json(inner),
            Expr::Identifier(name) => self.resolve_unqualified(name).is_ok_and(|column| column.is_json),
            Expr::CompoundIdentifier(names) => match names.as_slice() {
                [table, column] => self.resolve_qualified(table, column).is_ok_and(|column| column.is_json),
                _ => false,
            },
            Expr::BinaryOp { op, .. } => matches!(op, BinaryOperator::Arrow | BinaryOperator::HashArrow),
            Expr::Function(function) => self.returns_json(function),
            _ => false,
        }
    }

    fn returns_json(&self, function: &Function) -> bool {
        let Ok(name) = single(&function.name) else { return false };
        let is = |known: &&str| name.value.eq_ignore_ascii_case(known);
        if RETURN_JSON.iter().any(is) {
            return true;
        }
        match &function.args {
            FunctionArguments::List(list) if RETURN_ARGUMENT.iter().any(is) => match list.args.first() {
                Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(first))) => self.is_json(first),
                _ => false,
            },
            _ => false,
        }
    }
}
