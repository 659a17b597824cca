//! Counts the records that a query finds. Its order, cursor and limit don't matter.

use sqlx::Row;

use crate::query::Query;
use crate::store::reads::Reads;
use crate::store::records;
use crate::store::select::{Dialect, PostgresDialect, Select, Sql, SqliteDialect, bound};
use crate::store::{Db, StoreError, intern};
use belvedere_web::fair_share::Tenant;

use super::whole::Scan;

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
    let mut scan = Scan::begin(db, query, collection, tenant).await?;
    let mut found = run(db, &scan.select()).await;
    if scan.has_lost_its_index(&found) {
        found = run(db, &scan.select()).await;
    }
    scan.end(&found);
    found
}

async fn run(db: &Db, select: &Select<'_>) -> Result<u64, StoreError> {
    let counted: i64 = match db {
        Db::Sqlite(db) => {
            bound!(statement::<SqliteDialect>(select)).fetch_one(db.scan_pool.reads()).await?.try_get(0)?
        }
        Db::Postgres(db) => {
            let pool = db.pool_of(select.collection.partition, Reads::Scans);
            bound!(statement::<PostgresDialect>(select)).fetch_one(pool.reads()).await?.try_get(0)?
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
