//! Writes function calls in expressions and after FROM.

use sqlparser::ast::{
    DuplicateTreatment, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArgumentList,
    FunctionArguments, ObjectName, TableAlias, WindowFrame, WindowFrameBound, WindowFrameUnits, WindowSpec,
    WindowType,
};

use super::super::super::Backend;
use super::lists::{
    BOTH, CHEAP, JSON_TABLE, NEEDS_DOUBLE, POSTGRES, SQLITE, TABLE_POSTGRES, TABLE_SQLITE,
    WITHOUT_PARENTHESES, argument_bound, columns_of, is_star,
};
use super::names::single;
use super::scope::{Column, Columns, Relation, columns_named};
use super::{Emitter, GuardError, refuse_if, unsupported};

impl Emitter<'_> {
    fn listed_name(&self, name: &ObjectName, lists: &[&[&'static str]]) -> Result<&'static str, GuardError> {
        let refused =
            || GuardError::Function(name.to_string().chars().filter(|c| !c.is_control()).take(80).collect());
        let plain = self.checked_name(single(name).map_err(|_| refused())?).map_err(|_| refused())?;
        let found = lists.iter().copied().flatten().copied().find(|known| plain.eq_ignore_ascii_case(known));
        found.ok_or_else(refused)
    }

    pub(super) fn function(&mut self, function: &Function) -> Result<(), GuardError> {
        let Function { name, uses_odbc_syntax, parameters, args, within_group, filter, null_treatment, over } =
            function;
        refuse_if("{fn …}", *uses_odbc_syntax)?;
        refuse_if("parameters of a function", !matches!(parameters, FunctionArguments::None))?;
        refuse_if("WITHIN GROUP", !within_group.is_empty())?;
        refuse_if("IGNORE NULLS", null_treatment.is_some())?;
        let FunctionArguments::List(args) = args else {
            refuse_if("this call", !matches!(args, FunctionArguments::None) || over.is_some())?;
            let name = self.listed_name(name, &[WITHOUT_PARENTHESES])?;
            self.push(name);
            return Ok(());
        };
        let own = match self.backend {
            Backend::Sqlite => SQLITE,
            Backend::Postgres => POSTGRES,
        };
        let name = self.listed_name(name, &[BOTH, own])?;
        refuse_if("* in a call", name != "count" && args.args.iter().any(is_star))?;
        let call = |emit: &mut Self| {
            // With text arguments `substring` takes a regular expression; `substr` does not.
            emit.push(if name == "substring" { "substr" } else { name });
            emit.arguments(name, args)?;
            if let Some(filter) = filter {
                emit.push(" FILTER (WHERE ");
                emit.expr(filter)?;
                emit.push(")");
            }
            match over {
                None => Ok(()),
                Some(WindowType::NamedWindow(_)) => unsupported("WINDOW"),
                Some(WindowType::WindowSpec(window)) => emit.window(window),
            }
        };
        if CHEAP.contains(&name) { call(self) } else { self.bounded_result(call) }
    }

    fn arguments(&mut self, name: &str, list: &FunctionArgumentList) -> Result<(), GuardError> {
        let FunctionArgumentList { duplicate_treatment, args, clauses } = list;
        self.push("(");
        if let Some(DuplicateTreatment::Distinct) = duplicate_treatment {
            self.push("DISTINCT ");
        }
        let mut position = 0;
        self.list(args, |emit, arg| {
            position += 1;
            match (argument_bound(name, position), arg) {
                (Some(bound), FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))) => {
                    emit.bounded_arg(expr, bound)
                }
                _ if NEEDS_DOUBLE.contains(&name) && emit.is_postgres() => {
                    emit.push("CAST(");
                    emit.argument(arg)?;
                    emit.push(" AS DOUBLE PRECISION)");
                    Ok(())
                }
                _ => emit.argument(arg),
            }
        })?;
        for clause in clauses {
            let FunctionArgumentClause::OrderBy(items) = clause else {
                return unsupported("this clause in a call");
            };
            self.push(" ORDER BY ");
            self.list(items, Self::order)?;
        }
        self.push(")");
        Ok(())
    }

    fn argument(&mut self, arg: &FunctionArg) -> Result<(), GuardError> {
        match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => self.expr(expr),
            FunctionArg::Unnamed(FunctionArgExpr::Wildcard) => {
                self.push("*");
                Ok(())
            }
            _ => unsupported("a named argument"),
        }
    }

    fn window(&mut self, window: &WindowSpec) -> Result<(), GuardError> {
        let WindowSpec { window_name, partition_by, order_by, window_frame } = window;
        refuse_if("WINDOW", window_name.is_some())?;
        self.push(" OVER (");
        if !partition_by.is_empty() {
            self.push("PARTITION BY ");
            self.list(partition_by, Self::expr)?;
        }
        if !order_by.is_empty() {
            self.push(" ORDER BY ");
            self.list(order_by, Self::order)?;
        }
        if let Some(frame) = window_frame {
            self.frame(frame)?;
        }
        self.push(")");
        Ok(())
    }

    fn frame(&mut self, frame: &WindowFrame) -> Result<(), GuardError> {
        let WindowFrame { units, start_bound, end_bound } = frame;
        self.push(match units {
            WindowFrameUnits::Rows => " ROWS BETWEEN ",
            WindowFrameUnits::Range => " RANGE BETWEEN ",
            WindowFrameUnits::Groups => " GROUPS BETWEEN ",
        });
        self.frame_bound(start_bound)?;
        self.push(" AND ");
        self.frame_bound(end_bound.as_ref().unwrap_or(&WindowFrameBound::CurrentRow))
    }

    fn frame_bound(&mut self, bound: &WindowFrameBound) -> Result<(), GuardError> {
        let (count, word) = match bound {
            WindowFrameBound::CurrentRow => {
                self.push("CURRENT ROW");
                return Ok(());
            }
            WindowFrameBound::Preceding(count) => (count, " PRECEDING"),
            WindowFrameBound::Following(count) => (count, " FOLLOWING"),
        };
        match count {
            Some(count) => self.expr(count)?,
            None => self.push("UNBOUNDED"),
        }
        self.push(word);
        Ok(())
    }

    /// Writes a function after FROM. On PostgreSQL it is wrapped in a SELECT, so that its row is never a single value.
    pub(super) fn table_function(
        &mut self,
        name: &ObjectName,
        args: &[FunctionArg],
        with_ordinality: bool,
        alias: Option<&TableAlias>,
    ) -> Result<(), GuardError> {
        let list = match self.backend {
            Backend::Sqlite => TABLE_SQLITE,
            Backend::Postgres => TABLE_POSTGRES,
        };
        let name = self.listed_name(name, &[list])?;
        refuse_if("* in a call", args.iter().any(is_star))?;
        refuse_if("several arrays at once", name == "unnest" && args.len() != 1)?;
        refuse_if("WITH ORDINALITY", with_ordinality && !self.is_postgres())?;
        self.count_call()?;
        let written = self.next_alias();
        self.push(if self.is_postgres() { "LATERAL (SELECT * FROM " } else { "" });
        self.push(name);
        self.push("(");
        self.list(args, Self::argument)?;
        self.push(")");
        let mut relation = Relation::new(name.to_owned(), written, Columns::new());
        if !self.is_postgres() {
            relation.columns = columns_named(JSON_TABLE);
            return self.aliased(relation, alias);
        }
        self.push(if with_ordinality { " WITH ORDINALITY)" } else { ")" });
        relation.columns = match columns_of(name) {
            [] => {
                let called = alias.map_or(Ok(name.to_owned()), |alias| self.checked_name(&alias.name))?;
                columns_named(&[&called])
            }
            columns => columns_named(columns),
        };
        relation.is_scalar = relation.columns.len() == 1 && !with_ordinality;
        if with_ordinality {
            relation.columns.push(Column::new("ordinality"));
        }
        self.function_alias(relation, alias)
    }

    /// Writes the alias of a function on PostgreSQL, with the names of all its columns.
    fn function_alias(
        &mut self,
        mut relation: Relation,
        alias: Option<&TableAlias>,
    ) -> Result<(), GuardError> {
        if let Some(TableAlias { explicit: _, name, columns, at }) = alias {
            refuse_if("AT", at.is_some())?;
            refuse_if("a column type here", columns.iter().any(|column| column.data_type.is_some()))?;
            relation.name = self.checked_name(name)?;
            let names = columns.iter().map(|column| self.checked_name(&column.name));
            relation.rename(names.collect::<Result<_, _>>()?)?;
        }
        let names: Vec<String> = relation.columns.iter().filter_map(|column| column.name.clone()).collect();
        self.push(&format!(" AS {}", relation.alias));
        self.name_list(&names);
        self.add_relation(relation)
    }
}
