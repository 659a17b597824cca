//! The tables and columns that are moved: those of the databases' own catalogs, so that no table can be forgotten.

use std::collections::{BTreeMap, BTreeSet};

use super::MoveError;
use super::value::{Column, Kind};

/// The schema of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Space {
    /// The server's tables.
    Server,
    /// The scripts' own: a schema on PostgreSQL, a file on SQLite.
    Scripts,
}

/// A table that both databases have, with the same columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    pub space: Space,
    pub name: String,
    pub columns: Vec<Column>,
}

/// Whether a database may be filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Empty,
    /// An earlier move into it was interrupted.
    Incomplete,
    Used,
}

/// The server's tables of one database: their columns in order, with the name of their type.
pub(super) type Catalog = BTreeMap<String, Vec<(String, String)>>;

/// The kind of values of a PostgreSQL type. Types that SQLite has no counterpart for are moved as their text.
pub(super) fn kind_of(postgres_type: &str) -> Kind {
    match postgres_type {
        "bool" => Kind::Bool,
        "int2" | "int4" | "int8" => Kind::Int,
        "float4" | "float8" => Kind::Float,
        "numeric" => Kind::Numeric,
        "bytea" => Kind::Bytes,
        "json" | "jsonb" => Kind::Json,
        _ => Kind::Text,
    }
}

/// Tables that are not moved: the records of the target are counted once they are there, and links as soon as there is a reason to.
pub(super) const DERIVED: [&str; 2] = ["record_counts", "link_counts"];

/// The tables of the source, each with a counterpart in the target.
///
/// # Errors
/// [`MoveError::Unknown`] names the tables and columns of the source that the target lacks.
pub(super) fn pair(
    source: &Catalog,
    target: &Catalog,
    source_is_postgres: bool,
) -> Result<Vec<Table>, MoveError> {
    let (mut tables, mut unknown) = (Vec::new(), Vec::new());
    for (name, columns) in source.iter().filter(|(name, _)| !DERIVED.contains(&name.as_str())) {
        let Some(counterpart) = target.get(name) else {
            unknown.push(name.clone());
            continue;
        };
        let known: BTreeSet<&str> = counterpart.iter().map(|(column, _)| column.as_str()).collect();
        let missing = columns.iter().filter(|(column, _)| !known.contains(column.as_str()));
        unknown.extend(missing.map(|(column, _)| format!("{name}.{column}")));
        let present: BTreeSet<&str> = columns.iter().map(|(column, _)| column.as_str()).collect();
        let typed = if source_is_postgres { columns } else { counterpart };
        let columns = typed
            .iter()
            .filter(|(column, _)| present.contains(column.as_str()))
            .map(|(column, kind)| Column { name: column.clone(), kind: kind_of(kind) })
            .collect();
        tables.push(Table { space: Space::Server, name: name.clone(), columns });
    }
    if unknown.is_empty() { Ok(tables) } else { Err(MoveError::Unknown(unknown.join(", "))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalog(tables: &[(&str, &[(&str, &str)])]) -> Catalog {
        let columns = |columns: &[(&str, &str)]| {
            columns.iter().map(|(name, kind)| ((*name).to_owned(), (*kind).to_owned())).collect()
        };
        tables.iter().map(|(name, list)| ((*name).to_owned(), columns(list))).collect()
    }

    #[test]
    fn postgres_types_decide_in_both_directions() {
        let sqlite = catalog(&[("t", &[("id", "INTEGER"), ("record", "TEXT"), ("is", "INTEGER")])]);
        let postgres =
            catalog(&[("t", &[("is", "bool"), ("id", "int8"), ("record", "jsonb")]), ("empty", &[])]);
        let there = pair(&sqlite, &postgres, false).unwrap();
        let kinds = |tables: &[Table]| -> Vec<(String, Kind)> {
            tables[0].columns.iter().map(|column| (column.name.clone(), column.kind)).collect()
        };
        let expected =
            [("is".to_owned(), Kind::Bool), ("id".to_owned(), Kind::Int), ("record".to_owned(), Kind::Json)];
        assert_eq!(kinds(&there), expected);
        let only_t = catalog(&[("t", &[("is", "bool"), ("id", "int8"), ("record", "jsonb")])]);
        assert_eq!(kinds(&pair(&only_t, &sqlite, true).unwrap()), expected);
        let error = pair(&postgres, &sqlite, true).unwrap_err().to_string();
        assert!(error.contains("empty"), "{error}");
        let wider = catalog(&[("t", &[("id", "INTEGER"), ("new", "TEXT")])]);
        let error = pair(&wider, &postgres, false).unwrap_err().to_string();
        assert!(error.contains("t.new"), "{error}");
    }
}
