//! Limits the length of arguments, for functions and operators whose time grows with two arguments or whose result is
//! larger than their arguments. Neither database checks the deadline during a call.
//!
//! Literals and parameters are checked here. For other expressions a function checks the value in the database: on
//! PostgreSQL `short` in the schema of the views, on SQLite [`SQLITE_LENGTH_CHECK`].

use sqlparser::ast::{Expr, Value};

use super::super::{SQLITE_LENGTH_CHECK, VIEW_SCHEMA};
use super::{Emitter, GuardError};

/// Characters that `trim` removes: more than there are kinds of whitespace.
pub(super) const TRIM_SET: Bound = Bound { what: "the second argument of trim", max_bytes: 32 };
/// A text to find in another one: as long as a sentence.
pub(super) const NEEDLE: Bound = Bound { what: "a text to look for", max_bytes: 256 };
/// Characters that `translate` replaces: enough for the letters of a writing system.
pub(super) const ALPHABET: Bound = Bound { what: "the second argument of translate", max_bytes: 128 };
/// A pattern of LIKE or GLOB, or a regular expression. On SQLite a limit of the connection enforces it for LIKE and
/// GLOB.
pub(super) const PATTERN: Bound = Bound { what: "a pattern", max_bytes: 250 };
/// JSON to find in another value, or to merge into one.
pub(super) const PART: Bound = Bound { what: "JSON to look for or to merge", max_bytes: 1 << 10 };
/// A separator of `array_to_string`.
pub(super) const SEPARATOR: Bound = Bound { what: "a separator", max_bytes: 256 };

/// The maximum length of an argument.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    what: &'static str,
    max_bytes: usize,
}

impl Emitter<'_> {
    /// The length in bytes of a literal or text parameter, 0 for other parameters; `None` for other expressions.
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

    /// Writes an argument with a limited length.
    pub(super) fn bounded_arg(&mut self, expr: &Expr, bound: Bound) -> Result<(), GuardError> {
        let Bound { what, max_bytes } = bound;
        match self.known_bytes(expr) {
            Some(bytes) if bytes > max_bytes => Err(GuardError::TooLong { what, max_bytes }),
            Some(_) => self.expr(expr),
            None => {
                if self.is_postgres() {
                    self.push(&format!("{VIEW_SCHEMA}.short("));
                } else {
                    self.push(&format!("{SQLITE_LENGTH_CHECK}("));
                }
                self.expr(expr)?;
                self.push(&format!(", {max_bytes})"));
                Ok(())
            }
        }
    }

    /// Writes and counts an operation whose time grows with the size of a value. On PostgreSQL it is wrapped in `fits`,
    /// which limits the size of the result and checks the deadline; SQLite does both for every value.
    pub(super) fn bounded_result(
        &mut self,
        write: impl FnOnce(&mut Self) -> Result<(), GuardError>,
    ) -> Result<(), GuardError> {
        self.count_call()?;
        if !self.is_postgres() {
            return write(self);
        }
        self.push(&format!("{VIEW_SCHEMA}.fits("));
        write(self)?;
        self.push(")");
        Ok(())
    }
}
