//! Writes expressions, with explicit parentheses, so that the database's precedence rules do not matter.

use serde_json::Value as Json;
use sqlparser::ast::{Array, BinaryOperator, CaseWhen, Expr, TypedString, UnaryOperator, Value};

use super::bounds::{self, Bound};
use super::names::single;
use super::{Emitter, GuardError, operators, refuse_if, unsupported};

impl Emitter<'_> {
    pub(super) fn expr(&mut self, expr: &Expr) -> Result<(), GuardError> {
        self.deeper(|emit| emit.expr_body(expr))
    }

    /// Writes the parts in parentheses.
    pub(super) fn bracketed(&mut self, parts: &[Part<'_>]) -> Result<(), GuardError> {
        self.push("(");
        for part in parts {
            match part {
                Part::Word(word) => self.push(word),
                Part::Expr(expr) => self.expr(expr)?,
                Part::BoundedArg(expr, bound) => self.bounded_arg(expr, *bound)?,
            }
        }
        self.push(")");
        Ok(())
    }

    fn expr_body(&mut self, expr: &Expr) -> Result<(), GuardError> {
        use Part::{Expr as E, Word as W};
        let not = |negated: bool, plain: &'static str, negative: &'static str| {
            W(if negated { negative } else { plain })
        };
        match expr {
            Expr::Identifier(name) => {
                let found = self.resolve_unqualified(name)?;
                self.write_resolved(&found)
            }
            Expr::CompoundIdentifier(names) => {
                let [table, column] = names.as_slice() else {
                    return unsupported("a column with a schema in front");
                };
                let found = self.resolve_qualified(table, column)?;
                self.write_resolved(&found)
            }
            Expr::Value(value) => self.value(&value.value),
            Expr::Nested(inner) => self.expr(inner),
            Expr::IsNull(e) => self.bracketed(&[E(e), W(" IS NULL")]),
            Expr::IsNotNull(e) => self.bracketed(&[E(e), W(" IS NOT NULL")]),
            Expr::IsTrue(e) => self.bracketed(&[E(e), W(" IS TRUE")]),
            Expr::IsNotTrue(e) => self.bracketed(&[E(e), W(" IS NOT TRUE")]),
            Expr::IsFalse(e) => self.bracketed(&[E(e), W(" IS FALSE")]),
            Expr::IsNotFalse(e) => self.bracketed(&[E(e), W(" IS NOT FALSE")]),
            Expr::IsDistinctFrom(a, b) => self.bracketed(&[E(a), W(" IS DISTINCT FROM "), E(b)]),
            Expr::IsNotDistinctFrom(a, b) => self.bracketed(&[E(a), W(" IS NOT DISTINCT FROM "), E(b)]),
            Expr::Between { expr, negated, low, high } => self.bracketed(&[
                E(expr),
                not(*negated, " BETWEEN ", " NOT BETWEEN "),
                E(low),
                W(" AND "),
                E(high),
            ]),
            Expr::InList { expr, list, negated } => {
                refuse_if("an empty list", list.is_empty() && self.is_postgres())?;
                self.push("(");
                self.expr(expr)?;
                self.push(if *negated { " NOT IN (" } else { " IN (" });
                self.list(list, Self::expr)?;
                self.push("))");
                Ok(())
            }
            Expr::InSubquery { expr, subquery, negated } => {
                self.push("(");
                self.expr(expr)?;
                self.push(if *negated { " NOT IN (" } else { " IN (" });
                self.query(subquery)?;
                self.push("))");
                Ok(())
            }
            Expr::Exists { subquery, negated } => {
                self.push(if *negated { "(NOT EXISTS (" } else { "(EXISTS (" });
                self.query(subquery)?;
                self.push("))");
                Ok(())
            }
            Expr::Subquery(query) => {
                self.push("(");
                self.query(query)?;
                self.push(")");
                Ok(())
            }
            Expr::Like { negated, any, expr, pattern, escape_char } => {
                refuse_if("LIKE ANY", *any)?;
                self.like(not(*negated, " LIKE ", " NOT LIKE "), expr, pattern, escape_char.as_deref())
            }
            Expr::ILike { negated, any, expr, pattern, escape_char } => {
                refuse_if("LIKE ANY", *any)?;
                refuse_if("ILIKE on SQLite (LIKE ignores case there)", !self.is_postgres())?;
                self.like(not(*negated, " ILIKE ", " NOT ILIKE "), expr, pattern, escape_char.as_deref())
            }
            Expr::BinaryOp { left, op, right } => {
                if *op == BinaryOperator::Eq
                    && (self.uri_equals(left, right)? || self.collection_equals(left, right)?)
                {
                    return Ok(());
                }
                self.binary(left, op, right)
            }
            Expr::UnaryOp { op, expr } => {
                let word = match op {
                    UnaryOperator::Plus => "+ ",
                    UnaryOperator::Minus => "- ",
                    UnaryOperator::Not => "NOT ",
                    UnaryOperator::BitwiseNot => "~ ",
                    _ => return unsupported("this operator"),
                };
                self.bracketed(&[W(word), E(expr)])
            }
            Expr::AnyOp { left, compare_op, right, is_some: _ } if self.is_postgres() => {
                self.quantified(left, operators::comparison(compare_op)?, "ANY", right)
            }
            Expr::AllOp { left, compare_op, right } if self.is_postgres() => {
                self.quantified(left, operators::comparison(compare_op)?, "ALL", right)
            }
            Expr::Cast { kind: _, expr, data_type, format } => {
                refuse_if("CAST FORMAT", format.is_some())?;
                self.cast(expr, &self.type_name(data_type)?)
            }
            Expr::TypedString(TypedString { data_type, value, uses_odbc_syntax }) if self.is_postgres() => {
                refuse_if("{d …}", *uses_odbc_syntax)?;
                let name = self.type_name(data_type)?;
                self.push("CAST(");
                self.value(&value.value)?;
                self.push(&format!(" AS {name})"));
                Ok(())
            }
            Expr::Interval(interval) if self.is_postgres() => {
                refuse_if(
                    "this INTERVAL",
                    interval.leading_field.is_some() || interval.last_field.is_some(),
                )?;
                self.push("CAST(");
                self.expr(&interval.value)?;
                self.push(" AS interval)");
                Ok(())
            }
            Expr::Case { case_token: _, end_token: _, operand, conditions, else_result } => {
                self.case(operand.as_deref(), conditions, else_result.as_deref())
            }
            Expr::Function(function) => self.function(function),
            Expr::Tuple(items) => {
                self.push("(");
                self.list(items, Self::expr)?;
                self.push(")");
                Ok(())
            }
            Expr::Array(Array { elem, named: true }) if self.is_postgres() => self.bounded_result(|emit| {
                emit.push("ARRAY[");
                emit.list(elem, Self::expr)?;
                emit.push("]");
                Ok(())
            }),
            Expr::Collate { expr, collation } => {
                let name = self.checked_name(single(collation)?)?;
                let known: &[&str] = if self.is_postgres() { &["C"] } else { &["NOCASE", "BINARY", "RTRIM"] };
                let Some(name) = known.iter().find(|known| known.eq_ignore_ascii_case(&name)) else {
                    return unsupported("this collation");
                };
                let name = self.collation_text(name);
                self.bracketed(&[E(expr), W(" COLLATE "), W(&name)])
            }
            _ => self.special(expr),
        }
    }

    fn collation_text(&self, name: &str) -> String {
        if self.is_postgres() { format!("\"{name}\"") } else { name.to_owned() }
    }

    fn cast(&mut self, expr: &Expr, name: &str) -> Result<(), GuardError> {
        let plain = |emit: &mut Self| {
            emit.push("CAST(");
            emit.expr(expr)?;
            emit.push(&format!(" AS {name})"));
            Ok(())
        };
        // These casts can enlarge a value: a short text becomes a number of a hundred thousand digits, and JSON becomes
        // text.
        let grows = ["NUMERIC", "DECIMAL", "TEXT", "VARCHAR", "CHAR", "JSON"];
        let is_bounded =
            grows.iter().any(|grows| name.starts_with(grows)) && self.known_bytes(expr) != Some(0);
        let write = |emit: &mut Self| if is_bounded { emit.bounded_result(plain) } else { plain(emit) };
        if ["TEXT", "VARCHAR", "CHAR"].iter().any(|text| name.starts_with(text)) {
            return self.by_bytes(write);
        }
        write(self)
    }

    /// Writes a text with the collation of the views' columns, so that PostgreSQL sorts and compares it as SQLite does.
    fn by_bytes(
        &mut self,
        write: impl FnOnce(&mut Self) -> Result<(), GuardError>,
    ) -> Result<(), GuardError> {
        if !self.is_postgres() {
            return write(self);
        }
        self.push("(");
        write(self)?;
        self.push(" COLLATE \"C\")");
        Ok(())
    }

    fn binary(&mut self, left: &Expr, op: &BinaryOperator, right: &Expr) -> Result<(), GuardError> {
        use BinaryOperator as Op;
        use Part::{BoundedArg, Expr as E, Word as W};
        let word = operators::word(op, self.backend)?;
        let plain = [E(left), W(" "), W(word), W(" "), E(right)];
        match op {
            Op::StringConcat | Op::Glob => self.bounded_result(|emit| emit.bracketed(&plain)),
            // A product has as many digits as both factors together.
            Op::Multiply if self.is_postgres() && !is_literal(left) && !is_literal(right) => {
                self.bounded_result(|emit| emit.bracketed(&plain))
            }
            Op::LongArrow | Op::HashLongArrow => {
                self.count_call()?;
                self.by_bytes(|emit| emit.bracketed(&plain))
            }
            Op::Arrow | Op::HashArrow | Op::Question | Op::QuestionAnd | Op::QuestionPipe => {
                self.count_call()?;
                self.bracketed(&plain)
            }
            Op::AtArrow => {
                let parts = [E(left), W(" "), W(word), W(" "), BoundedArg(right, bounds::PART)];
                self.bounded_result(|emit| emit.bracketed(&parts))
            }
            Op::ArrowAt => {
                let parts = [BoundedArg(left, bounds::PART), W(" "), W(word), W(" "), E(right)];
                self.bounded_result(|emit| emit.bracketed(&parts))
            }
            Op::PGRegexMatch | Op::PGRegexIMatch | Op::PGRegexNotMatch | Op::PGRegexNotIMatch => {
                let parts = [E(left), W(" "), W(word), W(" "), BoundedArg(right, bounds::PATTERN)];
                self.bounded_result(|emit| emit.bracketed(&parts))
            }
            _ => self.bracketed(&plain),
        }
    }

    fn like(
        &mut self,
        word: Part<'_>,
        expr: &Expr,
        pattern: &Expr,
        escape: Option<&Expr>,
    ) -> Result<(), GuardError> {
        // SQLite limits patterns itself.
        let bounded =
            if self.is_postgres() { Part::BoundedArg(pattern, bounds::PATTERN) } else { Part::Expr(pattern) };
        let mut parts = vec![Part::Expr(expr), word, bounded];
        if let Some(escape) = escape {
            parts.extend([Part::Word(" ESCAPE "), Part::Expr(escape)]);
        }
        self.bounded_result(|emit| emit.bracketed(&parts))
    }

    fn quantified(&mut self, left: &Expr, op: &str, which: &str, right: &Expr) -> Result<(), GuardError> {
        self.push("(");
        self.expr(left)?;
        self.push(&format!(" {op} {which} ("));
        match right {
            Expr::Subquery(query) => drop(self.query(query)?),
            other => self.expr(other)?,
        }
        self.push("))");
        Ok(())
    }

    fn case(
        &mut self,
        operand: Option<&Expr>,
        conditions: &[CaseWhen],
        otherwise: Option<&Expr>,
    ) -> Result<(), GuardError> {
        self.push("CASE ");
        if let Some(operand) = operand {
            self.expr(operand)?;
        }
        for CaseWhen { condition, result } in conditions {
            self.push(" WHEN ");
            self.expr(condition)?;
            self.push(" THEN ");
            self.expr(result)?;
        }
        if let Some(otherwise) = otherwise {
            self.push(" ELSE ");
            self.expr(otherwise)?;
        }
        self.push(" END");
        Ok(())
    }

    pub(super) fn value(&mut self, value: &Value) -> Result<(), GuardError> {
        match value {
            Value::Number(text, false) if is_number(text) => self.push(text),
            Value::SingleQuotedString(text) => self.text(text)?,
            Value::Boolean(true) => self.push("TRUE"),
            Value::Boolean(false) => self.push("FALSE"),
            Value::Null => self.push("NULL"),
            Value::Placeholder(name) => self.parameter(name)?,
            _ => return unsupported("this kind of literal (write 'text' or use a parameter)"),
        }
        Ok(())
    }

    /// Writes a text literal. Backslashes are not special on either database (`standard_conforming_strings`).
    fn text(&mut self, text: &str) -> Result<(), GuardError> {
        refuse_if("U+0000 in a text", text.contains('\0'))?;
        self.push(&format!("'{}'", text.replace('\'', "''")));
        Ok(())
    }

    fn parameter(&mut self, name: &str) -> Result<(), GuardError> {
        let number = name.strip_prefix(['$', '?']).and_then(|n| n.parse::<usize>().ok());
        let Some(number) = number.filter(|n| *n > 0) else {
            return unsupported("a named parameter (use $1)");
        };
        self.highest_param = self.highest_param.max(number);
        let Some(value) = self.params.get(number - 1) else {
            return Err(GuardError::Parameters { has: number, given: self.params.len() });
        };
        let literal = match value {
            Json::Null => Some("NULL".to_owned()),
            // The type of a literal follows from its context; a bound number would always be a bigint.
            Json::Number(n) if self.is_postgres() => Some(format!("({n})")),
            Json::Bool(b) if self.is_postgres() => Some(if *b { "TRUE" } else { "FALSE" }.to_owned()),
            Json::Number(_) | Json::Bool(_) | Json::String(_) => None,
            Json::Array(_) | Json::Object(_) => return Err(GuardError::Parameter),
        };
        if let Some(literal) = literal {
            self.push(&literal);
            return Ok(());
        }
        let index = self.binds.iter().position(|bound| *bound == number - 1).unwrap_or_else(|| {
            self.binds.push(number - 1);
            self.binds.len() - 1
        });
        self.push(&format!("${}", index + 1));
        Ok(())
    }
}

/// A part of an expression.
#[derive(Clone, Copy)]
pub(super) enum Part<'e> {
    Word(&'e str),
    Expr(&'e Expr),
    BoundedArg(&'e Expr, Bound),
}

/// Whether it is a number literal.
fn is_literal(expr: &Expr) -> bool {
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
