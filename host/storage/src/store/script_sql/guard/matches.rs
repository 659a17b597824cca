//! Rewrites `matches(record, 'path', query)`, the condition of `db.search` in a statement: whether the text at a path in a
//! record contains the query, ignoring the case of ASCII letters.

use serde_json::Value as Json;
use sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, Value};

use super::lists::PATTERN;
use super::{GuardError, Rewriter, unsupported};
use crate::query::path::Path;
use crate::store::select::{Dialect, PostgresDialect, SqliteDialect, escape};

/// Whether a name is that of the function. The databases have none with this name.
pub(super) fn is_matches(name: &ObjectName) -> bool {
    *name == ObjectName::from(vec![Ident::new("matches")])
}

impl Rewriter<'_> {
    /// The SQL of a call.
    pub(super) fn matches(&mut self, args: &mut FunctionArguments) -> Result<String, GuardError> {
        const FORM: &str = "matches of anything but a record, a path and a text";
        let FunctionArguments::List(args) = args else { return unsupported(FORM) };
        let [record, path, query] = &mut args.args[..] else { return unsupported(FORM) };
        let (
            FunctionArg::Unnamed(FunctionArgExpr::Expr(record)),
            FunctionArg::Unnamed(FunctionArgExpr::Expr(path)),
            FunctionArg::Unnamed(FunctionArgExpr::Expr(query)),
        ) = (record, path, query)
        else {
            return unsupported(FORM);
        };
        let (path, query) = (self.constant_text(path)?, self.constant_text(query)?);
        let Ok(path) = Path::parse(&path) else { return unsupported("this path in matches") };
        let pattern = format!("%{}%", escape(&query));
        if pattern.len() > PATTERN.max_bytes {
            return Err(GuardError::TooLong { what: PATTERN.what, max_bytes: PATTERN.max_bytes });
        }
        self.expr(record)?;
        // The type and the value at the path, and the comparison.
        (0..3).try_for_each(|_| self.count_call())?;
        let (text, like) = if self.is_postgres() {
            (PostgresDialect::text(&format!("({record})"), &path), PostgresDialect::LIKE)
        } else {
            (SqliteDialect::text(&record.to_string(), &path), SqliteDialect::LIKE)
        };
        let pattern = pattern.replace('\'', "''");
        Ok(format!("coalesce({text} {like} '{pattern}' ESCAPE '\\', FALSE)"))
    }

    /// The text of a literal or a parameter.
    fn constant_text(&mut self, expr: &Expr) -> Result<String, GuardError> {
        const ONLY: &str = "a path or a text in matches that is neither a literal nor a parameter";
        let found = match (self.param(expr), expr) {
            (Some(Json::String(text)), _) => Some(text.clone()),
            (None, Expr::Value(value)) => match &value.value {
                Value::SingleQuotedString(text) => Some(text.clone()),
                _ => None,
            },
            _ => None,
        };
        let Some(text) = found.filter(|text| !text.contains('\0')) else { return unsupported(ONLY) };
        Ok(text)
    }
}
