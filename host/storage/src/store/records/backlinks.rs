//! Lists backlinks: the records that refer to an AT URI or a DID. The primary key of `record_refs` ends in the id of the
//! referring record, and ids rise with each record that is created, so the newest backlinks are read in order without a
//! sort.

use bytes::Bytes;
use sqlx::Row;

use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Nsid;
use belvedere_web::fair_share::Tenant;

use super::super::intern::{self, Collection};
use super::super::partitions::{PerPartition, Tables};
use super::super::read_cost::ReadCost;
use super::super::reads::Reads;
use super::super::select::{By, Dialect, PostgresDialect, Select, Sql, SqliteDialect, Target, Value, bound};
use super::super::types::to_json_text;
use super::super::{Db, StoreError, hot};
use super::{Page, RecordRow};
use crate::query::{Backlinks, Keyset, Links, PageSize, Position};

/// With fewer than one link of so many at its path, a page is a scan.
const RARE: i64 = 10;

/// Visible records that refer to the target, last created first, at most [`PAGE_BYTES`](super::PAGE_BYTES) of records. A
/// list of one account filters all backlinks of the target, and so does one of a path that few of many links have: these take from
/// the tenant's share of scans.
///
/// # Errors
/// [`StoreError::Busy`], and [`StoreError::TooSlow`] for a scan.
pub async fn read(db: &Db, links: &Backlinks, tenant: &Tenant) -> Result<Page, StoreError> {
    let nsid = &links.links.collection;
    let Some(collection) = intern::collection(db, nsid).await? else { return Ok(Page::empty()) };
    let targets = std::slice::from_ref(&links.target);
    let cost = cost(db, &links.links, collection, targets, ReadCost::Few);
    let page = |scans| page(db, links, collection, scans);
    if links.did.is_none() {
        return db.read_or_scan(tenant, cost, page(false), page(true)).await;
    }
    let _permit = db.scan_permit(tenant).await?;
    page(true).await
}

/// The page, read on the pool of scans or of reads by an index.
async fn page(db: &Db, links: &Backlinks, collection: Collection, scans: bool) -> Result<Page, StoreError> {
    let nsid = &links.links.collection;
    let after = match links.after {
        Some(Position::Time(keyset)) => Some(keyset),
        _ => None,
    };
    let select = Select {
        by: By::Target { target: Target::Value(&links.target), path: links.links.path.as_deref() },
        did: links.did.as_ref(),
        after,
        ..Select::page(nsid, collection, links.limit)
    };
    if links.uris_only {
        return places(db, &select, links, scans).await;
    }
    select.complete(db, select.rows(db, scans).await?).await
}

/// The page without reading records.
async fn places(db: &Db, select: &Select<'_>, links: &Backlinks, scans: bool) -> Result<Page, StoreError> {
    macro_rules! fetch {
        ($db:expr, $dialect:ty) => {{
            let pool = $db.pool_of(select.collection.partition, Reads::of_scan(scans));
            let found = bound!(statement::<$dialect>(select, links.limit)).fetch_all(pool.reads()).await?;
            found.iter().map(|row| place(row, select.nsid)).collect::<Result<Vec<_>, sqlx::Error>>()?
        }};
    }
    let mut rows = match db {
        Db::Sqlite(db) => fetch!(db, SqliteDialect),
        Db::Postgres(db) => fetch!(db, PostgresDialect),
    };
    let has_more = rows.len() > links.limit as usize;
    rows.truncate(links.limit as usize);
    let position = |row: &RecordRow| Position::Time(Keyset { indexed_at: row.indexed_at, id: row.id });
    let next = rows.last().filter(|_| has_more).map(position);
    Ok(Page { rows, next, previous: None })
}

fn statement<D: Dialect>(select: &Select<'_>, limit: u32) -> Sql {
    let mut sql = Sql::new();
    sql.push(format_args!("SELECT {}, r.rkey, r.indexed_at, f.record_id", D::DID));
    select.write_from::<D>(&mut sql);
    if let Some(after) = select.after {
        let id = sql.bind(Value::Integer(after.id));
        sql.push(format_args!(" AND f.record_id < {id}"));
    }
    let limit = sql.bind(Value::Integer(i64::from(PageSize::rows_read(limit))));
    sql.push(format_args!(" ORDER BY f.record_id DESC LIMIT {limit}"));
    sql
}

fn place<'r, R: Row>(row: &'r R, collection: &Nsid) -> Result<RecordRow, sqlx::Error>
where
    usize: sqlx::ColumnIndex<R>,
    String: sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,
    Timestamp: sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,
    i64: sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,
{
    Ok(RecordRow {
        id: row.try_get(3)?,
        did: row.try_get(0)?,
        collection: collection.clone(),
        rkey: row.try_get(1)?,
        indexed_at: row.try_get(2)?,
        cid: None,
        record: Bytes::from_static(b"{}"),
    })
}

/// The targets, of a collection, that have few of many links at a path. On SQLite and on PostgreSQL.
static COUNT_RARE: PerPartition<[String; 2]> = PerPartition::new(|Tables { link_counts, .. }| {
    ["SELECT value FROM json_each($1)", "SELECT jsonb_array_elements_text($1::text::jsonb)"].map(|targets| {
        format!(
            "SELECT count(*) FROM (SELECT coalesce(max(CASE WHEN path = '' THEN links END), 0) AS links, \
                 coalesce(max(CASE WHEN path <> '' THEN links END), 0) AS of_path FROM {link_counts} \
             WHERE collection_id = $2 AND path IN ('', $3) AND target IN ({targets}) GROUP BY target) t \
             WHERE of_path * {RARE} < links"
        )
    })
});

/// The cost of a read of the records that link to the targets: `least`, or more.
pub(super) async fn cost(
    db: &Db,
    links: &Links,
    collection: Collection,
    targets: &[String],
    least: ReadCost,
) -> Result<ReadCost, StoreError> {
    let scans = match &links.path {
        Some(path) => is_rare(db, collection, path, targets).await?,
        None => false,
    };
    Ok(least.or_many(scans))
}

/// Whether a page of one path passes over most links of one of these targets, which has many.
async fn is_rare(
    db: &Db,
    collection: Collection,
    path: &str,
    targets: &[String],
) -> Result<bool, StoreError> {
    let sql: &'static str = match db {
        Db::Sqlite(_) => COUNT_RARE.of(collection.partition)[0],
        Db::Postgres(_) => COUNT_RARE.of(collection.partition)[1],
    };
    let targets = to_json_text(targets);
    let rare: i64 = hot!(db, collection.partition, |pool| {
        sqlx::query_scalar(sql).bind(&targets).bind(collection.id).bind(path).fetch_one(pool).await
    })?;
    Ok(rare > 0)
}
