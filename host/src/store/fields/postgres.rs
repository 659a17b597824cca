//! Indexes of record fields on PostgreSQL: partial indexes of expressions, built `CONCURRENTLY`, which blocks no writes.

use sqlx::{AssertSqlSafe, PgConnection};

use crate::store::StoreError;
use crate::store::partitions::{Partition, partition_number};
use crate::store::query::{Classes, Dialect, Keys, PostgresDialect};

use super::error::BuildError;
use super::{IndexKey, IndexKind};

/// The expressions of an index for filters or sorts.
fn columns(key: &IndexKey) -> String {
    let Keys { class, num, txt } = PostgresDialect::keys("record", &key.path, Classes::INDEXED);
    match key.kind {
        IndexKind::Filter => format!("{class}, {num}, {txt}, indexed_at"),
        IndexKind::Sort | IndexKind::Search => format!("{class}, {num}, {txt}"),
    }
}

pub(super) async fn build(conn: &mut PgConnection, key: &IndexKey, id: i64) -> Result<(), BuildError> {
    let (name, collection) = (key.kind.index_name(id), key.collection_id);
    let shape = match key.kind {
        IndexKind::Filter | IndexKind::Sort => format!("({}, id)", columns(key)),
        IndexKind::Search => {
            // A standard contrib extension. Since PostgreSQL 13 a superuser is not needed.
            sqlx::raw_sql("CREATE EXTENSION IF NOT EXISTS pg_trgm").execute(&mut *conn).await?;
            format!("USING gin ({} gin_trgm_ops)", PostgresDialect::text("record", &key.path))
        }
    };
    // Built on one partition: the table itself can't have an index built concurrently.
    let number: i32 = sqlx::query_scalar(concat!("SELECT ", partition_number!("$1")))
        .bind(collection)
        .fetch_one(&mut *conn)
        .await?;
    let records = Partition::of_number(number)?.records();
    let sql =
        format!("CREATE INDEX CONCURRENTLY {name} ON {records} {shape} WHERE collection_id = {collection}");
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *conn).await?;
    let valid: Option<bool> =
        sqlx::query_scalar("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass($1)")
            .bind(&name)
            .fetch_optional(&mut *conn)
            .await?;
    if valid != Some(true) {
        return Err(BuildError::Invalid);
    }
    // Without ANALYZE the planner has no statistics of the index's expressions.
    sqlx::raw_sql(AssertSqlSafe(format!("ANALYZE {records}"))).execute(&mut *conn).await?;
    Ok(())
}

pub(super) async fn drop_index(conn: &mut PgConnection, kind: IndexKind, id: i64) -> Result<(), StoreError> {
    let sql = format!("DROP INDEX CONCURRENTLY IF EXISTS {}", kind.index_name(id));
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(conn).await?;
    Ok(())
}
