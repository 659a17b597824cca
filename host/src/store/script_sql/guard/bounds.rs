//! Bounds on the arguments of functions and operators that take time in proportion to two of them, or give more than they
//! take: neither database looks at a clock while one of them runs.
//!
//! An argument that is known is measured here. Others are measured by the database: by a function of ours (`short`) in
//! the schema of the views on PostgreSQL, on the connection on SQLite.

use sqlparser::ast::{Expr, Value};

use super::super::{SQLITE_SHORT, VIEW_SCHEMA};
use super::{Emit, Refusal};

/// Characters that `trim` looks for, each at each end of the text: more than there are kinds of blanks.
pub(super) const TRIM_SET: Bound = Bound { what: "the second argument of trim", most: 32 };
/// A text that is looked for in another one: a sentence.
pub(super) const NEEDLE: Bound = Bound { what: "a text to look for", most: 256 };
/// Characters that `translate` replaces: the letters of a script.
pub(super) const ALPHABET: Bound = Bound { what: "the second argument of translate", most: 128 };
/// A pattern of LIKE, GLOB or a regular expression. On SQLite the connection keeps LIKE and GLOB to it.
pub(super) const PATTERN: Bound = Bound { what: "a pattern", most: 250 };
/// JSON that another one shall contain, or that is merged into another one.
pub(super) const PART: Bound = Bound { what: "JSON to look for or to merge", most: 1 << 10 };
/// What stands between the parts of a text that is put together.
pub(super) const SEPARATOR: Bound = Bound { what: "a separator", most: 256 };

#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    what: &'static str,
    most: usize,
}

impl Emit<'_> {
    /// The bytes of a text that is known now.
    pub(super) fn known_bytes(&self, expr: &Expr) -> Option<usize> {
        match expr {
            Expr::Nested(inner) => self.known_bytes(inner),
            Expr::Value(value) => match &value.value {
                Value::SingleQuotedString(text) | Value::Number(text, _) => Some(text.len()),
                Value::Null | Value::Boolean(_) => Some(0),
                Value::Placeholder(name) => {
                    let number = name.strip_prefix('$').and_then(|n| n.parse::<usize>().ok());
                    let value = number.and_then(|n| self.params.get(n.checked_sub(1)?))?;
                    Some(value.as_str().map_or(0, str::len))
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// Writes an expression that may only be so long.
    pub(super) fn short(&mut self, expr: &Expr, bound: Bound) -> Result<(), Refusal> {
        let Bound { what, most } = bound;
        match self.known_bytes(expr) {
            Some(bytes) if bytes > most => Err(Refusal::TooLong { what, most }),
            Some(_) => self.expr(expr),
            None => {
                if self.is_postgres() {
                    self.push(&format!("{VIEW_SCHEMA}.short("));
                } else {
                    self.push(&format!("{SQLITE_SHORT}("));
                }
                self.expr(expr)?;
                self.push(&format!(", {most})"));
                Ok(())
            }
        }
    }

    /// A call of something that takes time in proportion to a value. On PostgreSQL the result is bounded, and the clock is
    /// looked at after it; SQLite does both for every value.
    pub(super) fn fitting(
        &mut self,
        write: impl FnOnce(&mut Self) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        self.call()?;
        if !self.is_postgres() {
            return write(self);
        }
        self.push(&format!("{VIEW_SCHEMA}.fits("));
        write(self)?;
        self.push(")");
        Ok(())
    }
}
