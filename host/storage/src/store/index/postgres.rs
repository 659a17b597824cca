//! Writes batches to PostgreSQL with one statement per kind of change and partition, whose rows are arrays for UNNEST.
//!
//! The statements name a partition of `records` or `record_refs`: through the table PostgreSQL can't say which rows an
//! upsert has inserted, and would lock all partitions for a deletion.
//!
//! Other hosts write concurrently, so the statements enforce the rules themselves: the upsert compares `rev`, and locks
//! keep batches with the same repos apart. A record
//! that `jsonb` can't store (U+0000, a lone surrogate, a number beyond numeric) fails its whole statement. Then the
//! batch is applied again, with a binary search for the bad rows.

mod derived;
mod statuses;

use std::collections::{HashMap, HashSet};

use sqlx::PgConnection;

use super::super::change_notes::{Action, Note};
use super::super::counts::{Changes, Counting as _};
use super::super::error::is_bad_value;
use super::super::fence::Fence;
use super::super::lease::{TERM_SOURCE, Term};
use super::super::partitions::{Partition, PerPartition, Tables};
use super::super::{Postgres, StoreError};
use super::plan::{DeleteRow, Key, Plan, Row};
use super::remove::{self, RemovedRow, report_postgres};
use super::repairs::{self, REQUEST_POSTGRES};
use super::{ApplyReport, SET_CURSOR, future, hidden, purge};
pub(in crate::store) use derived::REFS;
pub(super) use derived::replace_refs;
use derived::{INVALID, Invalid, Refs};

/// The class of the advisory locks on repos.
const REPO_LOCKS: i32 = 0x7265_706f;

pub(super) async fn apply(db: &Postgres, plan: Plan<'_>) -> Result<ApplyReport, StoreError> {
    match attempt(db, &plan, OnBadValue::Fail).await {
        Err(Failure::BadValue) => match attempt(db, &plan, OnBadValue::RejectRow).await {
            Ok(applied) => Ok(applied),
            Err(Failure::BadValue) => {
                Err(StoreError::Corrupt("a batch was refused after its bad rows were removed".into()))
            }
            Err(Failure::Store(error)) => Err(error),
        },
        Err(Failure::Store(error)) => Err(error),
        Ok(applied) => Ok(applied),
    }
}

/// The reaction to a value that PostgreSQL can't store.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OnBadValue {
    /// The whole batch fails.
    Fail,
    /// Upserts run under savepoints, and only the bad rows are rejected.
    RejectRow,
}

enum Failure {
    /// PostgreSQL can't store a value of an upsert.
    BadValue,
    Store(StoreError),
}

impl<E: Into<StoreError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Store(error.into())
    }
}

async fn attempt(db: &Postgres, plan: &Plan<'_>, on_bad_value: OnBadValue) -> Result<ApplyReport, Failure> {
    let mut tx = db.writer().begin().await?;
    if plan.term != Term::ALONE {
        Fence::new(TERM_SOURCE, plan.term.0).check(&mut tx).await?;
    }
    lock_repos(&mut tx, plan.locks()).await?;
    let mut applied = plan.applied.clone();
    if !plan.accounts.is_empty() {
        tx.announce_counting().await?;
        statuses::set(&mut tx, plan, &db.ids.parts(), &mut applied).await?;
    }
    tx.begin_counting().await?;
    let mut changes = Changes::default();
    let (deleted, revs) = plan.accounts.deleted();
    if !deleted.is_empty() {
        applied.purged += purge::postgres(&mut tx, &db.ids, &deleted, &revs, plan.now, &mut changes).await?;
    }
    let visible = hidden::divert_postgres(&mut tx, plan, &mut changes, &mut applied).await?;
    let rows = visible.as_deref().unwrap_or(&plan.rows);
    for rows in rows.chunk_by(|a, b| a.partition == b.partition) {
        let written = upsert_newer(&mut tx, rows, plan, on_bad_value, &mut applied).await?;
        finish_upserts(&mut tx, rows, &written, &mut changes, &mut applied).await?;
    }
    for rows in plan.deletes.chunk_by(|a, b| a.partition == b.partition) {
        let Some(DeleteRow { partition, .. }) = rows.first() else { continue };
        let mut done = delete(&mut tx, rows, plan, &mut changes, &mut applied).await?;
        if done < rows.len() as u64
            && future::forget_postgres(&mut tx, *partition, rows.iter().map(DeleteRow::key), plan.now).await?
        {
            done += delete(&mut tx, rows, plan, &mut changes, &mut applied).await?;
        }
        applied.stale += rows.len() as u64 - done;
    }
    let repairs = repairs::due(plan, &applied);
    if !repairs.is_empty() {
        sqlx::query(REQUEST_POSTGRES).bind(repairs).bind(plan.now).execute(&mut *tx).await?;
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
    tx.count(changes).await?;
    tx.commit().await?;
    Ok(applied)
}

/// Waits for batches of other hosts with the same repos. Their statements do not see each other's uncommitted rows: a
/// record could be inserted while its tombstone is written.
pub(super) async fn lock_repos(conn: &mut PgConnection, locks: &[i32]) -> Result<(), sqlx::Error> {
    if locks.is_empty() {
        return Ok(());
    }
    let sql = "SELECT pg_advisory_xact_lock($1, n) FROM UNNEST ($2::int[]) AS n";
    sqlx::query(sql).bind(REPO_LOCKS).bind(locks).execute(conn).await.map(drop)
}

/// Inserts the row of a plan with one row. One that PostgreSQL can't store is left out.
pub(super) async fn insert_one(
    conn: &mut PgConnection,
    plan: &Plan<'_>,
    changes: &mut Changes,
) -> Result<(), StoreError> {
    let mut applied = ApplyReport::default();
    match upsert_newer(conn, &plan.rows, plan, OnBadValue::RejectRow, &mut applied).await {
        Ok(written) => Ok(finish_upserts(conn, &plan.rows, &written, changes, &mut applied).await?),
        Err(Failure::BadValue) => Ok(()),
        Err(Failure::Store(error)) => Err(error),
    }
}

/// Upserts rows of one partition, and counts those that are stale.
async fn upsert_newer(
    conn: &mut PgConnection,
    rows: &[Row<'_>],
    plan: &Plan<'_>,
    on_bad_value: OnBadValue,
    applied: &mut ApplyReport,
) -> Result<Vec<WrittenRow>, Failure> {
    let Some(Row { partition, .. }) = rows.first() else { return Ok(Vec::new()) };
    let rejected = applied.rejected.len();
    let mut written = on_bad_value.upsert(conn, rows, plan, applied).await?;
    let mut stale = {
        let written: HashSet<Key<'_>> = written.iter().map(WrittenRow::key).collect();
        let is_stale = |row: &&Row<'_>| {
            !written.contains(&row.key()) && !applied.rejected[rejected..].iter().any(|r| *row.uri == r.uri)
        };
        rows.iter().filter(is_stale).copied().collect::<Vec<_>>()
    };
    if !stale.is_empty()
        && future::forget_postgres(conn, *partition, stale.iter().map(Row::key), plan.now).await?
    {
        let again = on_bad_value.upsert(conn, &stale, plan, applied).await?;
        stale.truncate(stale.len() - again.len());
        written.extend(again);
    }
    applied.stale += stale.len() as u64;
    Ok(written)
}

impl OnBadValue {
    async fn upsert(
        self,
        conn: &mut PgConnection,
        rows: &[Row<'_>],
        plan: &Plan<'_>,
        applied: &mut ApplyReport,
    ) -> Result<Vec<WrittenRow>, Failure> {
        match self {
            Self::Fail => upsert(conn, rows, plan).await.map_err(|error| {
                if is_bad_value(&error) { Failure::BadValue } else { Failure::Store(error.into()) }
            }),
            Self::RejectRow => Ok(upsert_by_halves(conn, rows, plan, applied).await?),
        }
    }
}

/// A row that an upsert inserted or updated.
#[derive(sqlx::FromRow)]
struct WrittenRow {
    id: i64,
    collection_id: i64,
    did_id: i64,
    rkey: String,
    inserted: bool,
}

impl WrittenRow {
    fn key(&self) -> Key<'_> {
        (self.collection_id, self.did_id, self.rkey.as_str())
    }
}

/// xmax is 0 in a row version that did not replace another.
///
/// A node can insert rows of a shard only if they have their ids ([`reserve_ids`]). The joins are where `NOT EXISTS` might be: Citus
/// plans no subqueries beside a function.
pub(in crate::store) static UPSERT: PerPartition<String> = PerPartition::new(|tables| {
    let Tables { records, tombstones, .. } = tables;
    let id = if tables.in_shards() { "v.id" } else { "nextval('record_ids')" };
    format!(
        "INSERT INTO {records} AS r \
         (id, collection_id, did_id, rkey, cid, cid_verified, rev, indexed_at, updated_at, record, record_text) \
     SELECT {id}, v.collection_id, v.did_id, v.rkey, v.cid, v.cid_verified, v.rev, $8, $8, v.record::jsonb, v.record \
     FROM UNNEST ($1::bigint[], $2::bigint[], $3::text[], $4::bytea[], $5::boolean[], $6::bigint[], \
         $7::text[], $9::bigint[]) AS v (collection_id, did_id, rkey, cid, cid_verified, rev, record, id) \
         LEFT JOIN {tombstones} t ON t.collection_id = v.collection_id \
             AND t.did_id = v.did_id AND t.rkey = v.rkey AND t.rev >= v.rev \
         LEFT JOIN repo_tombstones o ON o.did_id = v.did_id AND o.rev >= v.rev \
     WHERE t.rev IS NULL AND o.rev IS NULL \
     ON CONFLICT (collection_id, did_id, rkey) DO UPDATE SET cid = excluded.cid, \
         cid_verified = excluded.cid_verified, rev = excluded.rev, updated_at = excluded.updated_at, \
         record = excluded.record, record_text = excluded.record_text WHERE r.rev < excluded.rev \
     RETURNING r.id, r.collection_id, r.did_id, r.rkey, r.xmax = 0 AS inserted"
    )
});

/// Upserts rows of one partition.
async fn upsert(
    conn: &mut PgConnection,
    rows: &[Row<'_>],
    plan: &Plan<'_>,
) -> Result<Vec<WrittenRow>, sqlx::Error> {
    let Some(Row { partition, .. }) = rows.first() else { return Ok(Vec::new()) };
    let ids = match partition {
        Partition::Shard(_) => reserve_ids(conn, rows.len()).await?,
        Partition::Whole | Partition::Numbered(_) => Vec::new(),
    };
    sqlx::query_as(*UPSERT.of(*partition))
        .bind(rows.iter().map(|row| row.collection_id).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.did_id).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.uri.rkey.as_str()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.record.cid.map(|cid| cid.to_bytes())).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.record.cid_verified).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.rev).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.text).collect::<Vec<_>>())
        .bind(plan.now)
        .bind(ids)
        .fetch_all(conn)
        .await
}

/// Takes ids for new records.
async fn reserve_ids(conn: &mut PgConnection, number: usize) -> Result<Vec<i64>, sqlx::Error> {
    let sql = "SELECT nextval('record_ids') FROM generate_series(1, $1)";
    sqlx::query_scalar(sql).bind(number as i64).fetch_all(conn).await
}

/// Upserts all rows that PostgreSQL can store: splits refused parts in half until only the bad rows are left.
async fn upsert_by_halves(
    conn: &mut PgConnection,
    rows: &[Row<'_>],
    plan: &Plan<'_>,
    applied: &mut ApplyReport,
) -> Result<Vec<WrittenRow>, sqlx::Error> {
    let mut written = Vec::new();
    let mut parts = vec![rows];
    while let Some(part) = parts.pop() {
        sqlx::query("SAVEPOINT part").execute(&mut *conn).await?;
        match upsert(conn, part, plan).await {
            Ok(rows) => {
                written.extend(rows);
                sqlx::query("RELEASE SAVEPOINT part").execute(&mut *conn).await?;
            }
            Err(error) if is_bad_value(&error) => {
                sqlx::query("ROLLBACK TO SAVEPOINT part").execute(&mut *conn).await?;
                if let [row] = part {
                    applied.rejected.push(row.reject(error.to_string()));
                } else {
                    let (left, right) = part.split_at(part.len() / 2);
                    parts.extend([right, left]);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(written)
}

/// Counts the written rows of one partition and replaces their references.
async fn finish_upserts(
    conn: &mut PgConnection,
    rows: &[Row<'_>],
    written: &[WrittenRow],
    changes: &mut Changes,
    applied: &mut ApplyReport,
) -> Result<(), sqlx::Error> {
    let Some(Row { partition, .. }) = rows.first() else { return Ok(()) };
    let [delete_invalid, insert_invalid] = INVALID.of(*partition);
    for row in written {
        if row.inserted {
            changes.insert_record(row.collection_id, row.did_id);
            applied.inserted += 1;
        } else {
            applied.updated += 1;
        }
    }

    let updated: Vec<i64> = written.iter().filter(|row| !row.inserted).map(|row| row.id).collect();
    if !updated.is_empty() {
        let links = sqlx::query_as(REFS.of(*partition)[0]).bind(&updated).fetch_all(&mut *conn).await?;
        changes.delete_links(*partition, links);
        sqlx::query(*delete_invalid).bind(updated).execute(&mut *conn).await?;
    }

    if matches!(partition, Partition::Shard(_)) {
        changes.notes.extend(notes(rows, written));
    }
    let is_more = |row: &&Row<'_>| !row.record.refs.is_empty() || row.record.validity.reason().is_some();
    let with_more: HashMap<Key<'_>, &Row<'_>> =
        rows.iter().filter(is_more).map(|row| (row.key(), row)).collect();
    let mut refs = Refs::default();
    let mut invalid = Invalid::default();
    for written in written {
        let Some(row) = with_more.get(&written.key()) else { continue };
        invalid.push(row, written.id);
        refs.push(row.refs(), row.source(written.id));
    }
    refs.insert(conn, *partition, changes).await?;
    invalid.insert(conn, insert_invalid).await
}

/// The written rows, for subscriptions.
fn notes(rows: &[Row<'_>], written: &[WrittenRow]) -> Vec<Note> {
    let rows: HashMap<Key<'_>, &Row<'_>> = rows.iter().map(|row| (row.key(), row)).collect();
    let note = |written: &WrittenRow| {
        let row = rows.get(&written.key())?;
        Some(Note {
            collection_id: written.collection_id,
            did_id: written.did_id,
            rkey: written.rkey.clone(),
            action: if written.inserted { Action::Created } else { Action::Updated },
            cid: row.record.cid.map(|cid| cid.to_bytes().to_vec()),
            text: row.record.text.clone(),
        })
    };
    written.iter().filter_map(note).collect()
}

/// All parts of the statement see the table as it was before it. A tombstone is also written for a record that was never
/// indexed, but not where the record is newer.
///
/// Returns what was deleted, and a row of no collection with the number of tombstones.
pub(in crate::store) static DELETE: PerPartition<String> = PerPartition::new(|tables| {
    let Tables { records, tombstones, .. } = tables;
    let older = "USING v WHERE r.collection_id = v.collection_id \
         AND r.did_id = v.did_id AND r.rkey = v.rkey AND r.rev < v.rev";
    format!(
        "WITH v AS MATERIALIZED (SELECT * FROM UNNEST ($1::bigint[], $2::bigint[], $3::text[], $4::bigint[]) \
         AS v (collection_id, did_id, rkey, rev)), \
     {}, \
     tombs AS (INSERT INTO {tombstones} AS o (collection_id, did_id, rkey, rev, deleted_at) \
         SELECT v.collection_id, v.did_id, v.rkey, v.rev, $5 FROM v WHERE NOT EXISTS \
             (SELECT 1 FROM {records} r WHERE r.collection_id = v.collection_id AND r.did_id = v.did_id \
              AND r.rkey = v.rkey AND r.rev >= v.rev) \
             AND NOT EXISTS (SELECT 1 FROM repo_tombstones t WHERE t.did_id = v.did_id AND t.rev >= v.rev) \
         ON CONFLICT (collection_id, did_id, rkey) DO UPDATE SET rev = excluded.rev, \
             deleted_at = excluded.deleted_at WHERE o.rev < excluded.rev RETURNING 1) \
     {} UNION ALL SELECT NULL, NULL, count(*), NULL, NULL, NULL FROM tombs",
        remove::postgres(tables, older),
        report_postgres(tables)
    )
});

/// Deletes rows of one partition. Returns how many of the deletions are newer than what the database has.
async fn delete(
    conn: &mut PgConnection,
    rows: &[DeleteRow<'_>],
    plan: &Plan<'_>,
    changes: &mut Changes,
    applied: &mut ApplyReport,
) -> Result<u64, sqlx::Error> {
    let Some(DeleteRow { partition, .. }) = rows.first() else { return Ok(0) };
    let removed: Vec<RemovedRow> = sqlx::query_as(*DELETE.of(*partition))
        .bind(rows.iter().map(|row| row.collection_id).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.did_id).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.rkey).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.rev).collect::<Vec<_>>())
        .bind(plan.now)
        .fetch_all(conn)
        .await?;
    let tombstones = remove::other_number(&removed);
    applied.deleted += remove::note(*partition, removed, changes);
    Ok(tombstones)
}
