//! Reads the records that link to any of many targets, target by target, until there are as many as the limit: a level of a tree
//! (ADR 131).
//!
//! Neither database sorts. The links of a target are in the order of the index, and the targets are looked up one after the other.

use sqlx::Row;

use belvedere_web::fair_share::Tenant;

use super::super::intern::{self, Collection};
use super::super::read_cost::ReadCost;
use super::super::reads::Reads;
#[cfg(test)]
use super::super::select::plan;
use super::super::select::{
    By, Columns, Dialect, PostgresDialect, Select, Sql, SqliteDialect, Target, Value, bound, hidden,
};
use super::super::types::to_json_text;
use super::super::{Db, StoreError};
use super::related::RelatedRow;
use super::{Page, PartialRow, RawRow, RecordRow, Room, backlinks, complete, packed, unjoined};
use crate::query::{Below, Narrow};

/// The position of the target's number, after the columns of a row.
const TARGET_COLUMN: usize = 7;

/// The valid records, in the order of the targets, each target's oldest first. The page has a next one if there is no room for more.
///
/// # Errors
/// [`StoreError::Busy`], and [`StoreError::TooSlow`] for a scan.
pub async fn read(
    db: &Db,
    below: &Below,
    targets: &[String],
    room: Room,
    tenant: &Tenant,
) -> Result<Page<RelatedRow>, StoreError> {
    let nsid = &below.links.collection;
    let Some(collection) = intern::collection(db, nsid).await? else { return Ok(Page::empty()) };
    let cost = backlinks::cost(db, &below.links, collection, targets, ReadCost::of(&below.hidden));
    let rows = |scans| rows(db, below, collection, targets, scans);
    let found = db.read_or_scan(tenant, cost, rows(false), rows(true)).await?;
    complete(db, found, u32::MAX, room).await
}

async fn rows(
    db: &Db,
    below: &Below,
    collection: Collection,
    targets: &[String],
    scans: bool,
) -> Result<Vec<PartialRow<RelatedRow>>, StoreError> {
    let nsid = &below.links.collection;
    let related = |target: usize, found: PartialRow<RecordRow>| found.map(|row| RelatedRow { target, row });
    match db {
        Db::Sqlite(db) => {
            let pool = db.pool_of(collection.partition, Reads::of_scan(scans));
            let row = bound!(sqlite(below, collection, targets)).fetch_one(pool.reads()).await?;
            let numbers: Option<String> = row.try_get(1)?;
            let numbers = numbers.unwrap_or_default();
            let numbers = numbers.split(' ').filter_map(|number| number.parse().ok());
            let found = packed::unpack(row.try_get(0)?, nsid)?;
            Ok(numbers.zip(found).map(|(target, found)| related(target, found)).collect())
        }
        Db::Postgres(db) => {
            let pool = db.pool_of(collection.partition, Reads::of_scan(scans));
            let found = bound!(postgres(below, collection, targets)).fetch_all(pool.reads()).await?;
            let row = |row: unjoined::RowWithDid| {
                let target: i64 = row.columns.try_get(TARGET_COLUMN)?;
                Ok(related(usize::try_from(target).unwrap_or_default(), row.raw(nsid.clone())?))
            };
            unjoined::with_dids(db, found).await?.into_iter().map(row).collect()
        }
    }
}

/// The rows are one text, and so are the numbers of their targets. The limit keeps SQLite from flattening the inner SELECT.
fn sqlite(below: &Below, collection: Collection, targets: &[String]) -> Sql {
    let Below { links, limit, hidden: left_out } = below;
    let mut sql = Sql::new();
    let targets = sql.bind(Value::Text(to_json_text(targets)));
    let valid = collection.partition.tables().and_valid();
    let collection = sql.bind(Value::Integer(collection.id));
    let at_path = links.path.as_ref().map_or_else(String::new, |path| {
        let path = sql.bind(Value::Text(path.clone())).to_string();
        format!(" AND {}", SqliteDialect::has_word("f.paths", &path))
    });
    let hidden = hidden::<SqliteDialect>(&mut sql, &links.collection, left_out, SqliteDialect::DID);
    let limit = sql.bind(Value::Integer(i64::from(*limit)));
    let columns = SqliteDialect::columns(Columns::Packed);
    sql.push(format_args!(
        "SELECT group_concat(p, ''), group_concat(target, ' ') FROM (SELECT {columns}, v.key AS target \
         FROM json_each({targets}) v CROSS JOIN record_refs f CROSS JOIN records r CROSS JOIN dids d \
         WHERE f.target = v.value AND f.collection_id = {collection}{at_path} AND r.id = f.record_id \
             AND d.id = r.did_id AND d.status = 0{hidden}{valid} LIMIT {limit})"
    ));
    sql
}

/// PostgreSQL looks up each target, because the limit of the inner SELECT keeps it from joining all links.
fn postgres(below: &Below, collection: Collection, targets: &[String]) -> Sql {
    let Below { links, limit, hidden } = below;
    let mut sql = Sql::new();
    let targets = sql.bind(Value::Text(to_json_text(targets)));
    let columns = PostgresDialect::columns(Columns::Row);
    sql.push(format_args!(
        "SELECT {columns}, v.key - 1 FROM jsonb_array_elements_text({targets}::text::jsonb) WITH ORDINALITY v (value, key) \
         CROSS JOIN LATERAL (SELECT r.*"
    ));
    let narrow = Narrow { hidden: hidden.clone(), ..Narrow::default() };
    let by = By::Target { target: Target::Column("v.value"), path: links.path.as_deref() };
    let select = Select {
        by,
        narrow: &narrow,
        valid: Some(true),
        ..Select::page(&links.collection, collection, *limit)
    };
    select.write_from::<PostgresDialect>(&mut sql);
    let limit = sql.bind(Value::Integer(i64::from(*limit)));
    sql.push(format_args!(" ORDER BY f.record_id LIMIT {limit}) r LIMIT {limit}"));
    sql
}

/// The database's plan for a read.
#[cfg(test)]
pub async fn explain(db: &Db, below: &Below, targets: &[String]) -> Result<String, StoreError> {
    let Some(collection) = intern::collection(db, &below.links.collection).await? else {
        return Ok(String::new());
    };
    let sql = match db {
        Db::Sqlite(_) => sqlite(below, collection, targets),
        Db::Postgres(_) => postgres(below, collection, targets),
    };
    plan(db, sql).await
}
