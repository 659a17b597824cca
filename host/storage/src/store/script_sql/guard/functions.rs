//! Rewrites function calls in expressions and after FROM.

use sqlparser::ast::{
    DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArgumentList, FunctionArguments, Ident, ObjectName, OrderByExpr, TableAlias, WindowFrame,
    WindowFrameBound, WindowSpec, WindowType,
};

use super::idents::{checked_name, shown, single};
use super::lists::{self, is_in};
use super::matches::is_matches;
use super::query::direction;
use super::scope::{Column, Relation, columns_named, rename};
use super::{GuardError, Rewriter, refuse_if, replace, unsupported};
use crate::store::Backend;

fn is_star(arg: &FunctionArg) -> bool {
    matches!(arg, FunctionArg::Unnamed(FunctionArgExpr::Wildcard))
}

impl Rewriter<'_> {
    fn listed_name(&self, name: &ObjectName, lists: &[&'static str]) -> Result<&'static str, GuardError> {
        let plain = single(name).and_then(|name| checked_name(self.backend, name)).unwrap_or_default();
        let mut known = lists.iter().flat_map(|list| list.split_whitespace());
        let found = known.find(|known| plain.eq_ignore_ascii_case(known));
        found.ok_or_else(|| GuardError::Function(shown(&name.to_string())))
    }

    /// Rewrites a call, and returns whether its value is JSON.
    pub(super) fn function(&mut self, expr: &mut Expr) -> Result<bool, GuardError> {
        let Expr::Function(function) = expr else { return unsupported("this call") };
        let Function { name, uses_odbc_syntax, parameters, args, within_group, filter, null_treatment, over } =
            function;
        if is_matches(name) && over.is_none() && filter.is_none() {
            let condition = self.matches(args)?;
            replace(expr, condition);
            return Ok(false);
        }
        refuse_if("{fn …}", *uses_odbc_syntax)?;
        refuse_if("parameters of a function", !matches!(parameters, FunctionArguments::None))?;
        refuse_if("WITHIN GROUP", !within_group.is_empty())?;
        refuse_if("IGNORE NULLS", null_treatment.is_some())?;
        let FunctionArguments::List(args) = args else {
            refuse_if(
                "this call",
                !matches!(args, FunctionArguments::None) || over.is_some() || filter.is_some(),
            )?;
            let name = self.listed_name(name, &[lists::WITHOUT_PARENTHESES])?;
            replace(expr, name.to_owned());
            return Ok(false);
        };
        let own = if self.is_postgres() { lists::POSTGRES } else { lists::SQLITE };
        let listed = self.listed_name(name, &[lists::BOTH, own])?;
        refuse_if("log with a base", listed == "log" && args.args.len() != 1)?;
        refuse_if("* in a call", listed != "count" && args.args.iter().any(is_star))?;
        // With text arguments `substring` takes a regular expression; `substr` does not.
        *name = ObjectName::from(vec![Ident::new(if listed == "substring" { "substr" } else { listed })]);
        let first_is_json = self.arguments(listed, args)?;
        if let Some(filter) = filter {
            self.expr(filter)?;
        }
        match over {
            None => {}
            Some(WindowType::NamedWindow(_)) => return unsupported("WINDOW"),
            Some(WindowType::WindowSpec(window)) => self.window(window)?,
        }
        if !is_in(lists::CHEAP, listed) {
            self.bounded_result(expr)?;
        }
        Ok(is_in(lists::RETURN_JSON, listed) || (first_is_json && is_in(lists::RETURN_ARGUMENT, listed)))
    }

    /// Rewrites the arguments of a call, and returns whether the first is JSON.
    fn arguments(&mut self, name: &str, list: &mut FunctionArgumentList) -> Result<bool, GuardError> {
        let needs_double = is_in(lists::NEEDS_DOUBLE, name) && self.is_postgres();
        let mut first_is_json = false;
        // ALL is the default.
        list.duplicate_treatment =
            list.duplicate_treatment.filter(|treatment| *treatment != DuplicateTreatment::All);
        for (index, arg) in list.args.iter_mut().enumerate() {
            let expr = match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => expr,
                arg if is_star(arg) => continue,
                _ => return unsupported("a named argument"),
            };
            let is_json = self.bounded_arg(expr, lists::argument_bound(name, index + 1))?;
            first_is_json |= index == 0 && is_json;
            if needs_double {
                replace(expr, format!("CAST({expr} AS DOUBLE PRECISION)"));
            }
        }
        for clause in &mut list.clauses {
            let FunctionArgumentClause::OrderBy(items) = clause else {
                return unsupported("this clause in a call");
            };
            self.order(items)?;
        }
        Ok(first_is_json)
    }

    /// Rewrites an ORDER BY that can't name result columns.
    pub(super) fn order(&mut self, items: &mut [OrderByExpr]) -> Result<(), GuardError> {
        items.iter_mut().try_for_each(|item| {
            direction(item)?;
            self.expr(&mut item.expr).map(drop)
        })
    }

    fn window(&mut self, window: &mut WindowSpec) -> Result<(), GuardError> {
        let WindowSpec { window_name, partition_by, order_by, window_frame } = window;
        refuse_if("WINDOW", window_name.is_some())?;
        partition_by.iter_mut().try_for_each(|expr| self.expr(expr).map(drop))?;
        self.order(order_by)?;
        let Some(WindowFrame { units: _, start_bound, end_bound }) = window_frame else { return Ok(()) };
        for bound in std::iter::once(start_bound).chain(end_bound) {
            if let WindowFrameBound::Preceding(Some(count)) | WindowFrameBound::Following(Some(count)) = bound
            {
                self.expr(count)?;
            }
        }
        Ok(())
    }

    /// The SQL of a function after FROM. On PostgreSQL it is wrapped in a SELECT, so that its row is never a single value,
    /// which could be the argument of a function.
    pub(super) fn table_function(
        &mut self,
        name: &ObjectName,
        args: &mut [FunctionArg],
        with_ordinality: bool,
        alias: Option<&TableAlias>,
    ) -> Result<String, GuardError> {
        let list = if self.is_postgres() { lists::TABLE_POSTGRES } else { lists::TABLE_SQLITE };
        let name = self.listed_name(name, &[list])?;
        refuse_if("several arrays at once", name == "unnest" && args.len() != 1)?;
        refuse_if("WITH ORDINALITY", with_ordinality && !self.is_postgres())?;
        self.count_call()?;
        let written = self.next_alias();
        let mut texts = Vec::new();
        for arg in args {
            let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = arg else {
                return unsupported("a named argument");
            };
            self.expr(expr)?;
            texts.push(expr.to_string());
        }
        let call = format!("{name}({})", texts.join(", "));
        if self.backend == Backend::Sqlite {
            let columns = columns_named("key value type atom id parent fullkey path");
            return Ok(call + &self.aliased(Relation::new(name, written, columns), alias)?);
        }
        // A function that returns single values has one column, with the name of the function or of its alias.
        let single = alias.map_or(Ok(name.to_owned()), |alias| checked_name(self.backend, &alias.name))?;
        let columns = match name {
            "json_each" | "json_each_text" | "jsonb_each" | "jsonb_each_text" => "key value",
            "jsonb_object_keys" | "unnest" => &single,
            _ => "value",
        };
        let mut relation = Relation::new(name, written, columns_named(columns));
        relation.is_scalar = relation.columns.len() == 1 && !with_ordinality;
        if with_ordinality {
            relation.columns.push(Column::new("ordinality"));
        }
        if let Some(TableAlias { explicit: _, name, columns, at }) = alias {
            refuse_if("AT", at.is_some())?;
            relation.name = checked_name(self.backend, name)?;
            rename(&mut relation.columns, self.column_names(columns)?)?;
        }
        // The alias names all columns.
        let names: Vec<String> = relation.columns.iter().filter_map(|column| column.name.clone()).collect();
        let ordinality = if with_ordinality { " WITH ORDINALITY" } else { "" };
        let alias = format!("{}{}", relation.alias, self.name_list(&names));
        self.add_relation(relation)?;
        Ok(format!("LATERAL (SELECT * FROM {call}{ordinality}) AS {alias}"))
    }
}
