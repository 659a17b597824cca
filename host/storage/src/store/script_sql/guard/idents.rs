//! Single names: every name must be plain ASCII.

use sqlparser::ast::{Ident, ObjectName, ObjectNamePart};

use super::GuardError;
use crate::store::Backend;

/// Longest name, in bytes. PostgreSQL truncates longer ones, so they could match a different name. Leaves space for a
/// prefix.
pub(super) const MAX_NAME: usize = 50;

/// A text of the statement for an error, shortened.
pub(super) fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(80).collect()
}

/// A name without a qualifier.
pub(super) fn single(name: &ObjectName) -> Result<&Ident, GuardError> {
    match name.0.as_slice() {
        [ObjectNamePart::Identifier(ident)] => Ok(ident),
        _ => Err(GuardError::Name(shown(&name.to_string()))),
    }
}

/// The text of a valid name, in lower case where PostgreSQL would fold it.
pub(super) fn checked_name(backend: Backend, name: &Ident) -> Result<String, GuardError> {
    let text = &name.value;
    let fits = (1..=MAX_NAME).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && !text.starts_with(|c: char| c.is_ascii_digit());
    if !fits {
        return Err(GuardError::Name(shown(text)));
    }
    let folds = backend == Backend::Postgres && name.quote_style.is_none();
    Ok(if folds { text.to_ascii_lowercase() } else { text.clone() })
}

/// Whether two names are the same for the database. On PostgreSQL unquoted names are already in lower case.
pub(super) fn same_name(backend: Backend, a: &str, b: &str) -> bool {
    if backend == Backend::Postgres { a == b } else { a.eq_ignore_ascii_case(b) }
}
