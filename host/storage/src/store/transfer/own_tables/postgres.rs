//! Reads the definitions of the scripts' own tables on PostgreSQL.

use super::{Index, OwnTable, left_behind};
use crate::store::script_sql::OWN_SCHEMA;
use crate::store::transfer::MoveError;
use crate::store::transfer::catalog::{Space, Table, kind_of};
use crate::store::transfer::postgres::Postgres;
use crate::store::transfer::value::{Column, Kind};

/// $1: the schema.
const TABLES: &str = "SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
     WHERE n.nspname = $1 AND c.relkind = 'r' ORDER BY 1";

/// Name, type, NOT NULL, default, whether a sequence gives the values. $1: the table.
const COLUMNS: &str = "SELECT a.attname::text, t.typname::text, a.attnotnull, \
         CASE WHEN a.attgenerated = '' THEN pg_get_expr(d.adbin, d.adrelid) END, \
         pg_get_serial_sequence($1, a.attname) IS NOT NULL \
     FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid \
         LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum \
     WHERE a.attrelid = $1::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum";

/// Kind, columns. $1: the table.
const CONSTRAINTS: &str = "SELECT k.contype::text, coalesce((SELECT array_agg(a.attname::text ORDER BY c.n) \
         FROM unnest(k.conkey) WITH ORDINALITY c (attnum, n) \
             JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = c.attnum), '{}') \
     FROM pg_constraint k WHERE k.conrelid = $1::regclass AND k.contype <> 'n' ORDER BY k.conname";

/// Name, unique, whether it has nothing but columns, columns, whether they descend. $1: the table.
const INDEXES: &str = "SELECT c.relname::text, i.indisunique, i.indpred IS NULL AND i.indexprs IS NULL, \
         coalesce((SELECT array_agg(a.attname::text ORDER BY k.n) \
             FROM unnest(i.indkey::int2[]) WITH ORDINALITY k (attnum, n) \
             JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum), '{}'), \
         (SELECT array_agg((o.flags & 1) = 1 ORDER BY o.n) \
             FROM unnest(i.indoption::int2[]) WITH ORDINALITY o (flags, n)) \
     FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
     WHERE i.indrelid = $1::regclass \
         AND NOT EXISTS (SELECT 1 FROM pg_constraint k WHERE k.conindid = i.indexrelid AND k.conrelid = i.indrelid) \
     ORDER BY 1";

type ColumnRow = (String, String, bool, Option<String>, bool);
type IndexRow = (String, bool, bool, Vec<String>, Vec<bool>);

pub(super) async fn read(postgres: &mut Postgres) -> Result<(Vec<OwnTable>, Vec<String>), MoveError> {
    let (mut tables, mut notices) = (Vec::new(), Vec::new());
    let names: Vec<String> =
        sqlx::query_scalar(TABLES).bind(OWN_SCHEMA).fetch_all(&mut postgres.connection).await?;
    for name in names {
        tables.push(read_table(postgres, name, &mut notices).await?);
    }
    Ok((tables, notices))
}

async fn read_table(
    postgres: &mut Postgres,
    name: String,
    notices: &mut Vec<String>,
) -> Result<OwnTable, MoveError> {
    let regclass = format!("{OWN_SCHEMA}.{}", super::quoted(&name));
    let connection = &mut postgres.connection;
    let rows: Vec<ColumnRow> = sqlx::query_as(COLUMNS).bind(&regclass).fetch_all(&mut *connection).await?;
    let columns: Vec<Column> =
        rows.iter().map(|row| Column { name: row.0.clone(), kind: kind_of(&row.1) }).collect();
    for column in columns.iter().filter(|column| column.kind == Kind::Numeric) {
        let text = format!("the precision of the column {} beyond 15 digits is", column.name);
        notices.push(left_behind(&name, &text));
    }
    let (mut primary_key, mut unique) = (Vec::new(), Vec::new());
    let constraints: Vec<(String, Vec<String>)> =
        sqlx::query_as(CONSTRAINTS).bind(&regclass).fetch_all(&mut *connection).await?;
    for (kind, columns) in constraints {
        match kind.as_str() {
            "p" => primary_key = columns,
            "u" => unique.push(columns),
            "f" => notices.push(left_behind(&name, "a foreign key is")),
            _ => notices.push(left_behind(&name, "a CHECK is")),
        }
    }
    let mut indexes = Vec::new();
    let found: Vec<IndexRow> = sqlx::query_as(INDEXES).bind(&regclass).fetch_all(&mut *connection).await?;
    for (index, is_unique, has_columns_only, columns, descending) in found {
        if has_columns_only {
            let columns = columns.into_iter().zip(descending).collect();
            indexes.push(Index { name: index, is_unique, columns });
        } else {
            notices.push(left_behind(&name, &format!("the index {index} is")));
        }
    }
    // SQLite generates values for a primary key of one integer, and for nothing else.
    let generates = |row: &ColumnRow| row.4 && primary_key == [row.0.as_str()];
    for row in rows.iter().filter(|row| row.4 && primary_key != [row.0.as_str()]) {
        notices.push(left_behind(&name, &format!("the sequence of the column {} is", row.0)));
    }
    Ok(OwnTable {
        table: Table { space: Space::Scripts, name, columns },
        not_null: rows.iter().map(|row| row.2).collect(),
        defaults: rows.iter().map(|row| if row.4 { None } else { row.3.clone() }).collect(),
        is_generated: rows.iter().any(generates),
        primary_key,
        unique,
        indexes,
    })
}
