//! SELECT: with, joins, groups, windows, unions.

use sqlparser::ast::{
    Cte, Distinct, GroupByExpr, Join, JoinConstraint, JoinOperator, LimitClause, Offset, OrderBy,
    OrderByExpr, OrderByKind, OrderByOptions, OrderBySort, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, SetOperator, SetQuantifier, TableAlias, TableFactor,
    TableWithJoins, WildcardAdditionalOptions, With,
};

use super::{Emit, Refusal, absent, unsupported};

impl Emit<'_> {
    pub(super) fn query(&mut self, query: &Query) -> Result<(), Refusal> {
        let visible = self.ctes.len();
        self.deeper(|emit| emit.query_body(query))?;
        // What a WITH named is seen within its query alone.
        self.ctes.truncate(visible);
        Ok(())
    }

    fn query_body(&mut self, query: &Query) -> Result<(), Refusal> {
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
        absent("FETCH", fetch.is_some())?;
        absent("FOR UPDATE", !locks.is_empty() || for_clause.is_some())?;
        absent("a setting", settings.is_some() || format_clause.is_some() || !pipe_operators.is_empty())?;
        if let Some(with) = with {
            self.with(with)?;
        }
        self.set(body)?;
        if let Some(order) = order_by {
            let OrderBy { kind, interpolate } = order;
            absent("INTERPOLATE", interpolate.is_some())?;
            let OrderByKind::Expressions(items) = kind else { return unsupported("ORDER BY ALL") };
            self.push(" ORDER BY ");
            self.list(items, |emit, item| {
                let sources = emit.orderable(query);
                if emit.quick_order(item, sources) { emit.direction(item) } else { emit.order(item) }
            })?;
        }
        if let Some(limit) = limit_clause {
            self.limit(limit)?;
        }
        Ok(())
    }

    fn with(&mut self, with: &With) -> Result<(), Refusal> {
        let With { with_token: _, recursive, cte_tables } = with;
        self.push(if *recursive { "WITH RECURSIVE " } else { "WITH " });
        self.list(cte_tables, |emit, cte| {
            let Cte { alias, query, from, materialized, closing_paren_token: _ } = cte;
            let TableAlias { explicit: _, name, columns, at } = alias;
            absent("this WITH", from.is_some() || materialized.is_some() || at.is_some())?;
            // Its own query may name it (and is refused by the database where that makes no sense).
            emit.declare(name)?;
            emit.declared(name)?;
            if !columns.is_empty() {
                absent("a column type here", columns.iter().any(|column| column.data_type.is_some()))?;
                emit.push(" (");
                emit.list(columns, |emit, column| emit.name(&column.name))?;
                emit.push(")");
            }
            emit.push(" AS (");
            emit.query(query)?;
            emit.push(")");
            Ok(())
        })?;
        self.push(" ");
        Ok(())
    }

    fn limit(&mut self, limit: &LimitClause) -> Result<(), Refusal> {
        let LimitClause::LimitOffset { limit, offset, limit_by } = limit else {
            return unsupported("LIMIT a, b (write LIMIT b OFFSET a)");
        };
        absent("LIMIT BY", !limit_by.is_empty())?;
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

    fn set(&mut self, body: &SetExpr) -> Result<(), Refusal> {
        self.deeper(|emit| match body {
            SetExpr::Select(select) => emit.select(select),
            SetExpr::Query(query) if emit.is_postgres() => {
                emit.push("(");
                emit.query(query)?;
                emit.push(")");
                Ok(())
            }
            SetExpr::Query(query) => {
                // SQLite has no brackets around the parts of a UNION.
                emit.push("SELECT * FROM (");
                emit.query(query)?;
                emit.push(")");
                Ok(())
            }
            SetExpr::SetOperation { left, op, set_quantifier, right } => {
                emit.set(left)?;
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
                emit.set(right)
            }
            SetExpr::Values(values) => {
                emit.push("VALUES ");
                emit.list(&values.rows, |emit, row| {
                    emit.push("(");
                    emit.list(&row.content, Self::expr)?;
                    emit.push(")");
                    Ok(())
                })
            }
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => {
                unsupported("a statement that changes something within another")
            }
            SetExpr::Table(_) => unsupported("TABLE (write SELECT * FROM)"),
        })
    }

    fn select(&mut self, select: &Select) -> Result<(), Refusal> {
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
        absent("SELECT INTO", into.is_some())?;
        absent("a hint", !optimizer_hints.is_empty() || select_modifiers.is_some())?;
        absent("TOP", top.is_some())?;
        absent("WINDOW", !named_window.is_empty())?;
        absent(
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
        let sources = self.sources(from);
        self.scopes.push(sources);
        self.push("SELECT ");
        match distinct {
            None | Some(Distinct::All) => {}
            Some(Distinct::Distinct) => self.push("DISTINCT "),
            Some(Distinct::On(columns)) => {
                self.push("DISTINCT ON (");
                self.list(columns, Self::expr)?;
                self.push(") ");
            }
        }
        self.projection(projection)?;
        if !from.is_empty() {
            self.push(" FROM ");
            self.list(from, Self::joined)?;
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
        self.scopes.pop();
        Ok(())
    }

    fn group_by(&mut self, group_by: &GroupByExpr) -> Result<(), Refusal> {
        let GroupByExpr::Expressions(items, modifiers) = group_by else { return unsupported("GROUP BY ALL") };
        absent("this GROUP BY", !modifiers.is_empty())?;
        if items.is_empty() {
            return Ok(());
        }
        self.push(" GROUP BY ");
        self.list(items, Self::expr)
    }

    /// The columns of a SELECT or of a RETURNING.
    pub(super) fn projection(&mut self, items: &[SelectItem]) -> Result<(), Refusal> {
        self.list(items, |emit, item| match item {
            SelectItem::UnnamedExpr(expr) => emit.expr(expr),
            SelectItem::ExprWithAlias { expr, alias } => {
                emit.expr(expr)?;
                emit.push(" AS ");
                emit.name(alias)
            }
            SelectItem::Wildcard(options) => {
                plain_wildcard(options)?;
                emit.push("*");
                Ok(())
            }
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
                plain_wildcard(options)?;
                emit.single_name(name)?;
                emit.push(".*");
                Ok(())
            }
            _ => unsupported("this column of a SELECT"),
        })
    }

    fn joined(&mut self, tables: &TableWithJoins) -> Result<(), Refusal> {
        self.factor(&tables.relation)?;
        for join in &tables.joins {
            let Join { relation, global, join_operator } = join;
            absent("GLOBAL", *global)?;
            let (word, constraint) = match join_operator {
                JoinOperator::Join(c) | JoinOperator::Inner(c) => ("JOIN", c),
                JoinOperator::Left(c) | JoinOperator::LeftOuter(c) => ("LEFT JOIN", c),
                JoinOperator::Right(c) | JoinOperator::RightOuter(c) => ("RIGHT JOIN", c),
                JoinOperator::FullOuter(c) => ("FULL JOIN", c),
                JoinOperator::CrossJoin(c) => ("CROSS JOIN", c),
                _ => return unsupported("this join"),
            };
            self.push(if matches!(constraint, JoinConstraint::Natural) { " NATURAL " } else { " " });
            self.push(word);
            self.push(" ");
            self.factor(relation)?;
            match constraint {
                JoinConstraint::On(condition) => {
                    self.push(" ON ");
                    self.expr(condition)?;
                }
                JoinConstraint::Using(columns) => {
                    self.push(" USING (");
                    self.list(columns, Self::single_name)?;
                    self.push(")");
                }
                JoinConstraint::Natural | JoinConstraint::None => {}
            }
        }
        Ok(())
    }

    fn factor(&mut self, factor: &TableFactor) -> Result<(), Refusal> {
        self.deeper(|emit| match factor {
            TableFactor::Table {
                name,
                alias,
                args,
                with_hints,
                version,
                with_ordinality,
                partitions,
                json_path,
                sample,
                index_hints,
            } => {
                absent("a hint", !with_hints.is_empty() || !index_hints.is_empty())?;
                absent("TABLESAMPLE", sample.is_some())?;
                absent("this table", version.is_some() || !partitions.is_empty() || json_path.is_some())?;
                match args {
                    None => {
                        absent("WITH ORDINALITY", *with_ordinality)?;
                        emit.relation(name, alias.as_ref())
                    }
                    Some(args) => {
                        absent("a setting", args.settings.is_some())?;
                        emit.table_function(name, &args.args, *with_ordinality, alias.as_ref())
                    }
                }
            }
            TableFactor::Derived { lateral, subquery, alias, sample } => {
                absent("TABLESAMPLE", sample.is_some())?;
                emit.push(if *lateral { "LATERAL (" } else { "(" });
                emit.query(subquery)?;
                emit.push(")");
                alias.as_ref().map_or(Ok(()), |alias| emit.alias(alias))
            }
            TableFactor::Function { lateral, name, args, with_ordinality, alias } => {
                emit.push(if *lateral { "LATERAL " } else { "" });
                emit.table_function(name, args, *with_ordinality, alias.as_ref())
            }
            TableFactor::NestedJoin { table_with_joins, alias } => {
                absent("an alias of a join", alias.is_some())?;
                emit.push("(");
                emit.joined(table_with_joins)?;
                emit.push(")");
                Ok(())
            }
            _ => unsupported("this kind of table"),
        })
    }

    pub(super) fn order(&mut self, item: &OrderByExpr) -> Result<(), Refusal> {
        let OrderByExpr { expr, options: _, with_fill } = item;
        absent("WITH FILL", with_fill.is_some())?;
        // A number is the place of a column.
        self.expr(expr)?;
        self.direction(item)
    }

    /// What follows the expression of an ORDER BY.
    fn direction(&mut self, item: &OrderByExpr) -> Result<(), Refusal> {
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

    /// Tables after FROM in an UPDATE.
    pub(super) fn tables(&mut self, tables: &[TableWithJoins]) -> Result<(), Refusal> {
        self.list(tables, Self::joined)
    }
}

fn plain_wildcard(options: &WildcardAdditionalOptions) -> Result<(), Refusal> {
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
    absent("something after *", more)
}
