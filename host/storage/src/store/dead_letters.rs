//! Stores dead letters: record and label changes whose script failed.

use sqlx::AssertSqlSafe;

use belvedere_base::clock::Timestamp;

use super::{Db, StoreError, on};

/// A stored dead letter.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct DeadLetterRow {
    pub id: i64,
    #[sqlx(flatten)]
    pub letter: DeadLetter,
    pub error: String,
    pub attempts: i64,
    pub created_at: Timestamp,
    pub resolved_at: Option<Timestamp>,
}

/// An event whose script failed, with the script's trigger.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct DeadLetter {
    /// The script's trigger id.
    pub script_ref: String,
    /// `record` or `label`.
    pub host_kind: String,
    /// `<nsid>:<action>`, or the labeler's DID.
    pub host_id: String,
    /// The record's collection, or the trigger id of a label's script.
    pub lexicon_id: String,
    /// The record's collection, or the subject of the label's trigger.
    pub collection: String,
    pub uri: String,
    /// The record's author, or the labeler.
    pub did: String,
    /// The record key, or the label's value.
    pub rkey: String,
    /// `create`, `update`, `delete` or `label`.
    pub action: String,
    pub rev: Option<String>,
    pub cid: Option<String>,
    /// JSON text; `None` for deletes.
    pub payload: Option<String>,
}

/// Selects letters; all conditions must hold.
#[derive(Clone, Debug, Default)]
pub struct DeadLetterFilter {
    pub collection: Option<String>,
    /// `None`: resolved and unresolved letters.
    pub resolved: Option<bool>,
    /// Only letters with a smaller id.
    pub before: Option<i64>,
}

const COLUMNS: &str = "id, script_ref, host_kind, host_id, lexicon_id, collection, uri, did, rkey, action, rev, cid, \
     payload, error, attempts, created_at, resolved_at";

/// Stores a letter; `false` when it exists. `event_key` identifies script and change, so that a change that is
/// delivered twice, for example after a crash, becomes one letter.
pub async fn insert(
    db: &Db,
    event_key: &str,
    letter: &DeadLetter,
    error: &str,
    attempts: u32,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let sql = "INSERT INTO dead_letters (event_key, script_ref, host_kind, host_id, lexicon_id, collection, uri, did, \
               rkey, action, rev, cid, payload, error, attempts, created_at) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16) \
               ON CONFLICT (event_key) DO NOTHING";
    // PostgreSQL's text can't contain U+0000, and the content comes from the network.
    let clean = |text: &str| text.replace('\0', "\u{fffd}");
    let l = letter;
    let written = on!(db, writer, |pool| {
        sqlx::query(sql)
            .bind(event_key)
            .bind(&l.script_ref)
            .bind(&l.host_kind)
            .bind(&l.host_id)
            .bind(&l.lexicon_id)
            .bind(&l.collection)
            .bind(clean(&l.uri))
            .bind(&l.did)
            .bind(clean(&l.rkey))
            .bind(&l.action)
            .bind(&l.rev)
            .bind(&l.cid)
            .bind(l.payload.as_deref().map(clean))
            .bind(clean(error))
            .bind(i64::from(attempts))
            .bind(now)
            .execute(pool)
            .await?
            .rows_affected()
    });
    Ok(written > 0)
}

/// Newest first.
pub async fn list(db: &Db, filter: &DeadLetterFilter, limit: u32) -> Result<Vec<DeadLetterRow>, StoreError> {
    let sql =
        format!("SELECT {COLUMNS} FROM dead_letters WHERE {} ORDER BY id DESC LIMIT $3", conditions(filter));
    let before = filter.before.unwrap_or(i64::MAX);
    Ok(on!(db, reader, |pool| {
        let query = sqlx::query_as(AssertSqlSafe(sql)).bind(before);
        query.bind(&filter.collection).bind(i64::from(limit)).fetch_all(pool).await
    })?)
}

pub async fn count(db: &Db, filter: &DeadLetterFilter) -> Result<i64, StoreError> {
    let sql = format!("SELECT count(*) FROM dead_letters WHERE {}", conditions(filter));
    let before = filter.before.unwrap_or(i64::MAX);
    Ok(on!(db, reader, |pool| {
        sqlx::query_scalar(AssertSqlSafe(sql)).bind(before).bind(&filter.collection).fetch_one(pool).await
    })?)
}

pub async fn get(db: &Db, id: i64) -> Result<Option<DeadLetterRow>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM dead_letters WHERE id = $1");
    Ok(on!(db, reader, |pool| sqlx::query_as(AssertSqlSafe(sql)).bind(id).fetch_optional(pool).await)?)
}

/// Marks a letter as resolved; `false` when it does not exist. A letter that is resolved already keeps its time.
pub async fn resolve(db: &Db, id: i64, now: Timestamp) -> Result<bool, StoreError> {
    let sql = "UPDATE dead_letters SET resolved_at = coalesce(resolved_at, $2) WHERE id = $1";
    let found =
        on!(db, writer, |pool| sqlx::query(sql).bind(id).bind(now).execute(pool).await?.rows_affected());
    Ok(found > 0)
}

/// Records another failed attempt.
pub async fn failed_again(db: &Db, id: i64, error: &str) -> Result<(), StoreError> {
    let sql = "UPDATE dead_letters SET error = $2, attempts = attempts + 1 WHERE id = $1";
    let error = error.replace('\0', "\u{fffd}");
    on!(db, writer, |pool| sqlx::query(sql).bind(id).bind(error).execute(pool).await.map(drop))?;
    Ok(())
}

/// Removes the oldest unresolved letters of a label script beyond the newest `keep`, a thousand at most.
pub async fn trim_labels(db: &Db, script_ref: &str, keep: u32) -> Result<(), StoreError> {
    let sql = "DELETE FROM dead_letters WHERE id IN (SELECT id FROM dead_letters \
               WHERE script_ref = $1 AND host_kind = 'label' AND resolved_at IS NULL \
               ORDER BY id DESC LIMIT 1000 OFFSET $2)";
    on!(db, writer, |pool| {
        sqlx::query(sql).bind(script_ref).bind(i64::from(keep)).execute(pool).await.map(drop)
    })?;
    Ok(())
}

/// Removes letters resolved before `before`, at most `max` per call. Returns how many.
pub async fn delete_resolved_before(db: &Db, before: Timestamp, max: u32) -> Result<u64, StoreError> {
    let sql =
        "DELETE FROM dead_letters WHERE id IN (SELECT id FROM dead_letters WHERE resolved_at < $1 LIMIT $2)";
    Ok(on!(db, writer, |pool| {
        sqlx::query(sql).bind(before).bind(i64::from(max)).execute(pool).await?.rows_affected()
    }))
}

/// The WHERE condition of a filter: $1 is the keyset, $2 the collection.
fn conditions(filter: &DeadLetterFilter) -> String {
    let collection = if filter.collection.is_some() { "collection = $2" } else { "CAST($2 AS TEXT) IS NULL" };
    let resolved = match filter.resolved {
        Some(true) => " AND resolved_at IS NOT NULL",
        Some(false) => " AND resolved_at IS NULL",
        None => "",
    };
    format!("id < $1 AND {collection}{resolved}")
}
