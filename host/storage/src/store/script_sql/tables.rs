//! Lists the tables that a script's SQL can read, for editors.

use std::collections::BTreeMap;

use super::guard::{self, OWN_PREFIX};
use super::{OWN_COLUMNS, OWN_SCHEMA, ScriptSqlError};
use crate::store::Db;
use belvedere_web::fair_share::Tenant;

/// A view of the index, or an own table of the scripts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadableTable {
    pub name: String,
    /// In the order of the table.
    pub columns: Vec<String>,
    /// Whether it belongs to the scripts.
    pub is_own: bool,
}

/// All of them: the views, then the own tables, each by name.
///
/// # Errors
/// When the database fails, or has no place for another read of the tenant.
pub async fn tables(db: &Db, tenant: &Tenant) -> Result<Vec<ReadableTable>, ScriptSqlError> {
    let _permit = db.read_permit(tenant).await?;
    let mut own = BTreeMap::<String, Vec<String>>::new();
    for (table, column) in own_columns(db).await? {
        if table.starts_with(OWN_PREFIX) {
            own.entry(table).or_default().push(column);
        }
    }
    let views =
        guard::views().map(|(name, columns)| ReadableTable { name: name.to_owned(), columns, is_own: false });
    let own = own.into_iter().map(|(name, columns)| ReadableTable { name, columns, is_own: true });
    Ok(views.chain(own).collect())
}

/// The tables and columns of the own tables, those of each table in its order.
async fn own_columns(db: &Db) -> Result<Vec<(String, String)>, ScriptSqlError> {
    match db {
        Db::Sqlite(db) => {
            let sql = format!("SELECT table_name, column_name FROM temp.{OWN_COLUMNS}");
            let mut pooled = db.script_sql.cheap.get().await?;
            let found = sqlx::query_as(sqlx::AssertSqlSafe(sql)).fetch_all(&mut *pooled).await?;
            pooled.keep();
            Ok(found)
        }
        // The catalog is readable without the role of the scripts, which an operator may not have set up.
        Db::Postgres(db) => {
            let sql = "SELECT c.relname::text, a.attname::text FROM pg_catalog.pg_class c \
                       JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
                       JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped \
                       WHERE n.nspname = $1 AND c.relkind = 'r' ORDER BY c.relname, a.attnum";
            Ok(sqlx::query_as(sql).bind(OWN_SCHEMA).fetch_all(db.reader()).await?)
        }
    }
}
