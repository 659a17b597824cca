//! Asks the database for the plan of a statement. Tests use it to check which index a read uses.

use sqlx::Row;

use super::{Sql, bound};
use crate::store::{Db, StoreError};

/// The plan of a statement, with one line per step.
pub(in crate::store) async fn plan(db: &Db, sql: Sql) -> Result<String, StoreError> {
    macro_rules! lines {
        ($prefix:literal, $pool:expr, $column:literal) => {{
            let rows = bound!(sql.with_prefix($prefix)).fetch_all($pool.reads()).await?;
            rows.iter().map(|row| row.try_get($column)).collect::<Result<Vec<String>, _>>()?
        }};
    }
    let lines = match db {
        Db::Sqlite(db) => lines!("EXPLAIN QUERY PLAN", db.read_pool, 3),
        Db::Postgres(db) => lines!("EXPLAIN", db.read_pools.hot, 0),
    };
    Ok(lines.join("\n"))
}
