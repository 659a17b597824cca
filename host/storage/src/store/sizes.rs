//! Reads how large the database and its tables are.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Db, StoreError, shards};

/// Tables that are listed, the largest first.
const MAX_TABLES: i64 = 50;

/// Bytes up to which SQLite's tables are measured: that reads every page.
const MAX_MEASURED_BYTES: i64 = 256 << 20;

#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow, Serialize, JsonSchema)]
pub struct TableSize {
    pub name: String,
    /// An estimate, if the database has one.
    pub rows: Option<i64>,
    /// Without indexes, if it is known.
    pub bytes: Option<i64>,
    pub index_bytes: Option<i64>,
}

/// Bytes of the database.
pub async fn total(db: &Db) -> Result<i64, StoreError> {
    let sqlite = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()";
    let postgres = "SELECT pg_database_size(current_database())";
    Ok(match db {
        Db::Sqlite(db) => sqlx::query_scalar(sqlite).fetch_one(&db.reader).await?,
        Db::Postgres(db) => {
            let sql = if db.nodes.is_some() { shards::sizes::TOTAL } else { postgres };
            sqlx::query_scalar(sql).fetch_one(db.reader()).await?
        }
    })
}

/// Bytes of the database, and its largest tables.
pub async fn read(db: &Db) -> Result<(i64, Vec<TableSize>), StoreError> {
    let size = total(db).await?;
    match db {
        Db::Sqlite(db) => {
            let sql = if size <= MAX_MEASURED_BYTES { SQLITE_MEASURED } else { SQLITE };
            let tables = match sqlx::query_as(sql).bind(MAX_TABLES).fetch_all(&db.reader).await {
                Ok(tables) => tables,
                // A library without `dbstat`.
                Err(_) => sqlx::query_as(SQLITE).bind(MAX_TABLES).fetch_all(&db.reader).await?,
            };
            Ok((size, tables))
        }
        Db::Postgres(db) => {
            let sql = if db.nodes.is_some() { shards::sizes::TABLES } else { POSTGRES };
            let tables = sqlx::query_as(sql).bind(MAX_TABLES).fetch_all(db.reader()).await?;
            Ok((size, tables))
        }
    }
}

const SQLITE_MEASURED: &str = "SELECT t.tbl_name AS name, NULL AS rows, \
        sum(CASE WHEN t.type = 'table' THEN s.pgsize END) AS bytes, \
        coalesce(sum(CASE WHEN t.type = 'index' THEN s.pgsize END), 0) AS index_bytes \
    FROM dbstat('main', 1) s JOIN sqlite_schema t ON t.name = s.name AND t.tbl_name NOT LIKE 'sqlite_%' \
    GROUP BY t.tbl_name ORDER BY sum(s.pgsize) DESC, t.tbl_name LIMIT $1";

const SQLITE: &str = "SELECT name, NULL AS rows, NULL AS bytes, NULL AS index_bytes FROM sqlite_schema \
    WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name LIMIT $1";

/// The partitions of a table are added up.
const POSTGRES: &str = "SELECT t.relname::text AS name, (sum(p.reltuples) FILTER (WHERE p.reltuples >= 0))::bigint AS rows, \
        sum(pg_table_size(p.oid))::bigint AS bytes, sum(pg_indexes_size(p.oid))::bigint AS index_bytes \
    FROM pg_class p JOIN pg_class t ON t.oid = coalesce(pg_partition_root(p.oid), p.oid) \
    WHERE p.relkind = 'r' AND p.relnamespace = current_schema()::regnamespace \
    GROUP BY t.relname ORDER BY sum(pg_total_relation_size(p.oid)) DESC, t.relname LIMIT $1";
