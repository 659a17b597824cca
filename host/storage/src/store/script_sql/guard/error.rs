//! Reasons why the guard refuses a statement.

use super::limits::MAX_CALLS;

/// The reason why a statement was refused. The texts are for the script's author.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GuardError {
    #[error("{0}")]
    Syntax(String),
    #[error("the SQL contains no statement")]
    Empty,
    #[error("only one statement can be run at a time")]
    Several,
    #[error("the statement is too long or too deeply nested")]
    TooLarge,
    #[error(
        "table {0} can't be used: there are records, record_refs, accounts, labels, lexicons and your own, named script_…"
    )]
    Table(String),
    #[error("table {0} can't be changed: only your own can, named script_…")]
    NotYours(String),
    #[error("the name {0} can't be used: names have letters, digits and _, and are not those of tables")]
    Name(String),
    #[error("there is no column {0}")]
    Column(String),
    #[error("column {0} is in several tables: put the table's name before it")]
    Ambiguous(String),
    /// An own table that does not exist.
    #[error("table {0} does not exist")]
    Missing(String),
    #[error("function {0} can't be used")]
    Function(String),
    #[error("{what} is too long here: {max_bytes} bytes at most")]
    TooLong { what: &'static str, max_bytes: usize },
    #[error("the statement is too complex: {MAX_CALLS} functions, casts and operators on texts at most")]
    TooManyCalls,
    #[error("type {0} can't be used")]
    Type(String),
    #[error("{0} can't be used")]
    Unsupported(String),
    #[error("a parameter must be text, a number, a boolean or json.null")]
    Parameter,
    #[error("the statement has {has} parameters, but {given} were given")]
    Parameters { has: usize, given: usize },
}

impl GuardError {
    /// Whether the statement uses something forbidden, rather than being wrong.
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::Table(_) | Self::NotYours(_) | Self::Function(_))
    }
}
