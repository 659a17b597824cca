//! Counts the records that a query finds. Its order, cursor and limit don't matter.

use std::time::Instant;

use sqlx::Row;

use crate::query::Query;
use crate::store::records;
use crate::store::scans::SCAN_TIME_LIMIT;
use crate::store::select::{By, Dialect, PostgresDialect, Select, Sql, SqliteDialect, bound};
use crate::store::{Db, StoreError, intern};
use belvedere_web::fair_share::Tenant;

use super::access::IndexCandidates;

/// The exact number of visible records that the query finds. With a filter it reads each of them, and without an index all
/// records of the collection or account.
///
/// # Errors
/// [`StoreError::Busy`], and [`StoreError::TooSlow`] for a scan.
pub async fn count(db: &Db, query: &Query, tenant: &Tenant) -> Result<u64, StoreError> {
    if query.valid.is_none() && !query.has_conditions() {
        return records::count(db, &query.collection, query.did.as_ref(), tenant).await;
    }
    let Some(collection) = intern::collection(db, &query.collection).await? else { return Ok(0) };
    let candidates = IndexCandidates::of(collection, query);
    let bounds = candidates.narrowest(db, tenant).await?;
    let by = bounds.as_ref().map_or(By::Time, By::Field);
    let _permit = db.scan_permit(tenant).await?;
    let started = Instant::now();
    let select = Select::of(query, collection, by);
    let counted = match run(db, &select).await {
        // Another process may have dropped the index in the meantime.
        Err(StoreError::Database(error)) if bounds.is_some() => {
            tracing::debug!(%error, "a count by an index failed; scanning the collection instead");
            candidates.forget(db);
            run(db, &Select::of(query, collection, By::Time)).await
        }
        counted => counted,
    };
    let took = match &counted {
        Ok(_) => started.elapsed(),
        // A count that was stopped needs an index most.
        Err(StoreError::TooSlow) => SCAN_TIME_LIMIT,
        Err(_) => return counted,
    };
    candidates.note(db, bounds.map(|bounds| bounds.index), took);
    counted
}

async fn run(db: &Db, select: &Select<'_>) -> Result<u64, StoreError> {
    let counted: i64 = match db {
        Db::Sqlite(db) => {
            bound!(statement::<SqliteDialect>(select)).fetch_one(db.scan_pool.reads()).await?.try_get(0)?
        }
        Db::Postgres(db) => {
            bound!(statement::<PostgresDialect>(select)).fetch_one(db.scan_pool.reads()).await?.try_get(0)?
        }
    };
    Ok(counted.unsigned_abs())
}

fn statement<D: Dialect>(select: &Select<'_>) -> Sql {
    let mut sql = Sql::new();
    sql.push(format_args!("SELECT count(*)"));
    select.write_from::<D>(&mut sql);
    sql
}
