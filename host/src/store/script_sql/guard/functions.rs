//! Calls of functions, in expressions and after FROM.

use sqlparser::ast::{
    DuplicateTreatment, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArgumentList,
    FunctionArguments, ObjectName, TableAlias, WindowFrame, WindowFrameBound, WindowFrameUnits, WindowSpec,
    WindowType,
};

use super::super::super::Backend;
use super::lists::{
    BARE, BOTH, CHEAP, EXACT, JSON_TABLE, POSTGRES, SQLITE, TABLE_POSTGRES, TABLE_SQLITE, bound_of,
    columns_of, is_star,
};
use super::names::single;
use super::scope::{Column, Columns, Relation, named};
use super::{Emit, Refusal, absent, unsupported};

impl Emit<'_> {
    fn known(&self, name: &ObjectName, lists: &[&[&'static str]]) -> Result<&'static str, Refusal> {
        let refused =
            || Refusal::Function(name.to_string().chars().filter(|c| !c.is_control()).take(80).collect());
        let plain = self.plain(single(name).map_err(|_| refused())?).map_err(|_| refused())?;
        let found = lists.iter().copied().flatten().copied().find(|known| plain.eq_ignore_ascii_case(known));
        found.ok_or_else(refused)
    }

    pub(super) fn function(&mut self, function: &Function) -> Result<(), Refusal> {
        let Function { name, uses_odbc_syntax, parameters, args, within_group, filter, null_treatment, over } =
            function;
        absent("{fn …}", *uses_odbc_syntax)?;
        absent("parameters of a function", !matches!(parameters, FunctionArguments::None))?;
        absent("WITHIN GROUP", !within_group.is_empty())?;
        absent("IGNORE NULLS", null_treatment.is_some())?;
        let FunctionArguments::List(args) = args else {
            absent("this call", !matches!(args, FunctionArguments::None) || over.is_some())?;
            let name = self.known(name, &[BARE])?;
            self.push(name);
            return Ok(());
        };
        let own = match self.backend {
            Backend::Sqlite => SQLITE,
            Backend::Postgres => POSTGRES,
        };
        let name = self.known(name, &[BOTH, own])?;
        absent("* in a call", name != "count" && args.args.iter().any(is_star))?;
        let call = |emit: &mut Self| {
            // The form of `substring` with texts takes a regular expression.
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
        if CHEAP.contains(&name) { call(self) } else { self.fitting(call) }
    }

    fn arguments(&mut self, name: &str, list: &FunctionArgumentList) -> Result<(), Refusal> {
        let FunctionArgumentList { duplicate_treatment, args, clauses } = list;
        self.push("(");
        if let Some(DuplicateTreatment::Distinct) = duplicate_treatment {
            self.push("DISTINCT ");
        }
        let mut place = 0;
        self.list(args, |emit, arg| {
            place += 1;
            match (bound_of(name, place), arg) {
                (Some(bound), FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))) => emit.short(expr, bound),
                _ if EXACT.contains(&name) && emit.is_postgres() => {
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

    fn argument(&mut self, arg: &FunctionArg) -> Result<(), Refusal> {
        match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => self.expr(expr),
            FunctionArg::Unnamed(FunctionArgExpr::Wildcard) => {
                self.push("*");
                Ok(())
            }
            _ => unsupported("a named argument"),
        }
    }

    fn window(&mut self, window: &WindowSpec) -> Result<(), Refusal> {
        let WindowSpec { window_name, partition_by, order_by, window_frame } = window;
        absent("WINDOW", window_name.is_some())?;
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

    fn frame(&mut self, frame: &WindowFrame) -> Result<(), Refusal> {
        let WindowFrame { units, start_bound, end_bound } = frame;
        self.push(match units {
            WindowFrameUnits::Rows => " ROWS BETWEEN ",
            WindowFrameUnits::Range => " RANGE BETWEEN ",
            WindowFrameUnits::Groups => " GROUPS BETWEEN ",
        });
        self.bound(start_bound)?;
        self.push(" AND ");
        self.bound(end_bound.as_ref().unwrap_or(&WindowFrameBound::CurrentRow))
    }

    fn bound(&mut self, bound: &WindowFrameBound) -> Result<(), Refusal> {
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

    /// A function after FROM. PostgreSQL sees it in a SELECT of its own, so that its row is never a single value.
    pub(super) fn table_function(
        &mut self,
        name: &ObjectName,
        args: &[FunctionArg],
        with_ordinality: bool,
        alias: Option<&TableAlias>,
    ) -> Result<(), Refusal> {
        let list = match self.backend {
            Backend::Sqlite => TABLE_SQLITE,
            Backend::Postgres => TABLE_POSTGRES,
        };
        let name = self.known(name, &[list])?;
        absent("* in a call", args.iter().any(is_star))?;
        absent("several arrays at once", name == "unnest" && args.len() != 1)?;
        absent("WITH ORDINALITY", with_ordinality && !self.is_postgres())?;
        self.call()?;
        let written = self.next_alias();
        self.push(if self.is_postgres() { "LATERAL (SELECT * FROM " } else { "" });
        self.push(name);
        self.push("(");
        self.list(args, Self::argument)?;
        self.push(")");
        let mut relation = Relation::new(name.to_owned(), written, Columns::new());
        if !self.is_postgres() {
            relation.columns = named(JSON_TABLE);
            return self.aliased(relation, alias);
        }
        self.push(if with_ordinality { " WITH ORDINALITY)" } else { ")" });
        relation.columns = match columns_of(name) {
            [] => {
                let called = alias.map_or(Ok(name.to_owned()), |alias| self.plain(&alias.name))?;
                named(&[&called])
            }
            columns => named(columns),
        };
        relation.is_scalar = relation.columns.len() == 1 && !with_ordinality;
        if with_ordinality {
            relation.columns.push(Column::new("ordinality"));
        }
        self.function_alias(relation, alias)
    }

    /// The alias of a function on PostgreSQL, with the names of all of its columns.
    fn function_alias(&mut self, mut relation: Relation, alias: Option<&TableAlias>) -> Result<(), Refusal> {
        if let Some(TableAlias { explicit: _, name, columns, at }) = alias {
            absent("AT", at.is_some())?;
            absent("a column type here", columns.iter().any(|column| column.data_type.is_some()))?;
            relation.name = self.plain(name)?;
            let names = columns.iter().map(|column| self.plain(&column.name));
            relation.rename(names.collect::<Result<_, _>>()?)?;
        }
        let names: Vec<String> = relation.columns.iter().filter_map(|column| column.name.clone()).collect();
        self.push(&format!(" AS {}", relation.alias));
        self.name_list(&names);
        self.see(relation)
    }
}
