//! Writes the columns of SELECT and RETURNING.

use sqlparser::ast::{
    BinaryOperator, Expr, SelectItem, SelectItemQualifiedWildcardKind, Value, WildcardAdditionalOptions,
};

use super::lists::TEXT;
use super::names::single;
use super::scope::{Column, Columns, Cost};
use super::{Emitter, GuardError, refuse_if, unsupported};

impl Emitter<'_> {
    /// Writes the columns of a SELECT or RETURNING, and returns them.
    pub(super) fn projection(&mut self, items: &[SelectItem]) -> Result<Columns, GuardError> {
        let mut columns = Columns::new();
        // Not that of a subquery in these columns.
        let is_anchor = std::mem::take(&mut self.is_anchor);
        self.list(items, |emit, item| {
            let before = emit.spent;
            let is_json;
            let name = match item {
                SelectItem::UnnamedExpr(expr) => {
                    emit.projected(expr, is_anchor)?;
                    is_json = emit.written_is_json(expr);
                    let name = emit.name_of(expr);
                    if let Some(name) = &name {
                        let name = emit.quoted(name);
                        emit.push(&format!(" AS {name}"));
                    }
                    name
                }
                SelectItem::ExprWithAlias { expr, alias } => {
                    emit.projected(expr, is_anchor)?;
                    is_json = emit.written_is_json(expr);
                    emit.push(" AS ");
                    emit.name(alias)?;
                    Some(emit.checked_name(alias)?)
                }
                SelectItem::Wildcard(options) => {
                    plain_wildcard(options)?;
                    emit.push("*");
                    columns.extend(emit.star_columns());
                    return Ok(());
                }
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
                    plain_wildcard(options)?;
                    let name = emit.checked_name(single(name)?)?;
                    let Some(relation) = emit.relation_named(&name) else {
                        return Err(GuardError::Column(format!("{name}.*")));
                    };
                    let (alias, shown) = (relation.alias.clone(), relation.columns.clone());
                    refuse_if("this *", alias.is_empty())?;
                    emit.push(&format!("{alias}.*"));
                    columns.extend(shown);
                    return Ok(());
                }
                _ => return unsupported("this column of a SELECT"),
            };
            let cost =
                Cost { nodes: emit.spent.nodes - before.nodes, calls: emit.spent.calls - before.calls };
            columns.push(Column { name, cost, is_json });
            Ok(())
        })?;
        Ok(columns)
    }

    /// Writes the expression of a column. In the first part of a recursive query PostgreSQL fixes the collation of its
    /// columns, and refuses another in the second: texts get that of the views and of own tables.
    pub(super) fn projected(&mut self, expr: &Expr, is_anchor: bool) -> Result<(), GuardError> {
        let start = self.out.len();
        self.expr(expr)?;
        if is_anchor && self.is_postgres() && self.is_text(expr, start) {
            // The cast gives a parameter its type, which a collation alone does not.
            self.out.insert_str(start, "CAST(");
            self.push(" AS text) COLLATE \"C\"");
        }
        Ok(())
    }

    /// Whether an expression that was written from `start` on is for certain a text without a collation of its own.
    /// Parameters that are not texts are written as literals.
    fn is_text(&self, expr: &Expr, start: usize) -> bool {
        match expr {
            Expr::Nested(inner) => self.is_text(inner, start),
            Expr::Value(value) => match &value.value {
                Value::SingleQuotedString(_) => true,
                Value::Placeholder(_) => self.out[start..].trim_start_matches('(').starts_with('$'),
                _ => false,
            },
            Expr::BinaryOp { left, op: BinaryOperator::StringConcat, right } => {
                let is_literal = |side: &Expr| matches!(side, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)));
                is_literal(left) || is_literal(right)
            }
            Expr::Function(function) => single(&function.name)
                .is_ok_and(|name| TEXT.iter().any(|text| name.value.eq_ignore_ascii_case(text))),
            Expr::Trim { .. } | Expr::Substring { .. } => true,
            _ => false,
        }
    }

    /// The name that the databases give a column without an alias, if it is certain. SQLite names functions
    /// differently.
    fn name_of(&self, expr: &Expr) -> Option<String> {
        match expr {
            Expr::Identifier(name) => self.checked_name(name).ok(),
            Expr::CompoundIdentifier(names) => names.last().and_then(|name| self.checked_name(name).ok()),
            Expr::Nested(inner) => self.name_of(inner),
            Expr::Function(function) if self.is_postgres() => {
                single(&function.name).and_then(|name| self.checked_name(name)).ok()
            }
            _ => None,
        }
    }
}

fn plain_wildcard(options: &WildcardAdditionalOptions) -> Result<(), GuardError> {
    let WildcardAdditionalOptions {
        wildcard_token: _,
        opt_ilike,
        opt_exclude,
        opt_except,
        opt_replace,
        opt_rename,
        opt_alias,
    } = options;
    let more = opt_ilike.is_some()
        || opt_exclude.is_some()
        || opt_except.is_some()
        || opt_replace.is_some()
        || opt_rename.is_some()
        || opt_alias.is_some();
    refuse_if("something after *", more)
}
