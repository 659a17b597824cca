//! Reads the first records that belong to each of many targets: those that link to it, or those of an account.
//!
//! Each target's records are read along an index and only up to the limit, so that a target with many costs no more than one
//! with few.

use sqlx::Row;

use belvedere_web::fair_share::Tenant;

use super::super::intern::{self, Collection};
use super::super::read_cost::ReadCost;
use super::super::reads::Reads;
#[cfg(test)]
use super::super::select::plan;
use super::super::select::{
    By, Columns, Dialect, PostgresDialect, Select, Sql, SqliteDialect, Target, Value, bound, direction_words,
};
use super::super::types::to_json_text;
use super::super::{Db, StoreError};
use super::{Page, PartialRow, RawRow, RecordRow, Room, backlinks, complete, unjoined};
use crate::query::{Links, Narrow, Related, Relation};

/// Rows of one statement, at most: records of up to 10 KiB are returned with their rows. More targets take more statements.
const ROWS_PER_STATEMENT: usize = 1_000;

/// The position of the target's number, after the columns of a row.
const TARGET_COLUMN: usize = 7;

/// A record that belongs to a target.
#[derive(Clone, Debug)]
pub struct RelatedRow {
    /// The position of its target in the list.
    pub target: usize,
    pub row: RecordRow,
}

impl AsMut<RecordRow> for RelatedRow {
    fn as_mut(&mut self) -> &mut RecordRow {
        &mut self.row
    }
}

/// Targets of one statement that reads at most `limit` records of each.
pub fn targets_per_statement(limit: u32) -> usize {
    (ROWS_PER_STATEMENT / limit.max(1) as usize).max(1)
}

/// The valid records of all targets, in the order of the targets. The page has a next one if there is no room for more records.
///
/// # Errors
/// [`StoreError::Busy`], and [`StoreError::TooSlow`] for a scan.
pub async fn read(
    db: &Db,
    related: &Related,
    targets: &[String],
    room: Room,
    tenant: &Tenant,
) -> Result<Page<RelatedRow>, StoreError> {
    let nsid = &related.collection;
    let Some(collection) = intern::collection(db, nsid).await? else { return Ok(Page::empty()) };
    let least = ReadCost::of(&related.hidden);
    let cost = async {
        match &related.relation {
            Relation::Link { path } => {
                let links = Links { collection: nsid.clone(), path: path.clone() };
                backlinks::cost(db, &links, collection, targets, least).await
            }
            Relation::Author => Ok(least),
        }
    };
    let page = |scans| page(db, related, collection, targets, room, scans);
    db.read_or_scan(tenant, cost, page(false), page(true)).await
}

/// The records, read on the pool of scans or of reads by an index.
async fn page(
    db: &Db,
    related: &Related,
    collection: Collection,
    targets: &[String],
    room: Room,
    scans: bool,
) -> Result<Page<RelatedRow>, StoreError> {
    let mut page = Page::empty();
    let mut left = room;
    let per_statement = targets_per_statement(related.limit);
    for (n, part) in targets.chunks(per_statement).enumerate() {
        let found = rows(db, related, collection, part, scans).await?;
        let found = found
            .into_iter()
            .map(|(target, found)| found.map(|row| RelatedRow { target: n * per_statement + target, row }));
        let found = complete(db, found.collect(), u32::MAX, left).await?;
        left.all = left.all.saturating_sub(found.rows.iter().map(|found| found.row.record.len()).sum());
        page.rows.extend(found.rows);
        if found.next.is_some() {
            page.next = found.next;
            break;
        }
    }
    Ok(page)
}

async fn rows(
    db: &Db,
    related: &Related,
    collection: Collection,
    targets: &[String],
    scans: bool,
) -> Result<Vec<(usize, PartialRow<RecordRow>)>, StoreError> {
    let nsid = &related.collection;
    let target = |number: i64| usize::try_from(number).unwrap_or_default();
    match db {
        Db::Sqlite(db) => {
            let pool = db.pool_of(collection.partition, Reads::of_scan(scans));
            let found = bound!(sqlite(related, collection, targets)).fetch_all(pool.reads()).await?;
            let row = |row: sqlx::sqlite::SqliteRow| {
                Ok((target(row.try_get(TARGET_COLUMN)?), row.raw(nsid.clone())?))
            };
            found.into_iter().map(row).collect()
        }
        Db::Postgres(db) => {
            let pool = db.pool_of(collection.partition, Reads::of_scan(scans));
            let found = bound!(postgres(related, collection, targets)).fetch_all(pool.reads()).await?;
            let row = |row: unjoined::RowWithDid| {
                Ok((target(row.columns.try_get(TARGET_COLUMN)?), row.raw(nsid.clone())?))
            };
            unjoined::with_dids(db, found).await?.into_iter().map(row).collect()
        }
    }
}

/// Writes the statement for the records of the target `v.value`, with these columns.
fn write_of_target<D: Dialect>(sql: &mut Sql, related: &Related, collection: Collection, columns: &str) {
    let narrow = Narrow { hidden: related.hidden.clone(), ..Narrow::default() };
    let by = match &related.relation {
        Relation::Link { path } => By::Target { target: Target::Column("v.value"), path: path.as_deref() },
        Relation::Author => By::Time,
    };
    let select = Select {
        by,
        narrow: &narrow,
        valid: Some(true),
        ..Select::page(&related.collection, collection, related.limit)
    };
    sql.push(format_args!("SELECT {columns}"));
    select.write_from::<D>(sql);
    if related.relation == Relation::Author {
        sql.push(format_args!(" AND r.did_id = (SELECT id FROM dids WHERE did = v.value)"));
    }
    let keys = order(related, "f.record_id");
    let limit = sql.bind(Value::Integer(i64::from(related.limit)));
    sql.push(format_args!(" ORDER BY {keys} LIMIT {limit}"));
}

/// The order of a target's records. `link`: the column with the id of a record that links to it.
fn order(related: &Related, link: &str) -> String {
    let (direction, _) = direction_words(related.direction);
    match related.relation {
        Relation::Link { .. } => format!("{link} {direction}"),
        Relation::Author => format!("r.indexed_at {direction}, r.id {direction}"),
    }
}

fn sqlite(related: &Related, collection: Collection, targets: &[String]) -> Sql {
    let mut sql = Sql::new();
    let targets = sql.bind(Value::Text(to_json_text(targets)));
    let columns = SqliteDialect::columns(Columns::Row);
    sql.push(format_args!(
        "SELECT {columns}, v.key FROM json_each({targets}) v CROSS JOIN records r CROSS JOIN dids d WHERE r.id IN ("
    ));
    let id = if related.relation == Relation::Author { "r.id" } else { "f.record_id" };
    write_of_target::<SqliteDialect>(&mut sql, related, collection, id);
    sql.push(format_args!(") AND d.id = r.did_id ORDER BY v.key, {}", order(related, "r.id")));
    sql
}

fn postgres(related: &Related, collection: Collection, targets: &[String]) -> Sql {
    let mut sql = Sql::new();
    let targets = sql.bind(Value::Text(to_json_text(targets)));
    let columns = PostgresDialect::columns(Columns::Row);
    sql.push(format_args!(
        "SELECT {columns}, v.key - 1 FROM jsonb_array_elements_text({targets}::text::jsonb) WITH ORDINALITY v (value, key) \
         CROSS JOIN LATERAL ("
    ));
    write_of_target::<PostgresDialect>(&mut sql, related, collection, "r.*");
    sql.push(format_args!(") r ORDER BY v.key, {}", order(related, "r.id")));
    sql
}

/// The database's plan for a read.
#[cfg(test)]
pub async fn explain(db: &Db, related: &Related, targets: &[String]) -> Result<String, StoreError> {
    let Some(collection) = intern::collection(db, &related.collection).await? else {
        return Ok(String::new());
    };
    let sql = match db {
        Db::Sqlite(_) => sqlite(related, collection, targets),
        Db::Postgres(_) => postgres(related, collection, targets),
    };
    plan(db, sql).await
}
