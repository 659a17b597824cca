//! Rewrites queries: WITH, SELECT, UNION, GROUP BY, ORDER BY and LIMIT.

use sqlparser::ast::{
    BinaryOperator, Cte, Distinct, Expr, GroupByExpr, Ident, LimitClause, Offset, OffsetRows, OrderBy,
    OrderByExpr, OrderByKind, OrderBySort, Query, Select, SelectItem, SelectItemQualifiedWildcardKind,
    SetExpr, SetOperator, SetQuantifier, TableAlias, TableWithJoins, Value, Values,
    WildcardAdditionalOptions, With,
};

use super::expr::unnested;
use super::from::raw_table;
use super::idents::{checked_name, single};
use super::lists::{TEXT, is_in};
use super::scope::{Column, Columns, Cost, Scope, output_names, rename};
use super::{GuardError, Rewriter, index_rewrites, only, plain, raw, refuse_if, replace, unsupported};

/// Refuses what only other databases have after an ORDER BY item.
pub(super) fn direction(item: &OrderByExpr) -> Result<(), GuardError> {
    refuse_if("WITH FILL", item.with_fill.is_some())?;
    refuse_if("ORDER BY USING", matches!(item.options.sort, Some(OrderBySort::Using(_))))
}

impl Rewriter<'_> {
    /// Rewrites a query and returns its columns.
    pub(super) fn query(&mut self, query: &mut Query) -> Result<Columns, GuardError> {
        self.query_of(query, None)
    }

    /// Rewrites a query and returns its columns. `common` is the index of the common table expression that it defines,
    /// while that one's columns are unknown.
    fn query_of(&mut self, query: &mut Query, common: Option<usize>) -> Result<Columns, GuardError> {
        let visible = self.common.len();
        let columns = self.deeper(|rewriter| rewriter.query_body(query, common))?;
        // The names of a WITH are visible only in its query.
        self.common.truncate(visible);
        Ok(columns)
    }

    fn query_body(&mut self, query: &mut Query, common: Option<usize>) -> Result<Columns, GuardError> {
        only!("a clause of this query", query, plain::query()?, with, body, order_by, limit_clause);
        let keeps_rows = index_rewrites::keeps_rows(query);
        let Query { with, body, order_by, limit_clause, .. } = query;
        if let Some(with) = with {
            self.with(with)?;
        }
        let (columns, scope) = self.set(body, common)?;
        self.scopes.push(scope);
        match order_by {
            None => {}
            Some(OrderBy { kind: OrderByKind::Expressions(items), interpolate: None }) => {
                for item in items {
                    direction(item)?;
                    if !(keeps_rows && self.order_by_indexed_us(&mut item.expr)) {
                        self.output_or_expr(&mut item.expr, true)?;
                    }
                }
            }
            Some(_) => return unsupported("ORDER BY ALL"),
        }
        // LIMIT and OFFSET can't use columns.
        self.scopes.pop();
        match limit_clause {
            None => {}
            Some(LimitClause::LimitOffset { limit, offset, limit_by }) if limit_by.is_empty() => {
                if let Some(Offset { value, rows }) = offset {
                    *rows = OffsetRows::None;
                    self.expr(value)?;
                }
                match limit {
                    Some(limit) => drop(self.expr(limit)?),
                    // SQLite has no OFFSET without a LIMIT.
                    None if !self.is_postgres() => *limit = Some(raw("-1".to_owned())),
                    None => {}
                }
            }
            Some(_) => return unsupported("LIMIT a, b (write LIMIT b OFFSET a)"),
        }
        Ok(columns)
    }

    /// Rewrites an expression that may also be the name of a result column.
    fn output_or_expr(&mut self, expr: &mut Expr, outputs_first: bool) -> Result<(), GuardError> {
        unnested(expr);
        if let Expr::Identifier(name) = expr
            && let Some(text) = self.output_column(name, outputs_first)?
        {
            replace(expr, text);
            return Ok(());
        }
        self.expr(expr).map(drop)
    }

    fn with(&mut self, with: &mut With) -> Result<(), GuardError> {
        // On SQLite RECURSIVE has no effect: every WITH may be recursive.
        let recursive = with.recursive || !self.is_postgres();
        for Cte { alias, query, from, materialized, closing_paren_token: _ } in &mut with.cte_tables {
            let TableAlias { explicit: _, name, columns: given, at } = alias;
            refuse_if("this WITH", from.is_some() || materialized.is_some() || at.is_some())?;
            let names = self.column_names(given)?;
            for (column, name) in given.iter_mut().zip(&names) {
                column.name = Ident::new(self.quoted(name));
            }
            let known = (!names.is_empty()).then(|| names.iter().map(|name| Column::new(name)).collect());
            let made = self.common_table(name, known)?;
            let mut columns = if recursive {
                let index = self.common.len();
                self.common.push(made);
                self.query_of(query, Some(index))?
            } else {
                let columns = self.query(query)?;
                self.common.push(made);
                columns
            };
            rename(&mut columns, names)?;
            if let Some(common) = self.common.last_mut() {
                common.columns = Some(columns);
            }
        }
        Ok(())
    }

    /// Rewrites the part of a query without WITH and ORDER BY. Returns its columns, and what its ORDER BY can name.
    fn set(&mut self, body: &mut SetExpr, common: Option<usize>) -> Result<(Columns, Scope), GuardError> {
        self.deeper(|rewriter| {
            let columns = match body {
                SetExpr::Select(select) => return rewriter.select(select),
                SetExpr::Query(query) => {
                    let columns = rewriter.query_of(query, common)?;
                    if !rewriter.is_postgres() {
                        // SQLite does not allow parentheses around the parts of a UNION.
                        let parentheses = format!("({query})");
                        select_from(body, parentheses)?;
                    }
                    columns
                }
                SetExpr::SetOperation { .. } => rewriter.set_operation(body, common)?,
                SetExpr::Values(values) => rewriter.values(values)?,
                _ => return unsupported("this part of a query (write SELECT)"),
            };
            let outputs = output_names(&columns);
            Ok((columns, Scope { outputs, ..Scope::default() }))
        })
    }

    fn set_operation(&mut self, body: &mut SetExpr, common: Option<usize>) -> Result<Columns, GuardError> {
        let SetExpr::SetOperation { left, op, set_quantifier, right } = body else {
            return unsupported("this part of a query");
        };
        if *op == SetOperator::Minus {
            *op = SetOperator::Except;
        }
        match set_quantifier {
            SetQuantifier::All | SetQuantifier::None => {}
            SetQuantifier::Distinct => *set_quantifier = SetQuantifier::None,
            _ => return unsupported("BY NAME"),
        }
        refuse_if("nested UNION (use a subquery)", matches!(**right, SetExpr::SetOperation { .. }))?;
        self.is_anchor = common.is_some();
        let rewritten = self.set(left, common);
        self.is_anchor = false;
        let (mut columns, _) = rewritten?;
        // The recursive part follows and may use these columns.
        if let Some(common) = common.and_then(|index| self.common.get_mut(index)) {
            common.columns.get_or_insert_with(|| columns.clone());
        }
        let (others, _) = self.set(right, None)?;
        for (column, other) in columns.iter_mut().zip(others) {
            column.cost.nodes = column.cost.nodes.saturating_add(other.cost.nodes);
            column.cost.calls = column.cost.calls.saturating_add(other.cost.calls);
            column.is_json &= other.is_json;
        }
        Ok(columns)
    }

    fn values(&mut self, values: &mut Values) -> Result<Columns, GuardError> {
        let Values { explicit_row, value_keyword, rows } = values;
        (*explicit_row, *value_keyword) = (false, false);
        let is_anchor = std::mem::take(&mut self.is_anchor);
        let mut values = rows.iter_mut().flat_map(|row| &mut row.content);
        values.try_for_each(|value| self.projected(value, is_anchor).map(drop))?;
        let width = rows.first().map_or(0, |row| row.content.len());
        Ok((1..=width).map(|n| Column::new(&format!("column{n}"))).collect())
    }

    fn select(&mut self, select: &mut Select) -> Result<(Columns, Scope), GuardError> {
        // Not that of a subquery in FROM.
        let is_anchor = std::mem::take(&mut self.is_anchor);
        let clauses = "a clause of this SELECT";
        only!(clauses, select, plain::select()?, distinct, projection, from, selection, group_by, having);
        let Select { distinct, projection, from, selection, group_by, having, .. } = select;
        self.scopes.push(Scope::default());
        // FROM comes first: it defines the columns.
        from.iter_mut().try_for_each(|tables| self.joined(tables))?;
        let columns = self.projection(projection, is_anchor)?;
        self.scope()?.outputs = output_names(&columns);
        if let Some(Distinct::On(items)) = distinct {
            refuse_if("DISTINCT ON", !self.is_postgres())?;
            items.iter_mut().try_for_each(|item| self.output_or_expr(item, true))?;
        }
        selection.iter_mut().try_for_each(|condition| self.expr(condition).map(drop))?;
        match group_by {
            GroupByExpr::Expressions(items, modifiers) if modifiers.is_empty() => {
                items.iter_mut().try_for_each(|item| self.output_or_expr(item, false))?;
            }
            _ => return unsupported("this GROUP BY"),
        }
        having.iter_mut().try_for_each(|condition| self.expr(condition).map(drop))?;
        Ok((columns, self.scopes.pop().unwrap_or_default()))
    }

    /// Rewrites the columns of a SELECT or RETURNING, and returns them. `is_anchor`: they are those of the first part of
    /// a recursive query.
    pub(super) fn projection(
        &mut self,
        items: &mut [SelectItem],
        is_anchor: bool,
    ) -> Result<Columns, GuardError> {
        let mut columns = Columns::new();
        let is_plain = |options: &WildcardAdditionalOptions| *options == WildcardAdditionalOptions::default();
        for item in items {
            let before = self.spent;
            let (expr, name) = match item {
                SelectItem::UnnamedExpr(expr) => {
                    let name = self.name_of(expr);
                    (expr, name)
                }
                SelectItem::ExprWithAlias { expr, alias } => (expr, Some(checked_name(self.backend, alias)?)),
                SelectItem::Wildcard(options) if is_plain(options) => {
                    columns.extend(self.star_columns());
                    continue;
                }
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options)
                    if is_plain(options) =>
                {
                    let name = checked_name(self.backend, single(name)?)?;
                    let Some(relation) = self.relation_named(&name) else {
                        return Err(GuardError::Column(format!("{name}.*")));
                    };
                    refuse_if("this *", relation.alias.is_empty())?;
                    columns.extend(relation.columns.clone());
                    *item = SelectItem::UnnamedExpr(raw(format!("{}.*", relation.alias)));
                    continue;
                }
                _ => return unsupported("this column of a SELECT"),
            };
            let is_json = self.projected(expr, is_anchor)?;
            if let Some(name) = &name {
                replace(expr, format!("{expr} AS {}", self.quoted(name)));
            }
            *item = SelectItem::UnnamedExpr(std::mem::replace(expr, raw(String::new())));
            let (nodes, calls) = (self.spent.nodes - before.nodes, self.spent.calls - before.calls);
            columns.push(Column { name, cost: Cost { nodes, calls }, is_json });
        }
        Ok(columns)
    }

    /// Rewrites the expression of a column, and returns whether it is JSON. In the first part of a recursive query
    /// PostgreSQL fixes the collation of its columns, and refuses another in the second: texts get that of the views and
    /// of own tables.
    fn projected(&mut self, expr: &mut Expr, is_anchor: bool) -> Result<bool, GuardError> {
        let is_text = is_anchor && self.is_postgres() && self.is_text(expr);
        let is_json = self.expr(expr)?;
        if is_text {
            // The cast gives a parameter its type, which a collation alone does not.
            replace(expr, format!("CAST({expr} AS text) COLLATE \"C\""));
        }
        Ok(is_json)
    }

    /// Whether an expression is for certain a text without a collation of its own.
    fn is_text(&self, expr: &Expr) -> bool {
        let is_literal = |side: &Expr| matches!(side, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)));
        match expr {
            Expr::Nested(inner) => self.is_text(inner),
            Expr::Value(_) => is_literal(expr) || self.param(expr).is_some_and(serde_json::Value::is_string),
            Expr::BinaryOp { left, op: BinaryOperator::StringConcat, right } => {
                is_literal(left) || is_literal(right)
            }
            Expr::Function(function) => single(&function.name).is_ok_and(|name| is_in(TEXT, &name.value)),
            Expr::Trim { .. } | Expr::Substring { .. } => true,
            _ => false,
        }
    }

    /// The name that the databases give a column without an alias, if it is certain. SQLite names functions
    /// differently.
    fn name_of(&self, expr: &Expr) -> Option<String> {
        let name = match expr {
            Expr::Nested(inner) => return self.name_of(inner),
            Expr::Identifier(name) => name,
            Expr::CompoundIdentifier(names) => names.last()?,
            Expr::Function(function) if self.is_postgres() => single(&function.name).ok()?,
            _ => return None,
        };
        checked_name(self.backend, name).ok()
    }
}

/// Replaces the part of a query by a SELECT of all rows of a table.
fn select_from(body: &mut SetExpr, table: String) -> Result<(), GuardError> {
    let mut all = plain::select()?;
    all.projection = vec![SelectItem::UnnamedExpr(raw("*".to_owned()))];
    all.from = vec![TableWithJoins { relation: raw_table(table), joins: Vec::new() }];
    *body = SetExpr::Select(Box::new(all));
    Ok(())
}
