//! Writes batches to SQLite with statements of up to [`MAX_ROWS`] rows in a few fixed shapes.
//!
//! Most upserts are new records, so a statement first inserts all rows it can. Only when the number of inserted rows is
//! too small are the existing records looked up and updated. The ids of new rows are assigned here, so that their
//! references can be inserted without asking the database; the transaction excludes other writers.
//!
//! The bulk statements are `OR FAIL`: SQLite need not be able to undo one statement, for which it would copy each page
//! before its first change. Every failure ends the whole transaction here.

mod derived;

use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::sync::{Arc, LazyLock};

use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;
use sqlx::{AssertSqlSafe, Connection, SqliteConnection};

use super::super::counts::{AccountFlip, Changes, Counting as _};
use super::super::partitions::Partition;
use super::super::{Sqlite, StoreError};
use super::plan::{DeleteRow, Plan, Row};
use super::remove::{self, FoundRow};
use super::repairs::{self, REQUEST_SQLITE};
use super::{ApplyReport, SET_CURSOR, future, hidden, purge};
pub(super) use derived::replace_refs;
use derived::{Invalid, Refs};

/// Rows per statement. More rows do not make a statement itself cheaper per row, but each one begins with a savepoint, at which
/// search tables write what they have gathered. Stays far below SQLite's limit of 32,766 parameters.
const MAX_ROWS: usize = 1_024;

/// Statement texts for 1, 2, 4, … [`MAX_ROWS`] rows. Other numbers of rows use the next larger text: unbound parameters
/// are NULL, and rows whose first column is NULL are skipped.
struct Shapes(Vec<Arc<str>>);

impl Shapes {
    fn new(columns: usize, before: &str, after: &str) -> Self {
        let row = format!("(?{})", ", ?".repeat(columns - 1));
        let text = |rows: usize| {
            let mut text = format!("{before} (VALUES {row}");
            for _ in 1..rows {
                // Writing to a String never fails.
                let _ = write!(text, ", {row}");
            }
            text + ") AS v " + after
        };
        Self((0..=MAX_ROWS.ilog2()).map(|n| text(1 << n).into()).collect())
    }

    fn query(&self, rows: usize) -> Query<'static, sqlx::Sqlite, SqliteArguments> {
        sqlx::query(self.text(rows))
    }

    fn text(&self, rows: usize) -> AssertSqlSafe<Arc<str>> {
        let shape = rows.next_power_of_two().ilog2() as usize;
        AssertSqlSafe(self.0[shape].clone())
    }
}

static INSERT: LazyLock<Shapes> = LazyLock::new(|| {
    Shapes::new(
        9,
        "INSERT OR FAIL INTO records (id, collection_id, did_id, rkey, cid, cid_verified, rev, indexed_at, updated_at, record) \
         SELECT column1, column2, column3, column4, column5, column6, column7, column8, column8, column9 FROM",
        "WHERE column1 IS NOT NULL AND NOT EXISTS (SELECT 1 FROM tombstones t WHERE t.collection_id = v.column2 \
             AND t.did_id = v.column3 AND t.rkey = v.column4 AND t.rev >= v.column7) \
             AND NOT EXISTS (SELECT 1 FROM repo_tombstones t WHERE t.did_id = v.column3 AND t.rev >= v.column7) \
         ON CONFLICT (collection_id, did_id, rkey) DO NOTHING",
    )
});

/// Finds the existing records among the keys: the number of the key in the statement, id and rev.
static FIND: LazyLock<Shapes> = LazyLock::new(|| {
    Shapes::new(
        4,
        "SELECT v.column1 AS n, r.id, r.rev FROM",
        "CROSS JOIN records r WHERE v.column1 IS NOT NULL AND r.collection_id = v.column2 \
             AND r.did_id = v.column3 AND r.rkey = v.column4",
    )
});

static UPDATE: LazyLock<Shapes> = LazyLock::new(|| {
    Shapes::new(
        6,
        "UPDATE OR FAIL records SET cid = v.column2, cid_verified = v.column3, rev = v.column4, updated_at = v.column5, \
             record = v.column6 FROM",
        "WHERE records.id = v.column1",
    )
});

/// The statements for one row.
#[cfg(test)]
pub(in crate::store) fn statements() -> [Arc<str>; 4] {
    [&INSERT, &FIND, &UPDATE, &derived::INSERT_REFS].map(|shapes| shapes.0[0].clone())
}

pub(super) async fn apply(db: &Sqlite, plan: Plan<'_>) -> Result<ApplyReport, StoreError> {
    let mut connection = db.writer.acquire().await?;
    let applied = write(&mut connection, plan).await;
    if applied.is_err() {
        // The failure may have left the connection in any state: the next attempt uses a new one.
        connection.close_on_drop();
    }
    applied
}

async fn write(connection: &mut SqliteConnection, mut plan: Plan<'_>) -> Result<ApplyReport, StoreError> {
    let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
    let mut applied = std::mem::take(&mut plan.applied);
    let mut changes = Changes::default();
    tx.begin_counting().await?;
    if !plan.accounts.is_empty() {
        accounts(&mut tx, &plan, &mut changes, &mut applied).await?;
    }
    if let Some(rows) = hidden::divert_sqlite(&mut tx, &plan, &mut changes, &mut applied).await? {
        plan.rows = rows;
    }
    if !plan.rows.is_empty() {
        upsert(&mut tx, &plan, &mut changes, &mut applied).await?;
    }
    for chunk in plan.deletes.chunks(MAX_ROWS) {
        let mut done = delete(&mut tx, chunk, &plan, &mut changes, &mut applied).await?;
        if done < chunk.len() as u64 {
            let keys = chunk.iter().map(DeleteRow::key);
            if future::forget_sqlite(&mut tx, keys, plan.now).await? {
                done += delete(&mut tx, chunk, &plan, &mut changes, &mut applied).await?;
            }
        }
        applied.stale += chunk.len() as u64 - done;
    }
    tx.count(changes).await?;
    let repairs = repairs::due(&plan, &applied);
    if !repairs.is_empty() {
        sqlx::query(REQUEST_SQLITE).bind(json(&repairs)?).bind(plan.now).execute(&mut *tx).await?;
    }
    if let Some(cursor) = plan.cursor {
        sqlx::query(SET_CURSOR)
            .bind(&cursor.source)
            .bind(cursor.cursor)
            .bind(cursor.commits_until)
            .bind(plan.now)
            .execute(&mut *tx)
            .await?;
    }
    tx.commit().await?;
    Ok(applied)
}

pub(super) async fn upsert(
    conn: &mut SqliteConnection,
    plan: &Plan<'_>,
    changes: &mut Changes,
    applied: &mut ApplyReport,
) -> Result<(), StoreError> {
    let next_id = sqlx::query_scalar("SELECT coalesce(max(id), 0) + 1 FROM records");
    let mut upserts = Upserts { next_id: next_id.fetch_one(&mut *conn).await?, ..Upserts::default() };
    for chunk in plan.rows.chunks(MAX_ROWS) {
        let mut stale = upserts.write(conn, chunk, plan, changes, applied).await?;
        if !stale.is_empty() && future::forget_sqlite(conn, stale.iter().map(Row::key), plan.now).await? {
            stale = upserts.write(conn, &stale, plan, changes, applied).await?;
        }
        applied.stale += stale.len() as u64;
    }
    upserts.finish(conn, changes).await
}

/// The upserts of a batch: what their records need besides is written at the end.
#[derive(Default)]
struct Upserts<'a> {
    next_id: i64,
    updated: Vec<i64>,
    refs: Refs<'a>,
    invalid: Invalid<'a>,
}

impl<'a> Upserts<'a> {
    /// Inserts or updates up to [`MAX_ROWS`] records. Returns those that the database has with the same or a newer `rev`, or
    /// a tombstone of.
    async fn write(
        &mut self,
        conn: &mut SqliteConnection,
        chunk: &[Row<'a>],
        plan: &Plan<'_>,
        changes: &mut Changes,
        applied: &mut ApplyReport,
    ) -> Result<Vec<Row<'a>>, StoreError> {
        let first_id = self.next_id;
        self.next_id += chunk.len() as i64;
        let inserted = insert(conn, chunk, first_id, plan).await?;
        applied.inserted += inserted;
        if inserted == chunk.len() as u64 {
            for (row, id) in chunk.iter().zip(first_id..) {
                changes.insert_record(row.collection_id, row.did_id);
                self.push(row, id);
            }
            return Ok(Vec::new());
        }
        // A record with the id assigned here was inserted. One with another id existed before. A missing one has a
        // newer tombstone, or its repo has.
        let mut is_written = vec![false; chunk.len()];
        let mut older = Vec::new();
        for ExistingRow { n, id, rev } in find(conn, chunk.iter().map(Row::key)).await? {
            let Some(row) = chunk.get(n as usize) else { continue };
            let is_new = id == first_id + n;
            if is_new {
                changes.insert_record(row.collection_id, row.did_id);
            } else if rev < row.rev {
                older.push((id, row));
                self.updated.push(id);
            } else {
                continue;
            }
            is_written[n as usize] = true;
            self.push(row, id);
        }
        applied.updated += older.len() as u64;
        update(conn, &older, plan).await?;
        Ok(chunk.iter().zip(is_written).filter(|(_, is_written)| !is_written).map(|(row, _)| *row).collect())
    }

    fn push(&mut self, row: &Row<'a>, id: i64) {
        self.refs.push(row.refs(), row.source(id));
        self.invalid.push(row, id);
    }

    async fn finish(self, conn: &mut SqliteConnection, changes: &mut Changes) -> Result<(), StoreError> {
        if !self.updated.is_empty() {
            remove::references_sqlite(conn, &self.updated, changes).await?;
            let sql = "DELETE FROM invalid_records WHERE record_id IN (SELECT value FROM json_each($1))";
            sqlx::query(sql).bind(json(&self.updated)?).execute(&mut *conn).await?;
        }
        self.invalid.insert(conn).await?;
        self.refs.insert(conn, changes).await
    }
}

async fn insert(
    conn: &mut SqliteConnection,
    rows: &[Row<'_>],
    first_id: i64,
    plan: &Plan<'_>,
) -> Result<u64, StoreError> {
    let mut query = INSERT.query(rows.len());
    for (row, id) in rows.iter().zip(first_id..) {
        query = query
            .bind(id)
            .bind(row.collection_id)
            .bind(row.did_id)
            .bind(row.uri.rkey.as_str())
            .bind(row.record.cid.map(|cid| cid.to_bytes().to_vec()))
            .bind(row.record.cid_verified)
            .bind(row.rev)
            .bind(plan.now)
            .bind(row.text);
    }
    Ok(query.execute(&mut *conn).await?.rows_affected())
}

async fn update(
    conn: &mut SqliteConnection,
    rows: &[(i64, &Row<'_>)],
    plan: &Plan<'_>,
) -> Result<(), StoreError> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut query = UPDATE.query(rows.len());
    for (id, row) in rows {
        query = query
            .bind(id)
            .bind(row.record.cid.map(|cid| cid.to_bytes().to_vec()))
            .bind(row.record.cid_verified)
            .bind(row.rev)
            .bind(plan.now)
            .bind(row.text);
    }
    query.execute(&mut *conn).await?;
    Ok(())
}

struct ExistingRow {
    /// Index of the key in the search's keys.
    n: i64,
    id: i64,
    rev: i64,
}

async fn find<'a>(
    conn: &mut SqliteConnection,
    keys: impl ExactSizeIterator<Item = super::plan::Key<'a>>,
) -> Result<Vec<ExistingRow>, StoreError> {
    use sqlx::Row as _;
    let mut query = FIND.query(keys.len());
    for (n, (collection_id, did_id, rkey)) in (0_i64..).zip(keys) {
        query = query.bind(n).bind(collection_id).bind(did_id).bind(rkey);
    }
    query
        .fetch_all(&mut *conn)
        .await?
        .iter()
        .map(|row| Ok(ExistingRow { n: row.try_get(0)?, id: row.try_get(1)?, rev: row.try_get(2)? }))
        .collect()
}

/// Deletes records, and writes tombstones. Returns how many of the deletions are newer than what the database has.
async fn delete(
    conn: &mut SqliteConnection,
    chunk: &[DeleteRow<'_>],
    plan: &Plan<'_>,
    changes: &mut Changes,
    applied: &mut ApplyReport,
) -> Result<u64, StoreError> {
    let mut older = Vec::new();
    let mut newer = HashSet::new();
    for ExistingRow { n, id, rev } in find(conn, chunk.iter().map(DeleteRow::key)).await? {
        match chunk.get(n as usize) {
            Some(DeleteRow { collection_id, did_id, rev: limit, .. }) if rev < *limit => {
                older.push(FoundRow { id, collection_id: *collection_id, did_id: *did_id });
            }
            _ => {
                newer.insert(n as usize);
            }
        }
    }
    applied.deleted += remove::sqlite(conn, &older, changes).await?;
    let tombstones: Vec<_> = chunk
        .iter()
        .enumerate()
        .filter(|(n, _)| !newer.contains(n))
        .map(|(_, row)| (row.collection_id, row.did_id, row.rkey, row.rev))
        .collect();
    let sql = "INSERT INTO tombstones (collection_id, did_id, rkey, rev, deleted_at) \
               SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, $2 FROM json_each($1) WHERE NOT EXISTS \
                   (SELECT 1 FROM repo_tombstones t WHERE t.did_id = value ->> 1 AND t.rev >= value ->> 3) \
               ON CONFLICT (collection_id, did_id, rkey) DO UPDATE SET rev = excluded.rev, \
                   deleted_at = excluded.deleted_at WHERE tombstones.rev < excluded.rev";
    let written = sqlx::query(sql).bind(json(&tombstones)?).bind(plan.now).execute(&mut *conn).await?;
    Ok(written.rows_affected())
}

async fn accounts(
    conn: &mut SqliteConnection,
    plan: &Plan<'_>,
    changes: &mut Changes,
    applied: &mut ApplyReport,
) -> Result<(), StoreError> {
    let (dids, statuses) = plan.accounts.statuses();
    let pairs: Vec<_> = dids.into_iter().zip(statuses).collect();
    set_statuses(conn, &json(&pairs)?, plan, applied).await?;
    let (dids, revs) = plan.accounts.deleted();
    if !dids.is_empty() {
        let pairs: Vec<_> = dids.into_iter().zip(revs).collect();
        applied.purged += purge::sqlite(conn, &json(&pairs)?, plan.now, changes).await?;
    }
    Ok(())
}

/// `pairs` is a JSON list of `[did, status]`. Most accounts of the stream are unknown here.
async fn set_statuses(
    conn: &mut SqliteConnection,
    pairs: &str,
    plan: &Plan<'_>,
    applied: &mut ApplyReport,
) -> Result<(), StoreError> {
    let differing = "SELECT d.id, d.status <> 0 FROM json_each($1) AS v CROSS JOIN dids d WHERE d.did = v.value ->> 0 \
                         AND coalesce(d.network_status, d.status) <> v.value ->> 1";
    let before: Vec<(i64, bool)> = sqlx::query_as(differing).bind(pairs).fetch_all(&mut *conn).await?;
    if before.is_empty() {
        return Ok(());
    }
    let before: HashMap<i64, bool> = before.into_iter().collect();
    let sql = "UPDATE dids SET status = iif(network_status IS NULL, v.value ->> 1, status), \
                   network_status = iif(network_status IS NULL, NULL, v.value ->> 1), status_changed_at = $2 \
               FROM json_each($1) AS v WHERE dids.did = v.value ->> 0 \
                   AND coalesce(dids.network_status, dids.status) <> v.value ->> 1 RETURNING did, id, status <> 0";
    let changed: Vec<(String, i64, bool)> =
        sqlx::query_as(sql).bind(pairs).bind(plan.now).fetch_all(&mut *conn).await?;
    let flip = |(_, id, is_hidden): &(String, i64, bool)| {
        AccountFlip::of(*id, before.get(id).copied().unwrap_or_default(), *is_hidden)
    };
    let flips: Vec<AccountFlip> = changed.iter().filter_map(flip).collect();
    conn.count_accounts(&flips, &[Partition::Whole]).await?;
    let dids: Vec<String> = changed.into_iter().map(|(did, ..)| did).collect();
    applied.statuses = plan.accounts.changed(&dids);
    Ok(())
}

pub(super) fn json<T: serde::Serialize + ?Sized>(value: &T) -> Result<String, StoreError> {
    // Numbers, strings and tuples of them always serialize.
    serde_json::to_string(value).map_err(|e| StoreError::Corrupt(e.to_string()))
}
