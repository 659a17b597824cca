//! Runs `db.query`: filters and sorts on record fields, compiled to SQL for each database.
//!
//! Only validated paths (letters, digits, `_`) and operators become part of the SQL text; values are parameters.
//! [`crate::query::filter`] defines comparisons and [`crate::query::sort`] orders; the dialects of [`super::select`]
//! implement them.
//!
//! A query uses an index of a field if there is one (`access`, `walk`). Otherwise it scans the collection, for which
//! its tenant needs a permit in the pool of scans ([`super::scans`]). Its duration is recorded, and
//! `jobs::field_indexes` builds indexes for the fields that cost most.

mod access;
mod count;
mod group;
mod merge;
mod position;
mod sorted;
mod timeline;
mod walk;
mod whole;

use std::time::{Duration, Instant};

use crate::query::sort::SortKeyset;
use crate::query::{Position, Query, Sort};
use belvedere_protocol::atproto::Nsid;
use belvedere_web::fair_share::Tenant;

use self::access::AccessPath;
pub use self::count::count;
pub use self::group::group;
use self::position::PositionRow;
use super::intern::{self, Collection};
use super::read_cost::ReadCost;
use super::reads::Reads;
use super::records::{self, FullRecordRow, Page, PartialRow, RawRow, RecordRow, invalid, unjoined};
use super::scans::SCAN_TIME_LIMIT;
#[cfg(test)]
use super::select::plan;
use super::select::{By, Columns, Select, Sql, bound};
use super::{Db, StoreError};

/// Reads a page of at most [`PAGE_BYTES`](records::PAGE_BYTES) of records, at the expense of `tenant`.
///
/// # Errors
/// [`StoreError::Busy`], and [`StoreError::TooSlow`] for a scan.
pub async fn read(db: &Db, query: &Query, tenant: &Tenant) -> Result<Page, StoreError> {
    let mut page = read_on(db, query, tenant).await?;
    if query.is_backwards {
        // It was read from its end, which the page after it follows.
        page.rows.reverse();
        std::mem::swap(&mut page.next, &mut page.previous);
    } else if query.after.is_none() {
        page.previous = None;
    }
    Ok(page)
}

/// Reads a page in the direction of the query.
async fn read_on(db: &Db, query: &Query, tenant: &Tenant) -> Result<Page, StoreError> {
    let Some(collection) = intern::collection(db, &query.collection).await? else { return Ok(Page::empty()) };
    let select = Select::of(query, collection, By::Time);
    if query.sort.is_none() && query.valid.is_none() && !query.has_conditions() {
        let _permit = db.read_permit(tenant).await?;
        return select.complete(db, select.rows(db, false).await?).await;
    }
    if let Some(dids) = query.timeline() {
        let rows = |scans| timeline::rows(db, query, collection, dids, scans);
        let found = db.read_or_scan(tenant, cost(db, query, collection), rows(false), rows(true)).await?;
        return page(&select, db, query, found).await;
    }
    let candidates = access::IndexCandidates::of(collection, query);
    let chosen = candidates.choose(db, query, tenant).await;
    let index = chosen.as_ref().ok().and_then(AccessPath::index);
    let ran = match chosen {
        Ok(chosen) => run(db, collection, query, tenant, &chosen).await,
        Err(error) => Err(error),
    };
    let (ran, index) = match ran {
        // Another process may have dropped the index in the meantime.
        Err(StoreError::Database(error)) if db.fields().any_ready() => {
            tracing::debug!(%error, "a query by an index failed; scanning the collection instead");
            candidates.forget(db);
            (run(db, collection, query, tenant, &AccessPath::Scan).await, None)
        }
        ran => (ran, index),
    };
    let (found, took) = match ran {
        Ok(ran) => ran,
        Err(error) => {
            // A query that was stopped needs an index most.
            if matches!(error, StoreError::TooSlow) {
                candidates.note(db, index, SCAN_TIME_LIMIT);
            }
            return Err(error);
        }
    };
    candidates.note(db, index, took);
    page(&select, db, query, found).await
}

/// The page with these rows. Its position is in the form that the query's cursors have.
async fn page(
    select: &Select<'_>,
    db: &Db,
    query: &Query,
    found: Vec<PartialRow<RecordRow>>,
) -> Result<Page, StoreError> {
    let mut page = select.complete(db, found).await?;
    if query.sort.is_some() {
        for position in [&mut page.next, &mut page.previous] {
            if let Some(Position::Time(keyset)) = position {
                *position = Some(Position::Sorted(SortKeyset::of_time(*keyset)));
            }
        }
    }
    Ok(page)
}

/// Like [`read`], for the admin API: rows have CID and times.
///
/// # Errors
/// Those of [`read`].
pub async fn read_full(db: &Db, query: &Query, tenant: &Tenant) -> Result<Page<FullRecordRow>, StoreError> {
    if query.has_conditions() || query.sort.is_some() {
        let Page { rows, next, previous } = read(db, query, tenant).await?;
        return Ok(Page { rows: records::with_all_columns(db, rows).await?, next, previous });
    }
    let Some(collection) = intern::collection(db, &query.collection).await? else { return Ok(Page::empty()) };
    let _permit = db.read_permit(tenant).await?;
    let select = Select { columns: Columns::Full, ..Select::of(query, collection, By::Time) };
    select.complete(db, select.full_rows(db).await?).await
}

/// The database's plan for a query. Tests use it to check which index a query uses.
///
/// # Errors
/// Those of [`read`].
#[cfg(test)]
pub async fn explain(db: &Db, query: &Query, tenant: &Tenant) -> Result<String, StoreError> {
    let Some(collection) = intern::collection(db, &query.collection).await? else { return Ok(String::new()) };
    let statement = |by| {
        let select = Select::of(query, collection, by);
        match &query.sort {
            Some(sort) if !query.is_by_time() => sorted::statement(db.backend(), &select, sort, query),
            _ => select.statement_on(db.backend()),
        }
    };
    let sql = match access::IndexCandidates::of(collection, query).choose(db, query, tenant).await? {
        AccessPath::Scan => statement(By::Time),
        AccessPath::Filter { bounds, .. } => statement(By::Field(&bounds)),
        AccessPath::Merge(bounds) => statement(By::Field(&bounds.split()[0])),
        AccessPath::Sort(walk) => walk.first(db.backend(), &Select::of(query, collection, By::Time)),
    };
    plan(db, sql).await
}

/// The cost of a query whose other conditions leave few records out than the one on the validity and those for hidden records.
async fn cost(db: &Db, query: &Query, collection: Collection) -> Result<ReadCost, StoreError> {
    let scans = query.valid.is_some() && !invalid::are_few(db, collection).await?;
    Ok(ReadCost::of(&query.narrow.hidden).or_many(scans))
}

/// Returns the rows and the duration of the query.
async fn run(
    db: &Db,
    collection: Collection,
    query: &Query,
    tenant: &Tenant,
    chosen: &AccessPath<'_>,
) -> Result<(Vec<PartialRow<RecordRow>>, Duration), StoreError> {
    let rows = |scans| rows(db, collection, query, chosen, scans);
    if chosen.is_cheap(query) {
        return db.read_or_scan(tenant, cost(db, query, collection), rows(false), rows(true)).await;
    }
    let _permit = db.scan_permit(tenant).await?;
    rows(true).await
}

/// Returns the rows, read on the pool of scans or of reads by an index, and the duration.
async fn rows(
    db: &Db,
    collection: Collection,
    query: &Query,
    chosen: &AccessPath<'_>,
    scans: bool,
) -> Result<(Vec<PartialRow<RecordRow>>, Duration), StoreError> {
    let started = Instant::now();
    let by = match chosen {
        AccessPath::Filter { bounds, .. } => By::Field(bounds),
        AccessPath::Scan | AccessPath::Merge(_) | AccessPath::Sort(_) => By::Time,
    };
    let select = Select::of(query, collection, by);
    let found = match (chosen, &query.sort) {
        (AccessPath::Merge(bounds), _) => merge::rows(db, scans, query, collection, bounds).await,
        (AccessPath::Sort(walk), _) => walk.rows(db, scans, &select).await,
        (_, Some(sort)) if !query.is_by_time() => {
            let sql = sorted::statement(db.backend(), &select, sort, query);
            fetch(db, scans, sql, sort, &select).await
        }
        _ => select.rows(db, scans).await,
    };
    Ok((found?, started.elapsed()))
}

/// Runs a statement whose columns are those of a row, followed by those of its position.
async fn fetch(
    db: &Db,
    scans: bool,
    sql: Sql,
    sort: &Sort,
    select: &Select<'_>,
) -> Result<Vec<PartialRow<RecordRow>>, StoreError> {
    let (partition, reads) = (select.collection.partition, Reads::of_scan(scans));
    match db {
        Db::Sqlite(db) => {
            let rows = bound!(sql).fetch_all(db.pool_of(partition, reads).reads()).await?;
            rows.into_iter().map(|row| sorted_row(row, sort, select.nsid)).collect()
        }
        Db::Postgres(db) => {
            let rows = bound!(sql).fetch_all(db.pool_of(partition, reads).reads()).await?;
            let rows = unjoined::with_dids(db, rows).await?;
            rows.into_iter().map(|row| sorted_row(row, sort, select.nsid)).collect()
        }
    }
}

fn sorted_row<R: RawRow + PositionRow>(
    row: R,
    sort: &Sort,
    collection: &Nsid,
) -> Result<PartialRow<RecordRow>, StoreError> {
    let values = row.sort_values(sort)?;
    Ok(PartialRow { values, ..row.raw(collection.clone())? })
}
