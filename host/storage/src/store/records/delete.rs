//! Deletes records on behalf of admins.

use belvedere_protocol::atproto::{Nsid, RecordUri};

use super::super::counts::{Changes, Counting as _};
use super::super::index::moderated::Moderation as _;
use super::super::index::remove::{self, FoundRow, RemovedRow, report_postgres};
use super::super::index::take_out::without_text;
use super::super::intern::{self, Collection};
use super::super::partitions::PerPartition;
use super::super::{Db, Postgres, Sqlite, StoreError, on};

const FIND_ONE_SQLITE: &str = "SELECT r.id, r.collection_id, r.did_id FROM records r \
    WHERE r.collection_id = $1 AND r.did_id = (SELECT id FROM dids WHERE did = $2) AND r.rkey = $3";
pub(in crate::store) static DELETE_ONE_POSTGRES: PerPartition<String> = PerPartition::new(|tables| {
    let of_uri =
        "WHERE r.collection_id = $1 AND r.did_id = (SELECT id FROM dids WHERE did = $2) AND r.rkey = $3";
    format!("WITH {} {}", remove::postgres(tables, of_uri), report_postgres(tables))
});

/// Removes one record, visible or not, and its references. Leaves no tombstone: a later frame of the stream or a
/// backfill indexes the record again. `false` when it did not exist.
pub async fn delete(db: &Db, uri: &RecordUri) -> Result<bool, StoreError> {
    let Some(collection) = intern::collection(db, &uri.collection).await? else { return Ok(false) };
    let mut changes = Changes::default();
    let deleted = match db {
        Db::Sqlite(db) => {
            let mut tx = db.writer.begin_with("BEGIN IMMEDIATE").await?;
            tx.begin_counting().await?;
            let query = sqlx::query_as(FIND_ONE_SQLITE).bind(collection.id).bind(uri.did.as_str());
            let found: Vec<FoundRow> = query.bind(uri.rkey.as_str()).fetch_all(&mut *tx).await?;
            let deleted = remove::sqlite(&mut tx, &found, &mut changes).await?;
            tx.count(changes).await?;
            tx.commit().await?;
            deleted
        }
        Db::Postgres(db) => {
            let mut tx = db.writer().begin().await?;
            tx.lock(&uri.did).await?;
            tx.begin_counting().await?;
            let query = sqlx::query_as(*DELETE_ONE_POSTGRES.of(collection.partition)).bind(collection.id);
            let query = query.bind(uri.did.as_str()).bind(uri.rkey.as_str());
            let removed: Vec<RemovedRow> = query.fetch_all(&mut *tx).await?;
            let deleted = remove::note(collection.partition, removed, &mut changes);
            tx.count(changes).await?;
            tx.commit().await?;
            deleted
        }
    };
    Ok(deleted > 0)
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
    let sql = "SELECT id, collection_id, did_id FROM records WHERE collection_id = $1 ORDER BY indexed_at, id LIMIT $2";
    let mut changes = Changes::default();
    let mut tx = db.writer.begin_with("BEGIN IMMEDIATE").await?;
    tx.begin_counting().await?;
    let query = sqlx::query_as(sql).bind(collection).bind(DELETE_STEP);
    let found: Vec<FoundRow> = query.fetch_all(&mut *tx).await?;
    let deleted = remove::sqlite(&mut tx, &found, &mut changes).await?;
    tx.count(changes).await?;
    tx.commit().await?;
    Ok(deleted)
}

/// The number of rows is a literal: PostgreSQL assumes that a limit in a parameter is a tenth of the table, and would read
/// all of it.
pub(in crate::store) static LOCK_STEP_POSTGRES: PerPartition<String> = PerPartition::new(|tables| {
    format!(
        "SELECT id FROM {} WHERE collection_id = $1 ORDER BY indexed_at, id LIMIT {DELETE_STEP} FOR UPDATE",
        tables.records
    )
});

async fn delete_step_postgres(db: &Postgres, collection: Collection) -> Result<u64, StoreError> {
    let mut changes = Changes::default();
    let mut tx = db.writer().begin().await?;
    tx.begin_counting().await?;
    let query = sqlx::query_scalar(*LOCK_STEP_POSTGRES.of(collection.partition)).bind(collection.id);
    let locked: Vec<i64> = query.fetch_all(&mut *tx).await?;
    let deleted = remove::locked_postgres(&mut tx, collection, &locked, &mut changes).await?;
    tx.count(changes).await?;
    tx.commit().await?;
    Ok(deleted)
}
