//! Turns the marks of repos that are to be read again (`store::index`) into jobs.

use sqlx::AssertSqlSafe;

use super::{NewJob, PENDING, REPAIR, queued};
use crate::store::types::to_json_text;
use crate::store::{Db, StoreError, on, only_row};
use belvedere_base::clock::Timestamp;

/// Queues a job of at most `limit` marked repos, those marked first, and removes their marks. The job has a `did` if it
/// has one repo; `new.did` is ignored. Returns its DIDs; `None` when no repo is marked.
pub async fn create_repair(
    db: &Db,
    new: &NewJob,
    limit: usize,
    now: Timestamp,
) -> Result<Option<Vec<String>>, StoreError> {
    // Most of the time there is none, and this needs no write connection.
    let is_any = "SELECT EXISTS (SELECT 1 FROM repo_repairs)";
    if !on!(db, reader, |pool| sqlx::query_scalar::<_, bool>(is_any).fetch_one(pool).await)? {
        return Ok(None);
    }
    let take = "DELETE FROM repo_repairs WHERE did_id IN \
                    (SELECT did_id FROM repo_repairs ORDER BY requested_at, did_id LIMIT $1) RETURNING did_id";
    // A statement of its own: in shards one that deletes can't read a table of which each node has a copy.
    let names = match db {
        Db::Sqlite(_) => "SELECT did FROM dids WHERE id IN (SELECT value FROM json_each($1)) ORDER BY did",
        Db::Postgres(_) => {
            "SELECT did FROM dids WHERE id IN (SELECT v::bigint FROM json_array_elements_text($1::json) v) ORDER BY did"
        }
    };
    let insert_job = format!(
        "INSERT INTO backfill_jobs (id, kind, collection, did, status, stage, is_discovered, total_repos, \
             created_by, created_at, started_at) \
         VALUES ($1, $7, $2, $3, {}, 1, $4, $5, $6, $6) RETURNING seq",
        queued()
    );
    let dids = match db {
        Db::Sqlite(_) => "json_each($2)",
        Db::Postgres(_) => "json_array_elements_text($2::json) AS v (value)",
    };
    let insert_repos =
        format!("INSERT INTO backfill_repos (job, did, status) SELECT $1, value, {PENDING} FROM {dids}");
    Ok(on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        let taken: Vec<i64> = sqlx::query_scalar(take).bind(limit as i64).fetch_all(&mut *tx).await?;
        if taken.is_empty() {
            return Ok(None);
        }
        let dids: Vec<String> =
            sqlx::query_scalar(names).bind(to_json_text(&taken)).fetch_all(&mut *tx).await?;
        let only = match &*dids {
            [did] => Some(did),
            _ => None,
        };
        let query =
            sqlx::query_scalar(AssertSqlSafe(insert_job)).bind(&new.id).bind(&new.collection).bind(only);
        let query = query.bind(dids.len() as i64).bind(&new.created_by).bind(now).bind(REPAIR);
        let seq: Option<i64> = query.fetch_all(&mut *tx).await.map(only_row)?;
        sqlx::query(AssertSqlSafe(insert_repos))
            .bind(seq)
            .bind(to_json_text(&dids))
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        Some(dids)
    }))
}
