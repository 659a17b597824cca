//! Saves the progress of a job: repos that were resolved or are finished, and where the reading of a repo stopped.

use std::collections::BTreeMap;

use sqlx::AssertSqlSafe;

use super::traffic::Traffic;
use super::work::Counters;
use super::{PENDING, clean, json_rows};
use crate::store::status::RepoStatus;
use crate::store::types::to_json_text;
use crate::store::{Db, StoreError, in_transaction, on};

/// The progress of a job since the last checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// DIDs and the endpoints of their PDSs.
    pub resolved: BTreeMap<String, String>,
    pub finished: Vec<FinishedRepo>,
    pub counters: Counters,
    pub traffic: Traffic,
}

/// A repo that was read, or failed for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedRepo {
    pub did: String,
    pub records: i64,
    /// The kind and the text of the error; `None`: it was read.
    pub error: Option<(&'static str, String)>,
}

/// The position up to which the records of a collection of a repo were read.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct CollectionPosition {
    pub collection: String,
    /// The cursor of the next page.
    pub cursor: Option<String>,
    /// The last record key of the previous page.
    pub last_rkey: Option<String>,
    /// Whether all pages so far were in the order of record keys.
    pub is_ordered: bool,
    pub is_done: bool,
    /// Records read.
    pub records: i64,
}

/// Saves a checkpoint in one transaction.
pub async fn checkpoint(db: &Db, seq: i64, checkpoint: &Checkpoint) -> Result<(), StoreError> {
    let rows = json_rows(db);
    // Upserts of rows that exist: an update with a join may read all repos of the job.
    let resolve = format!(
        "INSERT INTO backfill_repos (job, did, pds_endpoint, status) \
         SELECT $1, v.value ->> 0, v.value ->> 1, {PENDING} FROM {rows} WHERE true \
         ON CONFLICT (job, did) DO UPDATE SET pds_endpoint = excluded.pds_endpoint"
    );
    let finish = format!(
        "INSERT INTO backfill_repos (job, did, status, records_fetched, error_kind, error) \
         SELECT $1, v.value ->> 0, v.value ->> 1, CAST(v.value ->> 2 AS BIGINT), v.value ->> 3, v.value ->> 4 \
         FROM {rows} WHERE true \
         ON CONFLICT (job, did) DO UPDATE SET status = excluded.status, \
             records_fetched = excluded.records_fetched, error_kind = excluded.error_kind, error = excluded.error"
    );
    let forget =
        format!("DELETE FROM backfill_pages WHERE job = $1 AND did IN (SELECT v.value ->> 0 FROM {rows})");
    let resolved = to_json_text(&checkpoint.resolved.iter().collect::<Vec<_>>());
    let finished: Vec<_> = checkpoint
        .finished
        .iter()
        .map(|repo| {
            let status = if repo.error.is_some() { RepoStatus::Failed } else { RepoStatus::Completed };
            let (kind, error) = repo.error.as_ref().map(|(kind, text)| (*kind, clean(text))).unzip();
            (&repo.did, status, repo.records, kind, error)
        })
        .collect();
    let finished = to_json_text(&finished);
    on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        if !checkpoint.resolved.is_empty() {
            sqlx::query(AssertSqlSafe(resolve)).bind(seq).bind(resolved).execute(&mut *tx).await?;
        }
        if !checkpoint.finished.is_empty() {
            sqlx::query(AssertSqlSafe(finish)).bind(seq).bind(&finished).execute(&mut *tx).await?;
            sqlx::query(AssertSqlSafe(forget)).bind(seq).bind(&finished).execute(&mut *tx).await?;
        }
        checkpoint.counters.save(seq).execute(&mut *tx).await?;
        checkpoint.traffic.save(seq).execute(&mut *tx).await?;
        tx.commit().await?;
    });
    Ok(())
}

/// Saves where the reading of a repo stopped, after the records before it were committed.
pub async fn save_positions(
    db: &Db,
    seq: i64,
    did: &str,
    positions: &[CollectionPosition],
) -> Result<(), StoreError> {
    let sql = format!(
        "INSERT INTO backfill_pages (job, did, collection, cursor, last_rkey, is_ordered, is_done, records) \
         SELECT $1, $3, v.value ->> 0, v.value ->> 1, v.value ->> 2, CAST(v.value ->> 3 AS BIGINT), \
             CAST(v.value ->> 4 AS BIGINT), CAST(v.value ->> 5 AS BIGINT) FROM {} WHERE true \
         ON CONFLICT (job, did, collection) DO UPDATE SET cursor = excluded.cursor, \
             last_rkey = excluded.last_rkey, is_ordered = excluded.is_ordered, is_done = excluded.is_done, \
             records = excluded.records",
        json_rows(db)
    );
    let rows: Vec<_> = positions
        .iter()
        .map(|position| {
            let cursor = position.cursor.as_deref().map(clean);
            let (is_ordered, is_done) = (i64::from(position.is_ordered), i64::from(position.is_done));
            (&position.collection, cursor, &position.last_rkey, is_ordered, is_done, position.records)
        })
        .collect();
    let rows = to_json_text(&rows);
    in_transaction!(db, |tx| {
        let query = sqlx::query(AssertSqlSafe(sql)).bind(seq).bind(rows).bind(did);
        query.execute(&mut *tx).await?.rows_affected()
    });
    Ok(())
}

/// Forgets where the reading of a repo stopped: it begins again.
pub async fn forget_positions(db: &Db, seq: i64, did: &str) -> Result<(), StoreError> {
    let sql = "DELETE FROM backfill_pages WHERE job = $1 AND did = $2";
    in_transaction!(db, |tx| sqlx::query(sql).bind(seq).bind(did).execute(&mut *tx).await?.rows_affected());
    Ok(())
}

/// Whether the job has stopped within any repo.
pub async fn has_positions(db: &Db, seq: i64) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM backfill_pages WHERE job = $1)";
    Ok(on!(db, reader, |pool| sqlx::query_scalar(sql).bind(seq).fetch_one(pool).await)?)
}

/// The positions at which the reading of a repo stopped; empty if it did not begin.
pub async fn positions(db: &Db, seq: i64, did: &str) -> Result<Vec<CollectionPosition>, StoreError> {
    let sql = "SELECT collection, cursor, last_rkey, is_ordered <> 0 AS is_ordered, is_done <> 0 AS is_done, records \
               FROM backfill_pages WHERE job = $1 AND did = $2";
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).bind(seq).bind(did).fetch_all(pool).await)?)
}
