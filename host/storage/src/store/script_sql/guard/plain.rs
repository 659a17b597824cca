//! Statements without options. A part of a script's statement may have only the clauses that the guard names: it is
//! rebuilt from them and a plain statement, so that nothing else is left in it.

use sqlparser::ast::{CreateIndex, CreateTable, Delete, Insert, Query, Select, SetExpr, Statement, Update};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;

use super::{GuardError, unsupported};

/// Moves the named fields of a part of the statement into a plain one, which replaces it. Refuses the statement if the
/// part has anything else.
macro_rules! only {
    ($what:expr, $part:expr, $plain:expr, $($field:ident),+) => {{
        let mut allowed = $plain;
        $(std::mem::swap(&mut allowed.$field, &mut $part.$field);)+
        refuse_if($what, *$part != $plain)?;
        *$part = allowed;
    }};
}
pub(super) use only;

macro_rules! plain {
    ($($name:ident: $type:ty = $sql:literal, $pattern:pat => $part:expr;)+) => {
        $(pub(super) fn $name() -> Result<$type, GuardError> {
            match Parser::parse_sql(&PostgreSqlDialect {}, $sql).ok().and_then(|mut parsed| parsed.pop()) {
                Some($pattern) => Ok($part),
                _ => unsupported($sql),
            }
        })+
    };
}

plain! {
    query: Query = "SELECT 1", Statement::Query(query) => *query;
    insert: Insert = "INSERT INTO t VALUES (1)", Statement::Insert(insert) => insert;
    update: Update = "UPDATE t SET a = 1", Statement::Update(update) => update;
    delete: Delete = "DELETE FROM t", Statement::Delete(delete) => delete;
    create_table: CreateTable = "CREATE TABLE t (a int)", Statement::CreateTable(table) => table;
    create_index: CreateIndex = "CREATE INDEX i ON t (a)", Statement::CreateIndex(index) => index;
}

pub(super) fn select() -> Result<Select, GuardError> {
    match *query()?.body {
        SetExpr::Select(select) => Ok(*select),
        _ => unsupported("SELECT"),
    }
}
