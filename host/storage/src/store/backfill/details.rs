//! Removes the repos of ended jobs. The jobs themselves stay.

use sqlx::AssertSqlSafe;

use crate::store::{Db, StoreError, on};
use belvedere_base::clock::Timestamp;

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
    let jobs =
        "SELECT seq FROM backfill_jobs WHERE completed_at < $1 AND (CAST($2 AS TEXT) IS NULL OR id = $2)";
    let jobs: Vec<i64> =
        on!(db, reader, |pool| sqlx::query_scalar(jobs).bind(before).bind(id).fetch_all(pool).await)?;
    for job in jobs {
        for (table, key) in TABLES {
            // The first rows in the order of the primary key.
            let sql = format!(
                "DELETE FROM {table} WHERE job = $1 AND {key} <= (SELECT max({key}) FROM \
                     (SELECT {key} FROM {table} WHERE job = $1 ORDER BY {key} LIMIT {ROWS_PER_STEP}) AS first)"
            );
            while on!(db, writer, |pool| {
                sqlx::query(AssertSqlSafe(sql.clone())).bind(job).execute(pool).await?.rows_affected()
            }) > 0
            {}
        }
    }
    Ok(())
}
