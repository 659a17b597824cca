//! Lists the accounts to which the records of one account link, those that it follows or blocks, and the accounts whose records link to
//! it.

use belvedere_protocol::atproto::Did;
use belvedere_web::fair_share::Tenant;

use super::super::intern::{self, Collection};
use super::super::packed::Packed;
use super::super::partitions::{PerPartition, Tables};
use super::super::read_cost::ReadCost;
use super::super::reads::Reads;
use super::super::select::{Dialect, PostgresDialect, SqliteDialect};
use super::super::{Db, StoreError};
use super::{backlinks, links};
use crate::query::Links;

/// The accounts are one packed text.
///
/// `$1`: the collection. `$2`: the account. `$3`: the path, or empty. `$4`: the limit.
fn sql<D: Dialect>(Tables { records, record_refs, .. }: &Tables) -> String {
    format!(
        "SELECT string_agg(target || ' ', '') FROM (SELECT f.target FROM (SELECT r.id, r.indexed_at FROM {records} r \
             WHERE r.collection_id = $1 AND r.did_id = (SELECT id FROM dids WHERE did = $2 AND status = 0) \
             ORDER BY r.indexed_at DESC, r.id DESC LIMIT $4) r \
         CROSS JOIN {record_refs} f \
         WHERE f.record_id = r.id AND ($3 = '' OR {}) AND f.target LIKE 'did:%' \
         ORDER BY r.indexed_at DESC, r.id DESC LIMIT $4) f",
        D::has_word("f.paths", "$3")
    )
}
static ACCOUNTS: [PerPartition<String>; 2] =
    [PerPartition::new(sql::<SqliteDialect>), PerPartition::new(sql::<PostgresDialect>)];

/// The parameters are those of [`sql`].
fn linking_sql<D: Dialect>(tables: &Tables) -> String {
    format!(
        "SELECT string_agg(did || ' ', '') FROM (SELECT (SELECT d.did FROM dids d WHERE d.id = {}) AS did FROM {} f \
             WHERE f.target = $2 AND f.collection_id = $1 AND ($3 = '' OR {}) ORDER BY f.record_id DESC LIMIT $4) f",
        links::account(tables, "$1"),
        tables.record_refs,
        D::has_word("f.paths", "$3"),
    )
}
static LINKING: [PerPartition<String>; 2] =
    [PerPartition::new(linking_sql::<SqliteDialect>), PerPartition::new(linking_sql::<PostgresDialect>)];

/// The accounts, at most `limit`, to which the newest `limit` records link, those of the newest first. An account may occur twice.
///
/// # Errors
/// [`StoreError::Busy`].
pub async fn read(
    db: &Db,
    account: &Did,
    links: &Links,
    limit: usize,
    tenant: &Tenant,
) -> Result<Vec<Did>, StoreError> {
    let Some(collection) = intern::collection(db, &links.collection).await? else { return Ok(Vec::new()) };
    let _permit = db.read_permit(tenant).await?;
    accounts(db, (&ACCOUNTS, collection), account, links, limit, false).await
}

/// The accounts whose records link to this one, at most `limit`, those of the records that were created last first. An account may
/// occur twice.
///
/// # Errors
/// [`StoreError::Busy`], and [`StoreError::TooSlow`] for a scan.
pub async fn linking(
    db: &Db,
    account: &Did,
    links: &Links,
    limit: usize,
    tenant: &Tenant,
) -> Result<Vec<Did>, StoreError> {
    let Some(collection) = intern::collection(db, &links.collection).await? else { return Ok(Vec::new()) };
    let targets = [account.to_string()];
    let cost = backlinks::cost(db, links, collection, &targets, ReadCost::Few);
    let accounts = |scans| accounts(db, (&LINKING, collection), account, links, limit, scans);
    db.read_or_scan(tenant, cost, accounts(false), accounts(true)).await
}

async fn accounts(
    db: &Db,
    ([sqlite, postgres], collection): (&'static [PerPartition<String>; 2], Collection),
    account: &Did,
    links: &Links,
    limit: usize,
    scans: bool,
) -> Result<Vec<Did>, StoreError> {
    macro_rules! rows {
        ($sql:expr, $db:expr) => {{
            let pool = $db.pool_of(collection.partition, Reads::of_scan(scans));
            sqlx::query_scalar(*$sql.of(collection.partition))
                .bind(collection.id)
                .bind(account.as_str())
                .bind(links.path.as_deref().unwrap_or_default())
                .bind(i64::try_from(limit).unwrap_or(i64::MAX))
                .fetch_one(pool.reads())
                .await?
        }};
    }
    let found: Option<String> = match db {
        Db::Sqlite(db) => rows!(sqlite, db),
        Db::Postgres(db) => rows!(postgres, db),
    };
    // A link to something that only looks like a DID is no account.
    let accounts =
        Packed::new(found.unwrap_or_default()).rows(|row| Some(Did::try_from(row.field()?).ok()))?;
    Ok(accounts.into_iter().flatten().collect())
}
