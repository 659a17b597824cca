//! Rewrites expressions. Every operator gets parentheses, so that the database's precedence rules do not matter.

use serde_json::Value as Json;
use sqlparser::ast::{
    Array, BinaryOperator, CaseWhen, CeilFloorKind, DateTimeField, Expr, TrimWhereField, TypedString,
    UnaryOperator, Value,
};

use super::idents::{checked_name, single};
use super::lists::{self, Bound, is_in};
use super::{GuardError, Rewriter, raw, refuse_if, replace, unsupported};

/// Takes an expression out of the statement, to put it back elsewhere.
pub(super) fn taken(expr: &mut Expr) -> Expr {
    std::mem::replace(expr, raw(String::new()))
}

/// Removes the parentheses around an expression.
pub(super) fn unnested(expr: &mut Expr) {
    while let Expr::Nested(inner) = expr {
        *expr = taken(inner);
    }
}

impl Rewriter<'_> {
    /// Rewrites an expression, and returns whether its values are JSON.
    pub(super) fn expr(&mut self, expr: &mut Expr) -> Result<bool, GuardError> {
        self.deeper(|rewriter| rewriter.expr_body(expr))
    }

    fn exprs<'e>(&mut self, exprs: impl IntoIterator<Item = &'e mut Expr>) -> Result<(), GuardError> {
        exprs.into_iter().try_for_each(|expr| self.expr(expr).map(drop))
    }

    fn expr_body(&mut self, expr: &mut Expr) -> Result<bool, GuardError> {
        unnested(expr);
        match expr {
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => self.column(expr),
            Expr::Subquery(query) => Ok(self.query(query)?.first().is_some_and(|column| column.is_json)),
            Expr::BinaryOp { .. } => self.binary(expr),
            Expr::Function(_) => self.function(expr),
            Expr::Substring { .. }
            | Expr::Trim { .. }
            | Expr::Position { .. }
            | Expr::Ceil { .. }
            | Expr::Floor { .. } => {
                self.special(expr)?;
                self.function(expr)
            }
            _ => self.without_json(expr).map(|()| false),
        }
    }

    /// Rewrites an expression that is neither a name, a call nor JSON.
    fn without_json(&mut self, expr: &mut Expr) -> Result<(), GuardError> {
        let text = match expr {
            Expr::Value(value) => self.value(&value.value)?,
            Expr::TypedString(TypedString { data_type, value, uses_odbc_syntax: false })
                if self.is_postgres() =>
            {
                let name = lists::type_name(data_type, self.backend)?;
                format!("CAST({} AS {name})", self.value(&value.value)?)
            }
            Expr::Interval(interval) if self.is_postgres() => {
                let has_field = interval.leading_field.is_some() || interval.last_field.is_some();
                refuse_if("this INTERVAL", has_field)?;
                self.expr(&mut interval.value)?;
                format!("CAST({} AS interval)", interval.value)
            }
            Expr::Extract { field, syntax: _, expr: e } if self.is_postgres() => {
                refuse_if("this field of EXTRACT", !is_in(lists::FIELDS, &field.to_string()))?;
                self.expr(e)?;
                format!("EXTRACT({field} FROM {e})")
            }
            Expr::Collate { expr: e, collation } => {
                let name = checked_name(self.backend, single(collation)?)?;
                let known = if self.is_postgres() { "C" } else { "NOCASE BINARY RTRIM" };
                let Some(name) = known.split(' ').find(|known| known.eq_ignore_ascii_case(&name)) else {
                    return unsupported("this collation");
                };
                self.expr(e)?;
                format!("({e} COLLATE {})", self.quoted(name))
            }
            Expr::Cast { kind: _, expr: e, data_type, format } => {
                refuse_if("CAST FORMAT", format.is_some())?;
                let name = lists::type_name(data_type, self.backend)?;
                self.cast(e, &name)?
            }
            Expr::Tuple(items) => return self.exprs(items),
            Expr::Array(Array { elem, named: true }) if self.is_postgres() => {
                self.exprs(elem)?;
                return self.bounded_result(expr);
            }
            Expr::Like { .. } | Expr::ILike { .. } => return self.like(expr),
            _ => {
                self.children(expr)?;
                format!("({expr})")
            }
        };
        replace(expr, text);
        Ok(())
    }

    /// Rewrites the parts of an expression that is otherwise as the script wrote it.
    fn children(&mut self, expr: &mut Expr) -> Result<(), GuardError> {
        match expr {
            Expr::IsNull(e)
            | Expr::IsNotNull(e)
            | Expr::IsTrue(e)
            | Expr::IsNotTrue(e)
            | Expr::IsFalse(e)
            | Expr::IsNotFalse(e) => self.exprs([&mut **e]),
            Expr::IsDistinctFrom(a, b) | Expr::IsNotDistinctFrom(a, b) => self.exprs([&mut **a, b]),
            Expr::Between { expr: e, negated: _, low, high } => self.exprs([&mut **e, low, high]),
            Expr::InList { expr: e, list, negated: _ } => {
                refuse_if("an empty list", list.is_empty() && self.is_postgres())?;
                self.exprs(std::iter::once(&mut **e).chain(list))
            }
            Expr::InSubquery { expr: e, subquery, negated: _ } => {
                self.expr(e)?;
                self.query(subquery).map(drop)
            }
            Expr::Exists { subquery, negated: _ } => self.query(subquery).map(drop),
            Expr::UnaryOp { op, expr: e } => {
                use UnaryOperator::{BitwiseNot, Minus, Not, Plus};
                refuse_if("this operator", !matches!(op, Plus | Minus | Not | BitwiseNot))?;
                self.exprs([&mut **e])
            }
            Expr::AnyOp { left, compare_op, right, is_some: _ } | Expr::AllOp { left, compare_op, right }
                if self.is_postgres() =>
            {
                // Each element of a list of patterns would be a pattern without a bound.
                refuse_if(
                    "this operator before ANY or ALL",
                    !is_in(lists::COMPARISONS, &compare_op.to_string()),
                )?;
                self.exprs([&mut **left, right])
            }
            Expr::Case { case_token: _, end_token: _, operand, conditions, else_result } => {
                self.exprs(operand.as_deref_mut())?;
                self.exprs(
                    conditions.iter_mut().flat_map(|CaseWhen { condition, result }| [condition, result]),
                )?;
                self.exprs(else_result.as_deref_mut())
            }
            Expr::AtTimeZone { timestamp, time_zone } if self.is_postgres() => {
                self.exprs([&mut **timestamp, time_zone])
            }
            _ => unsupported("this expression"),
        }
    }

    /// Replaces the name of a column. Returns whether its values are JSON.
    fn column(&mut self, expr: &mut Expr) -> Result<bool, GuardError> {
        let found = match expr {
            Expr::Identifier(name) => self.resolve_unqualified(name)?,
            Expr::CompoundIdentifier(names) => match names.as_slice() {
                [table, column] => self.resolve_qualified(table, column)?,
                _ => return unsupported("a column with a schema in front"),
            },
            _ => return unsupported("this name"),
        };
        replace(expr, found.text);
        self.spend(found.cost)?;
        Ok(found.is_json)
    }

    fn like(&mut self, expr: &mut Expr) -> Result<(), GuardError> {
        let is_ilike = matches!(expr, Expr::ILike { .. });
        refuse_if("ILIKE on SQLite (LIKE ignores case there)", is_ilike && !self.is_postgres())?;
        let (Expr::Like { negated: _, any: false, expr: e, pattern, escape_char }
        | Expr::ILike { negated: _, any: false, expr: e, pattern, escape_char }) = expr
        else {
            return unsupported("LIKE ANY");
        };
        self.expr(e)?;
        // SQLite limits patterns itself.
        self.bounded_arg(pattern, Some(lists::PATTERN).filter(|_| self.is_postgres()))?;
        self.exprs(escape_char.as_deref_mut())?;
        nest(expr);
        self.bounded_result(expr)
    }

    /// Replaces a function with special syntax by the call that it stands for.
    fn special(&self, expr: &mut Expr) -> Result<(), GuardError> {
        let no_field =
            |field: &CeilFloorKind| matches!(field, CeilFloorKind::DateTimeField(DateTimeField::NoDateTime));
        let (name, args) = match expr {
            Expr::Substring {
                expr: e,
                substring_from: Some(from),
                substring_for,
                special: _,
                shorthand: _,
            } => ("substr", [e, from].into_iter().chain(substring_for).map(|e| taken(e)).collect()),
            Expr::Trim { trim_where, trim_what, expr: e, trim_characters } => {
                let name = match trim_where {
                    Some(TrimWhereField::Leading) => "ltrim",
                    Some(TrimWhereField::Trailing) => "rtrim",
                    _ if self.is_postgres() => "btrim",
                    _ => "trim",
                };
                let characters =
                    trim_what.as_deref_mut().into_iter().chain(trim_characters.iter_mut().flatten());
                (name, std::iter::once(&mut **e).chain(characters).map(taken).collect())
            }
            Expr::Position { expr: e, r#in } if self.is_postgres() => ("strpos", vec![taken(r#in), taken(e)]),
            Expr::Ceil { expr: e, field } if self.is_postgres() && no_field(field) => {
                ("ceil", vec![taken(e)])
            }
            Expr::Floor { expr: e, field } if self.is_postgres() && no_field(field) => {
                ("floor", vec![taken(e)])
            }
            _ => return unsupported("this expression"),
        };
        *expr = lists::call(name, args);
        Ok(())
    }

    /// The SQL of a cast.
    fn cast(&mut self, value: &mut Expr, name: &str) -> Result<String, GuardError> {
        // These casts can enlarge a value: a short text becomes a number of a hundred thousand digits, and JSON becomes
        // text.
        let grows = ["NUMERIC", "DECIMAL", "TEXT", "VARCHAR", "CHAR", "JSON"];
        let grows = grows.iter().any(|grows| name.starts_with(grows)) && self.known_bytes(value) != Some(0);
        self.expr(value)?;
        replace(value, format!("CAST({value} AS {name})"));
        if grows {
            self.bounded_result(value)?;
        }
        if ["TEXT", "VARCHAR", "CHAR"].iter().any(|text| name.starts_with(text)) {
            self.by_bytes(value);
        }
        Ok(value.to_string())
    }

    /// Gives a text the collation of the views' columns, so that PostgreSQL sorts and compares it as SQLite does.
    fn by_bytes(&self, expr: &mut Expr) {
        if self.is_postgres() {
            replace(expr, format!("({expr} COLLATE \"C\")"));
        }
    }

    fn binary(&mut self, expr: &mut Expr) -> Result<bool, GuardError> {
        use BinaryOperator as Op;
        let Expr::BinaryOp { left, op, right } = expr else { return unsupported("this operator") };
        if *op == Op::Eq
            && let Some(text) = self.equals(left, right)?
        {
            replace(expr, text);
            return Ok(false);
        }
        refuse_if("this operator", !lists::is_operator(op, self.backend))?;
        let op = op.clone();
        // A product has as many digits as both factors together.
        let is_product =
            op == Op::Multiply && self.is_postgres() && !is_number_literal(left) && !is_number_literal(right);
        let (left_bound, right_bound) = match op {
            Op::AtArrow => (None, Some(lists::PART)),
            Op::ArrowAt => (Some(lists::PART), None),
            Op::PGRegexMatch | Op::PGRegexIMatch | Op::PGRegexNotMatch | Op::PGRegexNotIMatch => {
                (None, Some(lists::PATTERN))
            }
            _ => (None, None),
        };
        self.bounded_arg(left, left_bound)?;
        self.bounded_arg(right, right_bound)?;
        nest(expr);
        let is_bounded = left_bound.is_some() || right_bound.is_some() || is_product;
        match op {
            Op::LongArrow | Op::HashLongArrow => {
                self.count_call()?;
                self.by_bytes(expr);
            }
            Op::Arrow | Op::HashArrow | Op::Question | Op::QuestionAnd | Op::QuestionPipe => {
                self.count_call()?;
            }
            _ if is_bounded || matches!(op, Op::StringConcat | Op::Glob) => self.bounded_result(expr)?,
            _ => {}
        }
        Ok(matches!(op, Op::Arrow | Op::HashArrow))
    }

    /// The parameter that an expression is.
    pub(super) fn param(&self, expr: &Expr) -> Option<&Json> {
        self.params.get(param_number(expr)?.checked_sub(1)?)
    }

    /// The length in bytes of a literal or text parameter, 0 for other parameters; `None` for other expressions.
    fn known_bytes(&self, expr: &Expr) -> Option<usize> {
        match expr {
            Expr::Nested(inner) => self.known_bytes(inner),
            Expr::Value(value) => match &value.value {
                Value::SingleQuotedString(text) | Value::Number(text, _) => Some(text.len()),
                Value::Null | Value::Boolean(_) => Some(0),
                _ => self.param(expr).map(|value| value.as_str().map_or(0, str::len)),
            },
            _ => None,
        }
    }

    /// Rewrites an argument whose length is limited, if there is a bound. Literals and parameters are checked here, the
    /// values of other expressions by a function in the database.
    pub(super) fn bounded_arg(&mut self, expr: &mut Expr, bound: Option<Bound>) -> Result<bool, GuardError> {
        let known = self.known_bytes(expr);
        let is_json = self.expr(expr)?;
        match (bound, known) {
            (Some(Bound { what, max_bytes }), Some(bytes)) if bytes > max_bytes => {
                Err(GuardError::TooLong { what, max_bytes })
            }
            (Some(Bound { what: _, max_bytes }), None) => {
                replace(expr, format!("{}({expr}, {max_bytes})", lists::length_check(self.backend)));
                Ok(is_json)
            }
            _ => Ok(is_json),
        }
    }

    /// Counts an operation whose time grows with the size of a value. On PostgreSQL it is wrapped in `fits`, which limits
    /// the size of the result and checks the deadline; SQLite does both for every value.
    pub(super) fn bounded_result(&mut self, expr: &mut Expr) -> Result<(), GuardError> {
        if self.is_postgres() {
            replace(expr, format!("{}.fits({expr})", super::super::VIEW_SCHEMA));
        }
        self.count_call()
    }

    /// The SQL of a literal or a parameter. Not sqlparser's: it does not escape every quote of a text.
    fn value(&mut self, value: &Value) -> Result<String, GuardError> {
        match value {
            Value::Number(text, false) if is_number(text) => Ok(text.clone()),
            // Backslashes are not special on either database (`standard_conforming_strings`).
            Value::SingleQuotedString(text) => {
                refuse_if("U+0000 in a text", text.contains('\0'))?;
                Ok(format!("'{}'", text.replace('\'', "''")))
            }
            Value::Boolean(_) | Value::Null => Ok(value.to_string()),
            Value::Placeholder(name) => self.parameter(name),
            _ => unsupported("this kind of literal (write 'text' or use a parameter)"),
        }
    }

    fn parameter(&mut self, name: &str) -> Result<String, GuardError> {
        let number = name.strip_prefix(['$', '?']).and_then(|n| n.parse::<usize>().ok());
        let Some(number) = number.filter(|n| *n > 0) else {
            return unsupported("a named parameter (use $1)");
        };
        match self.params.get(number - 1) {
            None => return Err(GuardError::Parameters { has: number, given: self.params.len() }),
            Some(Json::Null) => return Ok("NULL".to_owned()),
            // The type of a literal follows from its context; a bound number would always be a bigint.
            Some(Json::Number(n)) if self.is_postgres() => return Ok(format!("({n})")),
            Some(Json::Bool(b)) if self.is_postgres() => return Ok(b.to_string()),
            Some(Json::Number(_) | Json::Bool(_) | Json::String(_)) => {}
            Some(Json::Array(_) | Json::Object(_)) => return Err(GuardError::Parameter),
        }
        let index = self.binds.iter().position(|bound| *bound == number - 1).unwrap_or_else(|| {
            self.binds.push(number - 1);
            self.binds.len() - 1
        });
        Ok(format!("${}", index + 1))
    }
}

/// The number of the parameter that an expression is.
fn param_number(expr: &Expr) -> Option<usize> {
    let Expr::Value(value) = expr else { return None };
    let Value::Placeholder(name) = &value.value else { return None };
    name.strip_prefix('$')?.parse().ok()
}

/// Puts parentheses around an expression.
fn nest(expr: &mut Expr) {
    *expr = Expr::Nested(Box::new(taken(expr)));
}

fn is_number_literal(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if matches!(value.value, Value::Number(..)))
}

/// Maximum length of a number literal: more digits than both databases keep of a float.
const MAX_DIGITS: usize = 40;

/// Whether both databases read the text as the same number: digits with at most a point and an exponent.
fn is_number(text: &str) -> bool {
    text.len() <= MAX_DIGITS
        && text.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-'))
        && text.parse::<f64>().is_ok_and(f64::is_finite)
}
