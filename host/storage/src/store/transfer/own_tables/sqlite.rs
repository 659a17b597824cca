//! Reads the definitions of the scripts' own tables on SQLite.

use sqlx::AssertSqlSafe;

use super::{Index, OwnTable, left_behind};
use crate::store::script_sql::role::quoted;
use crate::store::transfer::MoveError;
use crate::store::transfer::catalog::{Space, Table};
use crate::store::transfer::sqlite::Sqlite;
use crate::store::transfer::value::{Column, Kind};

/// Name, declared type, NOT NULL, default, place in the primary key.
type ColumnRow = (String, String, bool, Option<String>, i64);

pub(super) async fn read(sqlite: &mut Sqlite) -> Result<(Vec<OwnTable>, Vec<String>), MoveError> {
    let (mut tables, mut notices) = (Vec::new(), Vec::new());
    for name in sqlite.tables(Space::Scripts).await? {
        tables.push(read_table(sqlite, name, &mut notices).await?);
    }
    Ok((tables, notices))
}

async fn read_table(
    sqlite: &mut Sqlite,
    name: String,
    notices: &mut Vec<String>,
) -> Result<OwnTable, MoveError> {
    let sql = "SELECT name, type, \"notnull\", dflt_value, pk FROM pragma_table_xinfo($1, 'scripts') \
               WHERE hidden = 0 ORDER BY cid";
    let rows: Vec<ColumnRow> = sqlx::query_as(sql).bind(&name).fetch_all(&mut sqlite.connection).await?;
    let mut columns = Vec::with_capacity(rows.len());
    for (column, declared, ..) in &rows {
        let kind = kind(sqlite, &name, column, declared, notices).await?;
        columns.push(Column { name: column.clone(), kind });
    }
    let mut key: Vec<_> = rows.iter().filter(|row| row.4 > 0).collect();
    key.sort_by_key(|row| row.4);
    // Such a column is the row's number, which SQLite chooses if none is given.
    let is_generated = matches!(key.as_slice(), [(_, kind, ..)] if kind.eq_ignore_ascii_case("integer"));
    let primary_key = key.into_iter().map(|row| row.0.clone()).collect();
    let definition: String =
        sqlx::query_scalar("SELECT upper(sql) FROM scripts.sqlite_schema WHERE type = 'table' AND name = $1")
            .bind(&name)
            .fetch_one(&mut sqlite.connection)
            .await?;
    for (word, what) in
        [("CHECK", "a CHECK is"), ("REFERENCES", "a foreign key is"), ("COLLATE", "a collation is")]
    {
        if definition.contains(word) {
            notices.push(left_behind(&name, what));
        }
    }
    let (unique, indexes) = read_indexes(sqlite, &name, notices).await?;
    Ok(OwnTable {
        table: Table { space: Space::Scripts, name, columns },
        not_null: rows.iter().map(|row| row.2).collect(),
        defaults: rows.into_iter().map(|row| row.3).collect(),
        primary_key,
        is_generated,
        unique,
        indexes,
    })
}

/// The kind of the column's values: its declared type, unless a value is of another one. SQLite checks types in STRICT
/// tables only.
async fn kind(
    sqlite: &mut Sqlite,
    table: &str,
    column: &str,
    declared: &str,
    notices: &mut Vec<String>,
) -> Result<Kind, MoveError> {
    let (name, table_name) = (quoted(column), quoted(table));
    let sql = format!(
        "SELECT DISTINCT typeof({name}) || CASE WHEN {name} IN (0, 1) THEN ' bit' ELSE '' END \
         FROM scripts.{table_name} WHERE {name} IS NOT NULL"
    );
    let stored: Vec<String> =
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(&mut sqlite.connection).await?;
    let declared = declared_kind(declared);
    let fits = |kind| {
        stored.iter().all(|stored| {
            let (storage, is_bit) = (stored.split(' ').next().unwrap_or_default(), stored.ends_with(" bit"));
            match kind {
                Kind::Bool => storage == "integer" && is_bit,
                Kind::Int => storage == "integer",
                Kind::Float | Kind::Numeric => storage == "integer" || storage == "real",
                Kind::Bytes => storage == "blob" || storage == "text",
                // Texts lose their quotes in a column that is declared as JSON, if they look like numbers.
                Kind::Text | Kind::Json => storage != "blob",
            }
        })
    };
    let is_json = async |sqlite: &mut Sqlite| {
        let sql = format!(
            "SELECT NOT EXISTS (SELECT 1 FROM scripts.{table_name} \
             WHERE {name} IS NOT NULL AND NOT json_valid({name}))"
        );
        sqlx::query_scalar::<_, bool>(AssertSqlSafe(sql)).fetch_one(&mut sqlite.connection).await
    };
    let found = match declared {
        Kind::Json if fits(Kind::Json) && is_json(sqlite).await? => return Ok(Kind::Json),
        Kind::Json => Kind::Text,
        // A declared text is text whatever looks like a number.
        kind if fits(kind) && (kind != Kind::Text || stored.iter().all(|stored| stored == "text")) => {
            return Ok(kind);
        }
        _ => Kind::Text,
    };
    if !fits(found) {
        return Err(MoveError::Mixed { table: table.to_owned(), column: column.to_owned() });
    }
    notices.push(format!(
        "the scripts' table {table}: values of the column {column} are not of its declared type; it becomes text"
    ));
    Ok(found)
}

/// SQLite's rules of affinity, and the names that scripts use beyond them.
fn declared_kind(declared: &str) -> Kind {
    let declared = declared.to_ascii_uppercase();
    let has = |words: &[&str]| words.iter().any(|word| declared.contains(word));
    if has(&["BOOL"]) {
        Kind::Bool
    } else if has(&["JSON"]) {
        Kind::Json
    } else if has(&["INT"]) {
        Kind::Int
    } else if has(&["CHAR", "CLOB", "TEXT"]) {
        Kind::Text
    } else if has(&["BLOB", "BYTEA"]) {
        Kind::Bytes
    } else if has(&["REAL", "FLOA", "DOUB"]) {
        Kind::Float
    } else if has(&["NUM", "DEC"]) {
        Kind::Numeric
    } else {
        Kind::Text
    }
}

/// The unique constraints, and the indexes.
async fn read_indexes(
    sqlite: &mut Sqlite,
    table: &str,
    notices: &mut Vec<String>,
) -> Result<(Vec<Vec<String>>, Vec<Index>), MoveError> {
    let sql = "SELECT name, \"unique\", origin, partial FROM pragma_index_list($1, 'scripts') ORDER BY name";
    let rows: Vec<(String, bool, String, bool)> =
        sqlx::query_as(sql).bind(table).fetch_all(&mut sqlite.connection).await?;
    let (mut unique, mut indexes) = (Vec::new(), Vec::new());
    for (name, is_unique, origin, is_partial) in rows {
        let sql = "SELECT name, \"desc\" FROM pragma_index_xinfo($1, 'scripts') WHERE key = 1 ORDER BY seqno";
        let columns: Vec<(Option<String>, bool)> =
            sqlx::query_as(sql).bind(&name).fetch_all(&mut sqlite.connection).await?;
        let columns: Option<Vec<(String, bool)>> =
            columns.into_iter().map(|(column, is_descending)| Some((column?, is_descending))).collect();
        match (origin.as_str(), columns) {
            ("pk", _) => {}
            ("u", Some(columns)) => unique.push(columns.into_iter().map(|(column, _)| column).collect()),
            ("c", Some(columns)) if !is_partial => indexes.push(Index { name, is_unique, columns }),
            _ => notices.push(left_behind(table, &format!("the index {name} is"))),
        }
    }
    Ok((unique, indexes))
}
