//! Functions that may be called. Not on the lists: what reaches files, settings, other sessions, the catalogue or the
//! clock's waiting, and what makes large values out of nothing (`repeat`, `zeroblob`, `printf`, `generate_series`).

use sqlparser::ast::{
    DuplicateTreatment, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArgumentList,
    FunctionArguments, ObjectName, TableAlias, WindowFrame, WindowFrameBound, WindowFrameUnits, WindowSpec,
    WindowType,
};

use super::super::super::Backend;
use super::names::single;
use super::{Emit, Refusal, absent, unsupported};

const BOTH: &[&str] = &[
    "abs",
    "avg",
    "coalesce",
    "concat",
    "concat_ws",
    "count",
    "cume_dist",
    "dense_rank",
    "first_value",
    "json_object",
    "lag",
    "last_value",
    "lead",
    "length",
    "lower",
    "ltrim",
    "max",
    "min",
    "nth_value",
    "ntile",
    "nullif",
    "octet_length",
    "percent_rank",
    "random",
    "rank",
    "replace",
    "round",
    "row_number",
    "rtrim",
    "sign",
    "string_agg",
    "substr",
    "substring",
    "sum",
    "trim",
    "upper",
];

const SQLITE: &[&str] = &[
    "char",
    "date",
    "datetime",
    "glob",
    "group_concat",
    "hex",
    "ifnull",
    "iif",
    "instr",
    "json",
    "json_array",
    "json_array_length",
    "json_extract",
    "json_group_array",
    "json_group_object",
    "json_insert",
    "json_patch",
    "json_quote",
    "json_remove",
    "json_replace",
    "json_set",
    "json_type",
    "json_valid",
    "julianday",
    "likelihood",
    "likely",
    "quote",
    "strftime",
    "time",
    "timediff",
    "total",
    "typeof",
    "unicode",
    "unixepoch",
    "unlikely",
];

const POSTGRES: &[&str] = &[
    "age",
    "array_agg",
    "array_length",
    "array_to_string",
    "ascii",
    "bit_and",
    "bit_or",
    "bool_and",
    "bool_or",
    "btrim",
    "ceil",
    "ceiling",
    "char_length",
    "character_length",
    "chr",
    "date_part",
    "date_trunc",
    "every",
    "floor",
    "greatest",
    "initcap",
    "json_agg",
    "json_array_length",
    "json_build_array",
    "json_build_object",
    "json_extract_path",
    "json_extract_path_text",
    "json_object_agg",
    "json_typeof",
    "jsonb_agg",
    "jsonb_array_length",
    "jsonb_build_array",
    "jsonb_build_object",
    "jsonb_extract_path",
    "jsonb_extract_path_text",
    "jsonb_object_agg",
    "jsonb_path_exists",
    "jsonb_path_query_first",
    "jsonb_set",
    "jsonb_strip_nulls",
    "jsonb_typeof",
    "least",
    "left",
    "make_date",
    "md5",
    "mod",
    "now",
    "power",
    "regexp_replace",
    "reverse",
    "right",
    "split_part",
    "sqrt",
    "starts_with",
    "stddev",
    "strpos",
    "to_char",
    "to_date",
    "to_json",
    "to_jsonb",
    "to_timestamp",
    "translate",
    "trunc",
    "variance",
];

/// After FROM.
const TABLE_SQLITE: &[&str] = &["json_each", "json_tree"];
const TABLE_POSTGRES: &[&str] = &[
    "json_array_elements",
    "json_array_elements_text",
    "json_each",
    "json_each_text",
    "jsonb_array_elements",
    "jsonb_array_elements_text",
    "jsonb_each",
    "jsonb_each_text",
    "jsonb_object_keys",
    "jsonb_path_query",
    "unnest",
];

/// Written without brackets.
const BARE: &[&str] = &["current_date", "current_time", "current_timestamp"];

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
        self.push(name);
        self.arguments(args)?;
        if let Some(filter) = filter {
            self.push(" FILTER (WHERE ");
            self.expr(filter)?;
            self.push(")");
        }
        match over {
            None => Ok(()),
            Some(WindowType::NamedWindow(_)) => unsupported("WINDOW"),
            Some(WindowType::WindowSpec(window)) => self.window(window),
        }
    }

    fn arguments(&mut self, list: &FunctionArgumentList) -> Result<(), Refusal> {
        let FunctionArgumentList { duplicate_treatment, args, clauses } = list;
        self.push("(");
        if let Some(DuplicateTreatment::Distinct) = duplicate_treatment {
            self.push("DISTINCT ");
        }
        self.list(args, Self::argument)?;
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

    /// A function after FROM.
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
        self.push(name);
        self.push("(");
        self.list(args, Self::argument)?;
        self.push(")");
        if with_ordinality {
            absent("WITH ORDINALITY", !self.is_postgres())?;
            self.push(" WITH ORDINALITY");
        }
        if let Some(alias) = alias {
            return self.alias(alias);
        }
        let name = self.quoted(name);
        self.push(&format!(" AS {name}"));
        Ok(())
    }
}
