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
        IndexKind::Sort => format!("{class}, {num}, {txt}"),
        IndexKind::Search => PostgresDialect::folded(&PostgresDialect::text("record", &key.path)),
    }
}

/// Values that ANALYZE keeps of a field that is searched. They tell texts that one record in a thousand has from rarer ones,
/// which decides how they are found.
const SEARCH_STATISTICS: u32 = 1_000;

/// The statistics of the texts of a search. Those of its indexes don't count, because the planner does not use statistics of
/// partial indexes.
fn statistics_name(id: i64) -> String {
    format!("field_statistics_{id}")
}

/// The index that has the texts of a search in order, beside the one of their trigrams.
fn texts_name(id: i64) -> String {
    format!("field_texts_{id}")
}

pub(super) async fn build(conn: &mut PgConnection, key: &IndexKey, id: i64) -> Result<(), BuildError> {
    let (name, collection) = (key.kind.index_name(id), key.collection_id);
    let ordered = format!("({}, id)", columns(key));
    let indexes = match key.kind {
        IndexKind::Filter | IndexKind::Sort => vec![(name, ordered)],
        IndexKind::Search => {
            // A standard contrib extension. Since PostgreSQL 13 a superuser is not needed.
            sqlx::raw_sql("CREATE EXTENSION IF NOT EXISTS pg_trgm").execute(&mut *conn).await?;
            let trigrams = format!("USING gin ({} gin_trgm_ops)", PostgresDialect::text("record", &key.path));
            vec![(texts_name(id), ordered), (name, trigrams)]
        }
    };
    // Built on one partition: the table itself can't have an index built concurrently.
    let number: i32 = sqlx::query_scalar(concat!("SELECT ", partition_number!("$1")))
        .bind(collection)
        .fetch_one(&mut *conn)
        .await?;
    let records = Partition::of_number(number)?.records();
    for (name, shape) in indexes {
        let sql = format!(
            "CREATE INDEX CONCURRENTLY {name} ON {records} {shape} WHERE collection_id = {collection}"
        );
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *conn).await?;
        let valid: Option<bool> =
            sqlx::query_scalar("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass($1)")
                .bind(&name)
                .fetch_optional(&mut *conn)
                .await?;
        if valid != Some(true) {
            return Err(BuildError::Invalid);
        }
    }
    if key.kind == IndexKind::Search {
        let (name, text) = (statistics_name(id), PostgresDialect::text("record", &key.path));
        let sql = format!(
            "CREATE STATISTICS {name} ON ({text}) FROM {records}; \
             ALTER STATISTICS {name} SET STATISTICS {SEARCH_STATISTICS}"
        );
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *conn).await?;
    }
    // Without ANALYZE the planner has no statistics of a new expression.
    sqlx::raw_sql(AssertSqlSafe(format!("ANALYZE {records}"))).execute(&mut *conn).await?;
    Ok(())
}

pub(super) async fn drop_index(conn: &mut PgConnection, kind: IndexKind, id: i64) -> Result<(), StoreError> {
    let texts = (kind == IndexKind::Search).then(|| texts_name(id));
    for name in std::iter::once(kind.index_name(id)).chain(texts) {
        let sql = format!("DROP INDEX CONCURRENTLY IF EXISTS {name}");
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *conn).await?;
    }
    if kind == IndexKind::Search {
        let sql = format!("DROP STATISTICS IF EXISTS {}", statistics_name(id));
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(conn).await?;
    }
    Ok(())
}
