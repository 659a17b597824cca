//! Stores the recordings of scripts and their runs, which have no secrets.

use belvedere_base::clock::Timestamp;

use super::{Db, StoreError, in_transaction, on};

/// Runs kept of each script.
pub const MAX_RUNS: i64 = 20_000;

/// Bytes of the runs kept of each script, so that a forgotten recording does not fill the disk.
pub const MAX_BYTES: i64 = 128 << 20;

/// The recording of a script, which goes on or has ended.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct RecordingRow {
    pub script_id: String,
    /// Percent of the runs.
    pub percent: i64,
    pub until: Timestamp,
    pub started_by: String,
    /// The time at which it was started. No other recording of the script has it.
    pub started_at: Timestamp,
}

/// The number and the size of the runs of a script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, sqlx::FromRow)]
pub struct RecordedSize {
    pub runs: i64,
    pub bytes: i64,
}

/// A stored run.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct RecordedRow {
    pub id: i64,
    pub recorded_at: Timestamp,
    pub data: Vec<u8>,
}

/// All recordings.
pub async fn list(db: &Db) -> Result<Vec<RecordingRow>, StoreError> {
    let sql = "SELECT script_id, percent, until, started_by, started_at FROM recordings ORDER BY script_id";
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).fetch_all(pool).await)?)
}

/// The recording of a script.
pub async fn get(db: &Db, script_id: &str) -> Result<Option<RecordingRow>, StoreError> {
    let sql = "SELECT script_id, percent, until, started_by, started_at FROM recordings WHERE script_id = $1";
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).bind(script_id).fetch_optional(pool).await)?)
}

/// Recordings at once, so that together they take a few GiB at most.
pub const MAX_RECORDINGS: i64 = 20;

/// Starts a recording, or changes one. `false` when there is no such script, or [`MAX_RECORDINGS`] others.
pub async fn set(db: &Db, row: &RecordingRow) -> Result<bool, StoreError> {
    let sql = "INSERT INTO recordings (script_id, percent, until, started_by, started_at) \
               SELECT $1, $2, $3, $4, $5 WHERE EXISTS (SELECT 1 FROM scripts WHERE id = $1) \
                   AND (SELECT count(*) FROM recordings WHERE script_id <> $1) < $6 \
               ON CONFLICT (script_id) DO UPDATE SET percent = excluded.percent, until = excluded.until";
    let changed = on!(db, writer, |pool| {
        sqlx::query(sql)
            .bind(&row.script_id)
            .bind(row.percent)
            .bind(row.until)
            .bind(&row.started_by)
            .bind(row.started_at)
            .bind(MAX_RECORDINGS)
            .execute(pool)
            .await?
            .rows_affected()
    });
    Ok(changed > 0)
}

/// Removes a recording with its runs, also with the script in the transaction that deletes it. Parameter: id.
pub(super) const DROP_RECORDING: [&str; 2] =
    ["DELETE FROM recordings WHERE script_id = $1", "DELETE FROM recorded_runs WHERE script_id = $1"];

/// Removes a recording with its runs. `false` when there is none.
pub async fn delete(db: &Db, script_id: &str) -> Result<bool, StoreError> {
    Ok(in_transaction!(db, |tx| {
        let mut removed = 0;
        for sql in DROP_RECORDING {
            removed += sqlx::query(sql).bind(script_id).execute(&mut *tx).await?.rows_affected();
        }
        removed > 0
    }))
}

/// A run to store.
#[derive(Clone, Debug)]
pub struct NewRun {
    pub script_id: String,
    /// The start of the recording.
    pub started_at: Timestamp,
    pub recorded_at: Timestamp,
    pub data: Vec<u8>,
}

/// Stores runs in one transaction, except those whose recording does not exist any more.
pub async fn add(db: &Db, runs: &[NewRun]) -> Result<(), StoreError> {
    let sql = "INSERT INTO recorded_runs (script_id, recorded_at, bytes, data) \
               SELECT $1, $3, $4, $5 WHERE EXISTS (\
                   SELECT 1 FROM recordings WHERE script_id = $1 AND started_at = $2)";
    in_transaction!(db, |tx| {
        for run in runs {
            let bytes = i64::try_from(run.data.len()).unwrap_or(i64::MAX);
            sqlx::query(sql)
                .bind(&run.script_id)
                .bind(run.started_at)
                .bind(run.recorded_at)
                .bind(bytes)
                .bind(&run.data)
                .execute(&mut *tx)
                .await?;
        }
    });
    Ok(())
}

/// Removes the oldest runs of a script above [`MAX_RUNS`] and [`MAX_BYTES`].
pub async fn trim(db: &Db, script_id: &str) -> Result<(), StoreError> {
    let sql = "DELETE FROM recorded_runs WHERE script_id = $1 AND id IN (\
                   SELECT id FROM (\
                       SELECT id, row_number() OVER (ORDER BY id DESC) AS n, sum(bytes) OVER (ORDER BY id DESC) AS total \
                       FROM recorded_runs WHERE script_id = $1) AS runs \
                   WHERE n > $2 OR total > $3)";
    on!(db, writer, |pool| {
        sqlx::query(sql).bind(script_id).bind(MAX_RUNS).bind(MAX_BYTES).execute(pool).await?;
    });
    Ok(())
}

/// Removes runs that were recorded before a time, and the recordings that ended before it.
pub async fn remove_old(db: &Db, before: Timestamp) -> Result<(), StoreError> {
    let statements =
        ["DELETE FROM recorded_runs WHERE recorded_at < $1", "DELETE FROM recordings WHERE until < $1"];
    for sql in statements {
        on!(db, writer, |pool| {
            sqlx::query(sql).bind(before).execute(pool).await?;
        });
    }
    Ok(())
}

/// The number and the size of a script's runs.
pub async fn size(db: &Db, script_id: &str) -> Result<RecordedSize, StoreError> {
    let sql = "SELECT count(*) AS runs, CAST(coalesce(sum(bytes), 0) AS BIGINT) AS bytes \
               FROM recorded_runs WHERE script_id = $1";
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).bind(script_id).fetch_one(pool).await)?)
}

/// Runs of a script before the one with this id, newest first.
pub async fn runs(db: &Db, script_id: &str, before: i64, limit: i64) -> Result<Vec<RecordedRow>, StoreError> {
    let sql = "SELECT id, recorded_at, data FROM recorded_runs WHERE script_id = $1 AND id < $2 \
               ORDER BY id DESC LIMIT $3";
    Ok(on!(db, reader, |pool| sqlx::query_as(sql)
        .bind(script_id)
        .bind(before)
        .bind(limit)
        .fetch_all(pool)
        .await)?)
}
