//! Deletes what the index has of deleted accounts, and tombstones that are no longer needed.
//!
//! Gone with an account are its records with their references and search rows, the tombstones of records, the labels on
//! its records, and its dead letters. Labels on the account itself stay: they are the labeler's, and apply again if the
//! account returns.

use sqlx::{PgConnection, SqliteConnection};

use super::AccountStatus;
use crate::clock::Timestamp;
use crate::store::types::to_json_text;
use crate::store::{Db, StoreError, on};

/// Writes the tombstones of repos, deletes what is older, and forgets that the repos were to be read again. `pairs` is a JSON list of `[did, rev]`. A repo that has
/// the tombstone already is left alone: the event was delivered before. Returns the number of deleted records.
pub(super) async fn sqlite(
    conn: &mut SqliteConnection,
    pairs: &str,
    now: Timestamp,
) -> Result<u64, StoreError> {
    let forget = "DELETE FROM repo_repairs WHERE did_id IN \
                  (SELECT d.id FROM json_each($1) AS v CROSS JOIN dids d WHERE d.did = v.value ->> 0)";
    sqlx::query(forget).bind(pairs).execute(&mut *conn).await?;
    let mark = "INSERT INTO repo_tombstones (did_id, rev, deleted_at) \
                SELECT d.id, v.value ->> 1, $2 FROM json_each($1) AS v CROSS JOIN dids d WHERE d.did = v.value ->> 0 \
                ON CONFLICT (did_id) DO UPDATE SET rev = excluded.rev, deleted_at = excluded.deleted_at \
                    WHERE repo_tombstones.rev < excluded.rev RETURNING did_id";
    let marked: Vec<i64> = sqlx::query_scalar(mark).bind(pairs).bind(now).fetch_all(&mut *conn).await?;
    if marked.is_empty() {
        return Ok(0);
    }
    let marked = to_json_text(&marked);
    // Finds all records of these accounts through the unique index, whose first column is the collection.
    let refs = "DELETE FROM record_refs WHERE record_id IN (SELECT r.id FROM json_each($1) AS v \
                    CROSS JOIN repo_tombstones t ON t.did_id = v.value CROSS JOIN collections c \
                    CROSS JOIN records r ON r.collection_id = c.id AND r.did_id = t.did_id AND r.rev <= t.rev)";
    let rows = "DELETE FROM records WHERE id IN (SELECT r.id FROM json_each($1) AS v \
                    CROSS JOIN repo_tombstones t ON t.did_id = v.value CROSS JOIN collections c \
                    CROSS JOIN records r ON r.collection_id = c.id AND r.did_id = t.did_id AND r.rev <= t.rev)";
    let tombstones = "DELETE FROM tombstones WHERE (collection_id, did_id, rkey) IN \
                    (SELECT o.collection_id, o.did_id, o.rkey FROM json_each($1) AS v \
                    CROSS JOIN repo_tombstones t ON t.did_id = v.value CROSS JOIN collections c \
                    CROSS JOIN tombstones o ON o.collection_id = c.id AND o.did_id = t.did_id AND o.rev <= t.rev)";
    // The character after the slash ends the range of the account's URIs.
    let labels = "DELETE FROM labels WHERE (uri, src, val) IN (SELECT l.uri, l.src, l.val FROM json_each($1) AS v \
                    CROSS JOIN dids d ON d.id = v.value \
                    CROSS JOIN labels l ON l.uri > 'at://' || d.did || '/' AND l.uri < 'at://' || d.did || '0')";
    let letters = "DELETE FROM dead_letters WHERE did IN \
                    (SELECT d.did FROM json_each($1) AS v CROSS JOIN dids d ON d.id = v.value)";
    for sql in [refs, tombstones, labels, letters] {
        sqlx::query(sql).bind(&marked).execute(&mut *conn).await?;
    }
    Ok(sqlx::query(rows).bind(&marked).execute(&mut *conn).await?.rows_affected())
}

/// As [`sqlite`].
pub(super) async fn postgres(
    conn: &mut PgConnection,
    dids: &[&str],
    revs: &[i64],
    now: Timestamp,
) -> Result<u64, sqlx::Error> {
    let forget = "DELETE FROM repo_repairs WHERE did_id IN (SELECT id FROM dids WHERE did = ANY($1))";
    sqlx::query(forget).bind(dids).execute(&mut *conn).await?;
    let mark = "INSERT INTO repo_tombstones (did_id, rev, deleted_at) \
                SELECT d.id, v.rev, $3 FROM UNNEST ($1::text[], $2::bigint[]) AS v (did, rev) \
                JOIN dids d ON d.did = v.did \
                ON CONFLICT (did_id) DO UPDATE SET rev = excluded.rev, deleted_at = excluded.deleted_at \
                    WHERE repo_tombstones.rev < excluded.rev RETURNING did_id";
    let query = sqlx::query_scalar(mark).bind(dids).bind(revs).bind(now);
    let marked: Vec<i64> = query.fetch_all(&mut *conn).await?;
    if marked.is_empty() {
        return Ok(0);
    }
    // Finds all records of these accounts through the unique index, whose first column is the collection.
    let rows = "WITH gone AS (DELETE FROM records r USING collections c, repo_tombstones t \
                    WHERE t.did_id = ANY($1) AND r.collection_id = c.id AND r.did_id = t.did_id AND r.rev <= t.rev \
                    RETURNING r.collection_id, r.id), \
                refs AS (DELETE FROM record_refs f USING gone \
                    WHERE f.collection_id = gone.collection_id AND f.record_id = gone.id), \
                tombs AS (DELETE FROM tombstones o USING collections c, repo_tombstones t \
                    WHERE t.did_id = ANY($1) AND o.collection_id = c.id AND o.did_id = t.did_id AND o.rev <= t.rev) \
                SELECT count(*) FROM gone";
    // The character after the slash ends the range of the account's URIs.
    let labels = "DELETE FROM labels l USING dids d WHERE d.id = ANY($1) \
                  AND l.uri > 'at://' || d.did || '/' AND l.uri < 'at://' || d.did || '0'";
    let letters =
        "DELETE FROM dead_letters l USING dids d WHERE d.id = ANY($1) AND l.did = d.did COLLATE \"default\"";
    for sql in [labels, letters] {
        sqlx::query(sql).bind(&marked).execute(&mut *conn).await?;
    }
    let rows: i64 = sqlx::query_scalar(rows).bind(&marked).fetch_one(&mut *conn).await?;
    Ok(rows as u64)
}

/// Deletes the records of accounts that have been deleted since before `before`, whatever their rev: those of a PDS
/// whose clock is ahead have later revs than the deletion. At most `max` records per call. Returns how many.
pub async fn purge_leftovers(db: &Db, before: Timestamp, max: u32) -> Result<u64, StoreError> {
    let find = "SELECT r.collection_id, r.id FROM dids d CROSS JOIN collections c \
                JOIN records r ON r.collection_id = c.id AND r.did_id = d.id \
                WHERE d.status <> 0 AND d.status = $1 AND d.status_changed_at < $2 LIMIT $3";
    let deleted = AccountStatus::Deleted as i16;
    let ids: Vec<(i64, i64)> = on!(db, reader, |pool| {
        sqlx::query_as(find).bind(deleted).bind(before).bind(i64::from(max)).fetch_all(pool).await
    })?;
    if ids.is_empty() {
        return Ok(0);
    }
    let [refs, rows] = match db {
        Db::Sqlite(_) => [
            "DELETE FROM record_refs WHERE record_id IN (SELECT value ->> 1 FROM json_each($1))",
            "DELETE FROM records WHERE id IN (SELECT value ->> 1 FROM json_each($1))",
        ],
        // With the collection, so that one partition is searched for each.
        Db::Postgres(_) => [
            "DELETE FROM record_refs f USING json_array_elements($1::json) v \
             WHERE f.collection_id = (v ->> 0)::bigint AND f.record_id = (v ->> 1)::bigint",
            "DELETE FROM records r USING json_array_elements($1::json) v \
             WHERE r.collection_id = (v ->> 0)::bigint AND r.id = (v ->> 1)::bigint",
        ],
    };
    let ids = to_json_text(&ids);
    Ok(on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        sqlx::query(refs).bind(&ids).execute(&mut *tx).await?;
        let purged = sqlx::query(rows).bind(&ids).execute(&mut *tx).await?.rows_affected();
        tx.commit().await?;
        purged
    }))
}

/// Removes tombstones older than `before`, of records and of repos, at most `max` of each per call. Returns how many.
pub async fn prune_tombstones(db: &Db, before: Timestamp, max: u32) -> Result<u64, StoreError> {
    let records = "DELETE FROM tombstones WHERE (collection_id, did_id, rkey) IN \
                   (SELECT collection_id, did_id, rkey FROM tombstones WHERE deleted_at < $1 LIMIT $2)";
    let repos = "DELETE FROM repo_tombstones WHERE did_id IN \
                 (SELECT did_id FROM repo_tombstones WHERE deleted_at < $1 LIMIT $2)";
    let mut pruned = 0;
    for sql in [repos, records] {
        pruned += on!(db, writer, |pool| {
            sqlx::query(sql).bind(before).bind(i64::from(max)).execute(pool).await?.rows_affected()
        });
    }
    Ok(pruned)
}
