//! Indexes of record fields on PostgreSQL: partial indexes of expressions, built `CONCURRENTLY`, which blocks no writes.

use sqlx::{AssertSqlSafe, PgConnection};

use crate::store::StoreError;
use crate::store::partitions::{Partition, partition_number, shard_numbers};
use crate::store::select::{Classes, Dialect, Keys, PostgresDialect};

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

/// Values that ANALYZE keeps at most of a field that is searched. They tell texts that one record in a thousand has from
/// rarer ones, which decides how they are found.
const MAX_SEARCH_STATISTICS: i64 = 1_000;
/// With fewer there is no histogram to speak of.
const MIN_SEARCH_STATISTICS: i64 = 10;
/// Rows that ANALYZE reads for each value that it keeps.
const ROWS_PER_VALUE: i64 = 300;
/// ANALYZE has the texts of all these rows in memory at once: few of long texts are enough.
const MAX_ANALYZED_BYTES: i64 = 64 << 20;
/// Records whose texts are measured.
const MEASURED_RECORDS: u32 = 1_000;

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
    let in_shards = !shard_numbers(&mut *conn).await?.is_empty();
    let records = Partition::of_number(number, in_shards).map_err(StoreError::from)?.records();
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
    // Citus makes no statistics of expressions.
    if key.kind == IndexKind::Search && !in_shards {
        let (name, text) = (statistics_name(id), PostgresDialect::text("record", &key.path));
        let measure = format!(
            "SELECT coalesce(avg(octet_length(text)), 0)::bigint FROM (SELECT {text} AS text FROM {records} \
             WHERE collection_id = {collection} LIMIT {MEASURED_RECORDS}) measured"
        );
        let bytes =
            sqlx::query_scalar(AssertSqlSafe(measure)).persistent(false).fetch_one(&mut *conn).await?;
        // The statistics of an index of trigrams would be as large and serve nothing.
        let sql = format!(
            "CREATE STATISTICS {name} ON ({text}) FROM {records}; \
             ALTER STATISTICS {name} SET STATISTICS {}; \
             ALTER INDEX {} ALTER COLUMN 1 SET STATISTICS 0",
            values_kept(bytes),
            key.kind.index_name(id),
        );
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *conn).await?;
    }
    // Without ANALYZE the planner has no statistics of a new expression.
    sqlx::raw_sql(AssertSqlSafe(format!("ANALYZE {records}"))).execute(&mut *conn).await?;
    Ok(())
}

/// Values to keep of texts of this average size.
fn values_kept(bytes: i64) -> i64 {
    (MAX_ANALYZED_BYTES / ROWS_PER_VALUE / bytes.max(1)).clamp(MIN_SEARCH_STATISTICS, MAX_SEARCH_STATISTICS)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_values_are_kept_of_long_texts() {
        assert_eq!([0, 150, 2_000, 1 << 20].map(values_kept), [1_000, 1_000, 111, 10]);
    }
}
