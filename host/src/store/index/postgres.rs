//! Batches into PostgreSQL: arrays through UNNEST, one statement per kind of change.
//!
//! Other hosts write too, so the statements carry the rules themselves: the comparison of `rev` stands in the
//! upsert. A record that `jsonb` can't hold (U+0000, a lone surrogate, a number beyond numeric) fails its whole
//! statement; then the batch is applied again, and this time the bad rows are found by halving.

use std::collections::HashMap;

use sqlx::PgConnection;

use super::super::error::is_bad_value;
use super::super::lease::{TERM_SOURCE, Term};
use super::super::{Postgres, StoreError};
use super::plan::{Key, Plan, Row};
use super::{Applied, SET_CURSOR};

pub(super) async fn apply(db: &Postgres, plan: Plan<'_>) -> Result<Applied, StoreError> {
    match attempt(db, &plan, Caution::None).await {
        Err(Failure::BadValue) => match attempt(db, &plan, Caution::Halve).await {
            Ok(applied) => Ok(applied),
            Err(Failure::BadValue) => Err(StoreError::Corrupt("a batch without bad rows was refused".into())),
            Err(Failure::Store(error)) => Err(error),
        },
        Err(Failure::Store(error)) => Err(error),
        Ok(applied) => Ok(applied),
    }
}

/// Whether upserts run under savepoints, so that bad rows can be told from good ones.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Caution {
    None,
    Halve,
}

enum Failure {
    /// A value of an upsert was refused.
    BadValue,
    Store(StoreError),
}

impl<E: Into<StoreError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Store(error.into())
    }
}

async fn attempt(db: &Postgres, plan: &Plan<'_>, caution: Caution) -> Result<Applied, Failure> {
    let mut tx = db.pool.begin().await?;
    if plan.term != Term::ALONE {
        hold(&mut tx, plan.term).await?;
    }
    let mut applied = plan.applied.clone();
    if !plan.accounts.is_empty() {
        accounts(&mut tx, plan, &mut applied).await?;
    }
    if !plan.rows.is_empty() {
        let written = match caution {
            Caution::None => upsert(&mut tx, &plan.rows, plan).await.map_err(|error| {
                if is_bad_value(&error) { Failure::BadValue } else { Failure::Store(error.into()) }
            })?,
            Caution::Halve => halve(&mut tx, plan, &mut applied).await?,
        };
        account_for(&mut tx, plan, &written, &mut applied).await?;
    }
    if !plan.gone.is_empty() {
        delete(&mut tx, plan, &mut applied).await?;
    }
    if let Some(cursor) = plan.cursor {
        sqlx::query(SET_CURSOR)
            .bind(&cursor.source)
            .bind(cursor.cursor)
            .bind(plan.now)
            .execute(&mut *tx)
            .await?;
    }
    tx.commit().await?;
    Ok(applied)
}

/// Keeps the next term from beginning before the transaction ends.
async fn hold(conn: &mut PgConnection, term: Term) -> Result<(), StoreError> {
    let sql = "SELECT 1 FROM stream_cursors WHERE source = $1 AND cursor = $2 FOR SHARE";
    let held = sqlx::query(sql).bind(TERM_SOURCE).bind(term.0).fetch_optional(conn).await?;
    held.map(drop).ok_or(StoreError::Superseded)
}

/// A row that an upsert wrote.
#[derive(sqlx::FromRow)]
struct Written {
    id: i64,
    collection_id: i64,
    did_id: i64,
    rkey: String,
    inserted: bool,
}

async fn upsert(
    conn: &mut PgConnection,
    rows: &[Row<'_>],
    plan: &Plan<'_>,
) -> Result<Vec<Written>, sqlx::Error> {
    // xmax is 0 in a row version that replaced nothing.
    let sql = "INSERT INTO records \
                   (collection_id, did_id, rkey, cid, cid_verified, rev, indexed_at, updated_at, record) \
               SELECT v.collection_id, v.did_id, v.rkey, v.cid, v.cid_verified, v.rev, $8, $8, v.record::jsonb \
               FROM UNNEST ($1::bigint[], $2::bigint[], $3::text[], $4::bytea[], $5::boolean[], $6::bigint[], \
                   $7::text[]) AS v (collection_id, did_id, rkey, cid, cid_verified, rev, record) \
               WHERE NOT EXISTS (SELECT 1 FROM tombstones t WHERE t.collection_id = v.collection_id \
                   AND t.did_id = v.did_id AND t.rkey = v.rkey AND t.rev >= v.rev) \
               ON CONFLICT (collection_id, did_id, rkey) DO UPDATE SET cid = excluded.cid, \
                   cid_verified = excluded.cid_verified, rev = excluded.rev, updated_at = excluded.updated_at, \
                   record = excluded.record WHERE records.rev < excluded.rev \
               RETURNING id, collection_id, did_id, rkey, xmax = 0 AS inserted";
    sqlx::query_as(sql)
        .bind(rows.iter().map(|row| row.collection_id).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.did_id).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.upsert.rkey.as_str()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.upsert.cid.map(|cid| cid.to_bytes())).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.upsert.cid_verified).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.rev).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.text).collect::<Vec<_>>())
        .bind(plan.now)
        .fetch_all(conn)
        .await
}

/// Upserts what can be, by halving whatever is refused until single rows are left.
async fn halve(
    conn: &mut PgConnection,
    plan: &Plan<'_>,
    applied: &mut Applied,
) -> Result<Vec<Written>, sqlx::Error> {
    let mut written = Vec::new();
    let mut parts = vec![plan.rows.as_slice()];
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

/// Counts what was written, and replaces its references.
async fn account_for(
    conn: &mut PgConnection,
    plan: &Plan<'_>,
    written: &[Written],
    applied: &mut Applied,
) -> Result<(), sqlx::Error> {
    let inserted = written.iter().filter(|row| row.inserted).count() as u64;
    applied.inserted += inserted;
    applied.updated += written.len() as u64 - inserted;
    let refused = applied.rejected.len() - plan.applied.rejected.len();
    applied.stale += (plan.rows.len() - refused - written.len()) as u64;

    let updated: Vec<i64> = written.iter().filter(|row| !row.inserted).map(|row| row.id).collect();
    if !updated.is_empty() {
        let sql = "DELETE FROM record_refs WHERE record_id = ANY($1)";
        sqlx::query(sql).bind(updated).execute(&mut *conn).await?;
    }

    let with_refs: HashMap<Key<'_>, &Row<'_>> =
        plan.rows.iter().filter(|row| !row.upsert.refs.is_empty()).map(|row| (row.key(), row)).collect();
    let (mut targets, mut collections, mut ids) = (Vec::new(), Vec::new(), Vec::new());
    for Written { id, collection_id, did_id, rkey, .. } in written {
        let Some(row) = with_refs.get(&(*collection_id, *did_id, rkey.as_str())) else { continue };
        for target in row.refs() {
            targets.push(target);
            collections.push(*collection_id);
            ids.push(*id);
        }
    }
    if !targets.is_empty() {
        let sql = "INSERT INTO record_refs (target, collection_id, record_id) \
                   SELECT * FROM UNNEST ($1::text[], $2::bigint[], $3::bigint[]) ON CONFLICT DO NOTHING";
        sqlx::query(sql).bind(targets).bind(collections).bind(ids).execute(&mut *conn).await?;
    }
    Ok(())
}

async fn delete(conn: &mut PgConnection, plan: &Plan<'_>, applied: &mut Applied) -> Result<(), sqlx::Error> {
    // All parts see the table as it was before the statement. A tombstone is left also for a record that was never
    // seen, but not where the row is newer.
    let sql = "WITH v AS MATERIALIZED (SELECT * FROM UNNEST ($1::bigint[], $2::bigint[], $3::text[], $4::bigint[]) \
                   AS v (collection_id, did_id, rkey, rev)), \
               gone AS (DELETE FROM records r USING v WHERE r.collection_id = v.collection_id \
                   AND r.did_id = v.did_id AND r.rkey = v.rkey AND r.rev < v.rev RETURNING r.id), \
               refs AS (DELETE FROM record_refs f USING gone WHERE f.record_id = gone.id), \
               tombs AS (INSERT INTO tombstones (collection_id, did_id, rkey, rev, deleted_at) \
                   SELECT v.collection_id, v.did_id, v.rkey, v.rev, $5 FROM v WHERE NOT EXISTS \
                       (SELECT 1 FROM records r WHERE r.collection_id = v.collection_id AND r.did_id = v.did_id \
                        AND r.rkey = v.rkey AND r.rev >= v.rev) \
                   ON CONFLICT (collection_id, did_id, rkey) DO UPDATE SET rev = excluded.rev, \
                       deleted_at = excluded.deleted_at WHERE tombstones.rev < excluded.rev RETURNING 1) \
               SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM tombs)";
    let gone = &plan.gone;
    let (deleted, tombstones): (i64, i64) = sqlx::query_as(sql)
        .bind(gone.iter().map(|gone| gone.collection_id).collect::<Vec<_>>())
        .bind(gone.iter().map(|gone| gone.did_id).collect::<Vec<_>>())
        .bind(gone.iter().map(|gone| gone.rkey).collect::<Vec<_>>())
        .bind(gone.iter().map(|gone| gone.rev).collect::<Vec<_>>())
        .bind(plan.now)
        .fetch_one(conn)
        .await?;
    applied.deleted += deleted as u64;
    applied.stale += gone.len() as u64 - tombstones as u64;
    Ok(())
}

async fn accounts(
    conn: &mut PgConnection,
    plan: &Plan<'_>,
    applied: &mut Applied,
) -> Result<(), sqlx::Error> {
    let (dids, statuses) = plan.accounts.statuses();
    let sql = "UPDATE dids SET status = v.status, status_changed_at = $3 \
               FROM UNNEST ($1::text[], $2::smallint[]) AS v (did, status) \
               WHERE dids.did = v.did AND dids.status <> v.status";
    sqlx::query(sql).bind(dids).bind(statuses).bind(plan.now).execute(&mut *conn).await?;

    let purged = plan.accounts.purged();
    if purged.is_empty() {
        return Ok(());
    }
    // Every record of these accounts, through the unique key of each collection. Their tombstones too: whether a
    // batch had left one must not decide what happens to the account later.
    let sql = "WITH gone AS (DELETE FROM records r USING collections c, dids d \
                   WHERE r.collection_id = c.id AND r.did_id = d.id AND d.did = ANY($1) RETURNING r.id), \
               refs AS (DELETE FROM record_refs f USING gone WHERE f.record_id = gone.id), \
               tombs AS (DELETE FROM tombstones t USING collections c, dids d \
                   WHERE t.collection_id = c.id AND t.did_id = d.id AND d.did = ANY($1)) \
               SELECT count(*) FROM gone";
    let rows: i64 = sqlx::query_scalar(sql).bind(purged).fetch_one(&mut *conn).await?;
    applied.purged += rows as u64;
    Ok(())
}
