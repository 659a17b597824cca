//! Deletes records on behalf of admins.

use belvedere_protocol::atproto::{Nsid, RecordUri};

use super::super::index::take_out::without_text;
use super::super::intern::{self, Collection};
use super::super::partitions::{PerPartition, Tables};
use super::super::{Db, Postgres, Sqlite, StoreError, on};

/// Deletes a record, and its references.
pub(in crate::store) static DELETE_ONE: PerPartition<[String; 2]> = PerPartition::new(
    |Tables { records, record_refs }| {
        [
            format!(
                "DELETE FROM {records} WHERE collection_id = $1 AND did_id = (SELECT id FROM dids WHERE did = $2) \
         AND rkey = $3 RETURNING id"
            ),
            format!("DELETE FROM {record_refs} WHERE record_id = $1"),
        ]
    },
);

/// Removes one record, visible or not, and its references. Leaves no tombstone: a later frame of the stream or a
/// backfill indexes the record again. `false` when it did not exist.
pub async fn delete(db: &Db, uri: &RecordUri) -> Result<bool, StoreError> {
    let Some(collection) = intern::collection(db, &uri.collection).await? else { return Ok(false) };
    let [row, refs] = DELETE_ONE.of(collection.partition);
    on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        let id: Option<i64> = sqlx::query_scalar(*row)
            .bind(collection.id)
            .bind(uri.did.as_str())
            .bind(uri.rkey.as_str())
            .fetch_optional(&mut *tx)
            .await?;
        if let Some(id) = id {
            sqlx::query(*refs).bind(id).execute(&mut *tx).await?;
        }
        tx.commit().await?;
        Ok(id.is_some())
    })
}

/// Rows per step of [`delete_collection`]: some tens of milliseconds, after which the stream's writer can commit.
const DELETE_STEP: i64 = 2_000;

/// Number of attempts of a step. The stream's writer locks rows in another order, so that PostgreSQL may end one of both as
/// a deadlock.
const MAX_TRIES: u32 = 5;

/// The result of [`delete_collection`], whether or not it reached the end.
#[derive(Debug)]
pub struct DeletedCollection {
    pub records: u64,
    pub end: Result<(), StoreError>,
}

/// Removes all rows of a collection, in steps between which other writers can commit.
pub async fn delete_collection(db: &Db, collection: &Nsid) -> DeletedCollection {
    let mut records = 0;
    let end = delete_steps(db, collection, &mut records).await;
    DeletedCollection { records, end }
}

async fn delete_steps(db: &Db, collection: &Nsid, deleted: &mut u64) -> Result<(), StoreError> {
    let Some(collection) = intern::collection(db, collection).await? else { return Ok(()) };
    let mut tries = 0;
    loop {
        let step = match db {
            Db::Sqlite(db) => delete_step_sqlite(db, collection.id).await,
            Db::Postgres(db) => delete_step_postgres(db, collection).await,
        };
        tries += 1;
        match step {
            Err(error) if error.is_conflict_of_transactions() && tries < MAX_TRIES => {}
            Err(error) => return Err(error),
            Ok(step) => {
                (*deleted, tries) = (*deleted + step, 0);
                if step < DELETE_STEP as u64 {
                    // Moderated records stay hidden when they are indexed again.
                    let sql = concat!(
                        "UPDATE hidden_records SET ",
                        without_text!(),
                        ", rev = 0 WHERE collection_id = $1"
                    );
                    return Ok(on!(db, writer, |pool| sqlx::query(sql)
                        .bind(collection.id)
                        .execute(pool)
                        .await
                        .map(drop))?);
                }
            }
        }
    }
}

async fn delete_step_sqlite(db: &Sqlite, collection: i64) -> Result<u64, StoreError> {
    let refs = "DELETE FROM record_refs WHERE record_id IN \
                (SELECT id FROM records WHERE collection_id = $1 ORDER BY indexed_at, id LIMIT $2)";
    let rows = "DELETE FROM records WHERE id IN \
                (SELECT id FROM records WHERE collection_id = $1 ORDER BY indexed_at, id LIMIT $2)";
    let mut tx = db.writer.begin_with("BEGIN IMMEDIATE").await?;
    sqlx::query(refs).bind(collection).bind(DELETE_STEP).execute(&mut *tx).await?;
    let deleted =
        sqlx::query(rows).bind(collection).bind(DELETE_STEP).execute(&mut *tx).await?.rows_affected();
    tx.commit().await?;
    Ok(deleted)
}

/// The number of rows is a literal: PostgreSQL assumes that a limit in a parameter is a tenth of the table, and would read
/// all of it.
pub(in crate::store) static DELETE_STEP_POSTGRES: PerPartition<String> = PerPartition::new(
    |Tables { records, record_refs }| {
        format!(
            "WITH gone AS (DELETE FROM {records} WHERE collection_id = $1 AND id IN \
         (SELECT id FROM {records} WHERE collection_id = $1 ORDER BY indexed_at, id LIMIT {DELETE_STEP} FOR UPDATE) RETURNING id), \
     refs AS (DELETE FROM {record_refs} f USING gone WHERE f.record_id = gone.id) \
     SELECT count(*) FROM gone"
        )
    },
);
async fn delete_step_postgres(db: &Postgres, collection: Collection) -> Result<u64, StoreError> {
    let query = sqlx::query_scalar(*DELETE_STEP_POSTGRES.of(collection.partition));
    let deleted: i64 = query.bind(collection.id).fetch_one(db.writer()).await?;
    Ok(deleted as u64)
}
