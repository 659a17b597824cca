//! Removes the repos of ended jobs. The jobs themselves stay.

use sqlx::AssertSqlSafe;

use crate::clock::Timestamp;
use crate::store::{Db, StoreError, on};

/// Rows removed in one statement: few enough not to delay other writers.
const ROWS_PER_STEP: i64 = 1_000;

/// The tables with a job's details, and the second column of each primary key.
const TABLES: [(&str, &str); 3] =
    [("backfill_repos", "did"), ("backfill_pages", "did"), ("backfill_discovery", "collection")];

/// Removes the repos of the ended job `id`, or with `None` of all ended jobs. Jobs that have not ended keep theirs.
pub async fn delete_details(db: &Db, id: Option<&str>) -> Result<(), StoreError> {
    delete(db, id, Timestamp(i64::MAX)).await
}

/// Removes the repos of jobs that ended before a time.
pub async fn delete_details_older_than(db: &Db, before: Timestamp) -> Result<(), StoreError> {
    delete(db, None, before).await
}

async fn delete(db: &Db, id: Option<&str>, before: Timestamp) -> Result<(), StoreError> {
    for (table, key) in TABLES {
        let sql = format!(
            "DELETE FROM {table} WHERE (job, {key}) IN (SELECT job, {key} FROM {table} WHERE job IN \
                 (SELECT seq FROM backfill_jobs WHERE completed_at < $1 AND (CAST($2 AS TEXT) IS NULL OR id = $2)) \
             LIMIT {ROWS_PER_STEP})"
        );
        loop {
            let removed = on!(db, writer, |pool| {
                let query = sqlx::query(AssertSqlSafe(sql.clone())).bind(before).bind(id);
                query.execute(pool).await?.rows_affected()
            });
            if removed == 0 {
                break;
            }
        }
    }
    Ok(())
}
