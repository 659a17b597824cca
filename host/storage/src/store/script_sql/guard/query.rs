//! Writes queries: WITH, SELECT, UNION, GROUP BY, ORDER BY and LIMIT.

use sqlparser::ast::{
    Cte, Distinct, Expr, GroupByExpr, LimitClause, Offset, OrderBy, OrderByExpr, OrderByKind, OrderByOptions,
    OrderBySort, Query, Select, SetExpr, SetOperator, SetQuantifier, TableAlias, With,
};

use super::scope::{Column, Columns, Scope};
use super::{Emitter, GuardError, index_rewrites, refuse_if, unsupported};

/// The columns and the scope of a query that was written.
pub(super) struct WrittenQuery {
    columns: Columns,
    /// What its ORDER BY can name.
    scope: Scope,
}

impl Emitter<'_> {
    /// Writes a query and returns its columns.
    pub(super) fn query(&mut self, query: &Query) -> Result<Columns, GuardError> {
        self.query_of(query, None)
    }

    /// Writes a query and returns its columns. `cte` is the index of the common table expression that it defines, while
    /// that one's columns are unknown.
    fn query_of(&mut self, query: &Query, cte: Option<usize>) -> Result<Columns, GuardError> {
        let visible = self.ctes.len();
        let columns = self.deeper(|emit| emit.query_body(query, cte))?;
        // The names of a WITH are visible only in its query.
        self.ctes.truncate(visible);
        Ok(columns)
    }

    fn query_body(&mut self, query: &Query, cte: Option<usize>) -> Result<Columns, GuardError> {
        let Query {
            with,
            body,
            order_by,
            limit_clause,
            fetch,
            locks,
            for_clause,
            settings,
            format_clause,
            pipe_operators,
        } = query;
        refuse_if("FETCH", fetch.is_some())?;
        refuse_if("FOR UPDATE", !locks.is_empty() || for_clause.is_some())?;
        refuse_if("a setting", settings.is_some() || format_clause.is_some() || !pipe_operators.is_empty())?;
        if let Some(with) = with {
            self.with(with)?;
        }
        let WrittenQuery { columns, scope } = self.set(body, cte)?;
        self.scopes.push(scope);
        if let Some(order) = order_by {
            let OrderBy { kind, interpolate } = order;
            refuse_if("INTERPOLATE", interpolate.is_some())?;
            let OrderByKind::Expressions(items) = kind else { return unsupported("ORDER BY ALL") };
            let keeps_rows = index_rewrites::keeps_rows(query);
            self.push(" ORDER BY ");
            self.list(items, |emit, item| {
                if keeps_rows && emit.order_by_indexed_us(item)? {
                    return emit.direction(item);
                }
                refuse_if("WITH FILL", item.with_fill.is_some())?;
                emit.output_or_expr(&item.expr, true)?;
                emit.direction(item)
            })?;
        }
        // LIMIT and OFFSET can't use columns.
        self.scopes.pop();
        if let Some(limit) = limit_clause {
            self.limit(limit)?;
        }
        self.last_query_is_json = columns.first().is_some_and(|column| column.is_json);
        Ok(columns)
    }

    /// Writes an expression that may also be the name of a result column.
    fn output_or_expr(&mut self, expr: &Expr, outputs_first: bool) -> Result<(), GuardError> {
        let mut inner = expr;
        while let Expr::Nested(nested) = inner {
            inner = nested;
        }
        if let Expr::Identifier(name) = inner
            && let Some(text) = self.output_column(name, outputs_first)?
        {
            self.push(&text);
            return Ok(());
        }
        self.expr(expr)
    }

    fn with(&mut self, with: &With) -> Result<(), GuardError> {
        let With { with_token: _, recursive, cte_tables } = with;
        self.push(if *recursive { "WITH RECURSIVE " } else { "WITH " });
        // On SQLite RECURSIVE has no effect: every WITH may be recursive.
        let recursive = *recursive || !self.is_postgres();
        self.list(cte_tables, |emit, cte| {
            let Cte { alias, query, from, materialized, closing_paren_token: _ } = cte;
            let TableAlias { explicit: _, name, columns, at } = alias;
            refuse_if("this WITH", from.is_some() || materialized.is_some() || at.is_some())?;
            refuse_if("a column type here", columns.iter().any(|column| column.data_type.is_some()))?;
            let names = columns.iter().map(|column| emit.checked_name(&column.name));
            let names = names.collect::<Result<Vec<_>, _>>()?;
            let given = (!names.is_empty()).then(|| names.iter().map(|name| Column::new(name)).collect());
            let made = emit.cte(name, given)?;
            if !names.is_empty() {
                emit.name_list(&names);
            }
            emit.push(" AS (");
            let mut columns = if recursive {
                let index = emit.ctes.len();
                emit.ctes.push(made);
                emit.query_of(query, Some(index))?
            } else {
                let columns = emit.query(query)?;
                emit.ctes.push(made);
                columns
            };
            emit.push(")");
            if names.len() > columns.len() {
                return unsupported("a list of more columns than there are");
            }
            for (column, name) in columns.iter_mut().zip(names) {
                column.name = Some(name);
            }
            if let Some(cte) = emit.ctes.last_mut() {
                cte.columns = Some(columns);
            }
            Ok(())
        })?;
        self.push(" ");
        Ok(())
    }

    fn limit(&mut self, limit: &LimitClause) -> Result<(), GuardError> {
        let LimitClause::LimitOffset { limit, offset, limit_by } = limit else {
            return unsupported("LIMIT a, b (write LIMIT b OFFSET a)");
        };
        refuse_if("LIMIT BY", !limit_by.is_empty())?;
        if let Some(limit) = limit {
            self.push(" LIMIT ");
            self.expr(limit)?;
        } else if offset.is_some() && !self.is_postgres() {
            // SQLite has no OFFSET without a LIMIT.
            self.push(" LIMIT -1");
        }
        if let Some(Offset { value, rows: _ }) = offset {
            self.push(" OFFSET ");
            self.expr(value)?;
        }
        Ok(())
    }

    fn set(&mut self, body: &SetExpr, cte: Option<usize>) -> Result<WrittenQuery, GuardError> {
        self.deeper(|emit| match body {
            SetExpr::Select(select) => emit.select(select),
            SetExpr::Query(query) if emit.is_postgres() => {
                emit.push("(");
                let columns = emit.query_of(query, cte)?;
                emit.push(")");
                Ok(without_tables(columns))
            }
            SetExpr::Query(query) => {
                // SQLite does not allow parentheses around the parts of a UNION.
                emit.push("SELECT * FROM (");
                let columns = emit.query_of(query, cte)?;
                emit.push(")");
                Ok(without_tables(columns))
            }
            SetExpr::SetOperation { left, op, set_quantifier, right } => {
                emit.is_anchor = cte.is_some();
                let written = emit.set(left, cte);
                emit.is_anchor = false;
                let WrittenQuery { mut columns, scope: _ } = written?;
                // The recursive part follows and may use these columns.
                if let Some(cte) = cte.and_then(|index| emit.ctes.get_mut(index)) {
                    cte.columns.get_or_insert_with(|| columns.clone());
                }
                emit.push(match op {
                    SetOperator::Union => " UNION ",
                    SetOperator::Except | SetOperator::Minus => " EXCEPT ",
                    SetOperator::Intersect => " INTERSECT ",
                });
                match set_quantifier {
                    SetQuantifier::All => emit.push("ALL "),
                    SetQuantifier::None | SetQuantifier::Distinct => {}
                    other => return unsupported(other),
                }
                if matches!(**right, SetExpr::SetOperation { .. }) {
                    return unsupported("nested UNION (use a subquery)");
                }
                let right = emit.set(right, None)?.columns;
                for (column, other) in columns.iter_mut().zip(right) {
                    column.cost.nodes = column.cost.nodes.saturating_add(other.cost.nodes);
                    column.cost.calls = column.cost.calls.saturating_add(other.cost.calls);
                    column.is_json &= other.is_json;
                }
                Ok(without_tables(columns))
            }
            SetExpr::Values(values) => {
                emit.push("VALUES ");
                let is_anchor = std::mem::take(&mut emit.is_anchor);
                emit.list(&values.rows, |emit, row| {
                    emit.push("(");
                    emit.list(&row.content, |emit, value| emit.projected(value, is_anchor))?;
                    emit.push(")");
                    Ok(())
                })?;
                let width = values.rows.first().map_or(0, |row| row.content.len());
                Ok(without_tables((1..=width).map(|n| Column::new(&format!("column{n}"))).collect()))
            }
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => {
                unsupported("a writing statement inside another one")
            }
            SetExpr::Table(_) => unsupported("TABLE (write SELECT * FROM)"),
        })
    }

    fn select(&mut self, select: &Select) -> Result<WrittenQuery, GuardError> {
        let Select {
            select_token: _,
            optimizer_hints,
            distinct,
            select_modifiers,
            top,
            top_before_distinct: _,
            projection,
            exclude,
            into,
            from,
            lateral_views,
            prewhere,
            selection,
            connect_by,
            group_by,
            cluster_by,
            distribute_by,
            sort_by,
            having,
            named_window,
            qualify,
            window_before_qualify: _,
            value_table_mode,
            flavor: _,
        } = select;
        // Not that of a subquery in FROM.
        let is_anchor = std::mem::take(&mut self.is_anchor);
        refuse_if("SELECT INTO", into.is_some())?;
        refuse_if("a hint", !optimizer_hints.is_empty() || select_modifiers.is_some())?;
        refuse_if("TOP", top.is_some())?;
        refuse_if("WINDOW", !named_window.is_empty())?;
        refuse_if(
            "this clause",
            exclude.is_some()
                || !lateral_views.is_empty()
                || prewhere.is_some()
                || !connect_by.is_empty()
                || !cluster_by.is_empty()
                || !distribute_by.is_empty()
                || !sort_by.is_empty()
                || qualify.is_some()
                || value_table_mode.is_some(),
        )?;
        // FROM is written first: it defines the columns.
        let start = self.out.len();
        self.scopes.push(Scope::default());
        self.list(from, Self::joined)?;
        let tables = self.out.split_off(start);
        self.is_anchor = is_anchor;
        let columns = self.projection(projection)?;
        let shown = self.out.split_off(start);
        let outputs = columns.iter().filter_map(|column| column.name.clone()).collect();
        self.scope()?.outputs = outputs;
        self.push("SELECT ");
        match distinct {
            None | Some(Distinct::All) => {}
            Some(Distinct::Distinct) => self.push("DISTINCT "),
            Some(Distinct::On(columns)) => {
                refuse_if("DISTINCT ON", !self.is_postgres())?;
                self.push("DISTINCT ON (");
                self.list(columns, |emit, column| emit.output_or_expr(column, true))?;
                self.push(") ");
            }
        }
        self.push(&shown);
        if !from.is_empty() {
            self.push(" FROM ");
            self.push(&tables);
        }
        if let Some(selection) = selection {
            self.push(" WHERE ");
            self.expr(selection)?;
        }
        self.group_by(group_by)?;
        if let Some(having) = having {
            self.push(" HAVING ");
            self.expr(having)?;
        }
        let scope = self.scopes.pop().unwrap_or_default();
        Ok(WrittenQuery { columns, scope })
    }

    fn group_by(&mut self, group_by: &GroupByExpr) -> Result<(), GuardError> {
        let GroupByExpr::Expressions(items, modifiers) = group_by else { return unsupported("GROUP BY ALL") };
        refuse_if("this GROUP BY", !modifiers.is_empty())?;
        if items.is_empty() {
            return Ok(());
        }
        self.push(" GROUP BY ");
        self.list(items, |emit, item| emit.output_or_expr(item, false))
    }

    pub(super) fn order(&mut self, item: &OrderByExpr) -> Result<(), GuardError> {
        let OrderByExpr { expr, options: _, with_fill } = item;
        refuse_if("WITH FILL", with_fill.is_some())?;
        // A number literal is the position of a column.
        self.expr(expr)?;
        self.direction(item)
    }

    /// Writes the direction of an ORDER BY item.
    fn direction(&mut self, item: &OrderByExpr) -> Result<(), GuardError> {
        let OrderByOptions { sort, nulls_first } = &item.options;
        match sort {
            None => {}
            Some(OrderBySort::Asc) => self.push(" ASC"),
            Some(OrderBySort::Desc) => self.push(" DESC"),
            Some(OrderBySort::Using(_)) => return unsupported("ORDER BY USING"),
        }
        match nulls_first {
            None => {}
            Some(true) => self.push(" NULLS FIRST"),
            Some(false) => self.push(" NULLS LAST"),
        }
        Ok(())
    }
}

/// A query whose ORDER BY can name only result columns.
fn without_tables(columns: Columns) -> WrittenQuery {
    let outputs = columns.iter().filter_map(|column| column.name.clone()).collect();
    WrittenQuery { columns, scope: Scope { outputs, ..Scope::default() } }
}
