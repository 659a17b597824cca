//! Lists the types that scripts may use, in CAST and for columns of own tables.

use sqlparser::ast::DataType;

use super::{Emitter, GuardError};

/// Types on both databases. SQLite maps every type name to one of its five affinities.
const BOTH: [&str; 22] = [
    "BIGINT",
    "BOOL",
    "BOOLEAN",
    "CHAR",
    "CHARACTER VARYING",
    "DATE",
    "DECIMAL",
    "DOUBLE PRECISION",
    "FLOAT",
    "INT",
    "INTEGER",
    "JSON",
    "JSONB",
    "NUMERIC",
    "REAL",
    "SMALLINT",
    "TEXT",
    "TIME",
    "TIMESTAMP",
    "TIMESTAMP WITH TIME ZONE",
    "TIMESTAMPTZ",
    "VARCHAR",
];
const POSTGRES: [&str; 11] = [
    "BIGSERIAL",
    "FLOAT4",
    "FLOAT8",
    "INT2",
    "INT4",
    "INT8",
    "INTERVAL",
    "SERIAL",
    "TEXT[]",
    "TIMESTAMP WITHOUT TIME ZONE",
    "UUID",
];
const SQLITE: [&str; 3] = ["ANY", "BLOB", "DOUBLE"];

impl Emitter<'_> {
    /// The SQL of a type.
    pub(super) fn type_name(&self, data_type: &DataType) -> Result<String, GuardError> {
        // The text of a type may be long, but formatting it does not recurse.
        let text = data_type.to_string().to_ascii_uppercase();
        let (name, size) = match text.split_once('(') {
            Some((name, size)) => (name, Some(size)),
            None => (text.as_str(), None),
        };
        let more: &[&str] = if self.is_postgres() { &POSTGRES } else { &SQLITE };
        let is_size = |size: &str| {
            size.strip_suffix(')').is_some_and(|inner| {
                inner.len() <= 8 && inner.bytes().all(|b| b.is_ascii_digit() || b == b',' || b == b' ')
            })
        };
        if (BOTH.contains(&name) || more.contains(&name)) && size.is_none_or(is_size) {
            return Ok(text);
        }
        Err(GuardError::Type(text.chars().filter(|c| !c.is_control()).take(40).collect()))
    }
}
