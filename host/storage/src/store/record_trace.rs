//! Reads everything that the database has about one record, also when it is not visible.

use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::RecordUri;

use super::partitions::{PerPartition, Tables};
use super::status::{BackfillStatus, RepoStatus};
use super::{Db, StoreError, intern, on};

/// The state of a record in the index.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct IndexedTrace {
    pub indexed_at: Timestamp,
    pub updated_at: Timestamp,
    /// The reason why its lexicon rejects the record.
    pub invalid_reason: Option<String>,
}

/// A dead letter of a record.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct DeadLetterTrace {
    pub id: i64,
    pub script_ref: String,
    pub error: String,
    pub created_at: Timestamp,
    pub resolved_at: Option<Timestamp>,
}

/// A backfill that read the record's collection, or should have, and how it ended for the record's repo.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct BackfillTrace {
    pub id: String,
    pub status: BackfillStatus,
    pub created_at: Timestamp,
    pub completed_at: Option<Timestamp>,
    /// `None` when the backfill has no such repo, or its repos were removed.
    pub repo_status: Option<RepoStatus>,
    pub repo_error: Option<String>,
}

/// Backfills that are looked at, the latest first.
const MAX_BACKFILLS: i64 = 3;

/// The record in the index, also of a hidden account.
pub async fn indexed(db: &Db, uri: &RecordUri) -> Result<Option<IndexedTrace>, StoreError> {
    static INDEXED: PerPartition<String> = PerPartition::new(
        |Tables { records, invalid_records, .. }| {
            format!(
                "SELECT r.indexed_at, r.updated_at, \
             (SELECT i.reason FROM {invalid_records} i WHERE i.record_id = r.id) AS invalid_reason \
         FROM {records} r WHERE r.collection_id = $1 AND r.did_id = (SELECT id FROM dids WHERE did = $2) AND r.rkey = $3"
            )
        },
    );
    let Some(collection) = intern::collection(db, &uri.collection).await? else { return Ok(None) };
    let sql = *INDEXED.of(collection.partition);
    Ok(on!(db, reader, |pool| {
        let query = sqlx::query_as(sql).bind(collection.id).bind(uri.did.as_str()).bind(uri.rkey.as_str());
        query.fetch_optional(pool).await
    })?)
}

/// When the record was deleted, if that was within the last days and it was not created again.
pub async fn deleted_at(db: &Db, uri: &RecordUri) -> Result<Option<Timestamp>, StoreError> {
    static DELETED_AT: PerPartition<String> = PerPartition::new(|Tables { tombstones, .. }| {
        format!(
            "SELECT deleted_at FROM {tombstones} WHERE collection_id = $1 \
                 AND did_id = (SELECT id FROM dids WHERE did = $2) AND rkey = $3"
        )
    });
    let Some(collection) = intern::collection(db, &uri.collection).await? else { return Ok(None) };
    let sql = *DELETED_AT.of(collection.partition);
    Ok(on!(db, reader, |pool| {
        let query =
            sqlx::query_scalar(sql).bind(collection.id).bind(uri.did.as_str()).bind(uri.rkey.as_str());
        query.fetch_optional(pool).await
    })?)
}

/// The last dead letter of the record.
pub async fn letter(db: &Db, uri: &RecordUri) -> Result<Option<DeadLetterTrace>, StoreError> {
    let sql = "SELECT id, script_ref, error, created_at, resolved_at FROM dead_letters \
               WHERE did = $1 AND uri = $2 AND host_kind = 'record' ORDER BY id DESC LIMIT 1";
    Ok(on!(db, reader, |pool| {
        sqlx::query_as(sql).bind(uri.did.as_str()).bind(uri.to_string()).fetch_optional(pool).await
    })?)
}

/// The last backfills of the record's collection and repo, the latest first.
pub async fn backfills(db: &Db, uri: &RecordUri) -> Result<Vec<BackfillTrace>, StoreError> {
    let sql = "SELECT j.id, j.status, j.created_at, j.completed_at, r.status AS repo_status, r.error AS repo_error \
               FROM backfill_jobs j LEFT JOIN backfill_repos r ON r.job = j.seq AND r.did = $1 \
               WHERE j.kind <> 'catch_up' AND (j.collection IS NULL OR j.collection = $2) \
                   AND (j.did IS NULL OR j.did = $1) ORDER BY j.seq DESC LIMIT $3";
    Ok(on!(db, reader, |pool| {
        let query = sqlx::query_as(sql).bind(uri.did.as_str()).bind(uri.collection.as_str());
        query.bind(MAX_BACKFILLS).fetch_all(pool).await
    })?)
}
