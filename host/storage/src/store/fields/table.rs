//! Stores what queries on record fields cost, and the state of the fields' indexes (table `field_indexes`).

use std::collections::HashMap;

use crate::query::path::Path;
use crate::store::{Db, StoreError, on};
use belvedere_base::clock::Timestamp;

use super::{IndexKey, IndexKind};

/// Maximum number of fields without an index; beyond it those with the lowest cost are deleted. More are not in real
/// use: they come from a script that lets its callers choose the field.
const MAX_CANDIDATES: i64 = 1_000;

/// The state of a field's index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The field is in use without an index.
    Candidate = 0,
    Building = 1,
    Ready = 2,
    /// The last build failed; [`FieldIndex::error`] says why.
    Failed = 3,
}

impl State {
    /// The name in the admin API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Candidate => "candidate",
            Self::Building => "building",
            Self::Ready => "ready",
            Self::Failed => "failed",
        }
    }

    fn from_number(number: i64) -> Option<Self> {
        [Self::Candidate, Self::Building, Self::Ready, Self::Failed]
            .into_iter()
            .find(|state| *state as i64 == number)
    }
}

/// A field with its use and its index.
#[derive(Clone, Debug)]
pub struct FieldIndex {
    /// Part of the index's name.
    pub id: i64,
    pub key: IndexKey,
    pub collection: String,
    pub state: State,
    pub calls: i64,
    /// Calls without an index, and their total duration.
    pub scans: i64,
    pub scan_micros: i64,
    pub last_used_at: Timestamp,
    pub state_changed_at: Timestamp,
    pub build_micros: Option<i64>,
    pub error: Option<String>,
}

type Row =
    (i64, i64, String, String, i64, i64, i64, i64, i64, Timestamp, Timestamp, Option<i64>, Option<String>);

const LIST: &str = "SELECT f.id, f.collection_id, c.nsid, f.path, CAST(f.kind AS BIGINT), CAST(f.state AS BIGINT), \
         f.calls, f.scans, f.scan_micros, f.last_used_at, f.state_changed_at, f.build_micros, f.error \
     FROM field_indexes f JOIN collections c ON c.id = f.collection_id ORDER BY f.scan_micros DESC, f.id";

/// Reads all entries, those with the highest cost first.
pub async fn list(db: &Db) -> Result<Vec<FieldIndex>, StoreError> {
    let rows: Vec<Row> = on!(db, reader, |pool| sqlx::query_as(LIST).fetch_all(pool).await)?;
    rows.into_iter().map(entry).collect()
}

fn entry(row: Row) -> Result<FieldIndex, StoreError> {
    let (
        id,
        collection_id,
        collection,
        path,
        kind,
        state,
        calls,
        scans,
        scan_micros,
        used,
        changed,
        build,
        error,
    ) = row;
    let corrupt = || StoreError::Corrupt(format!("field_indexes {id}"));
    let key = IndexKey {
        collection_id,
        path: Path::parse(&path).map_err(|_| corrupt())?,
        kind: IndexKind::from_number(kind).ok_or_else(corrupt)?,
    };
    Ok(FieldIndex {
        id,
        key,
        collection,
        state: State::from_number(state).ok_or_else(corrupt)?,
        calls,
        scans,
        scan_micros,
        last_used_at: used,
        state_changed_at: changed,
        build_micros: build,
        error,
    })
}

/// Stores what was recorded since the last flush, and deletes the candidates with the lowest cost beyond
/// [`MAX_CANDIDATES`]. If it fails, these counts are lost.
pub async fn flush(db: &Db, now: Timestamp) -> Result<(), StoreError> {
    let mut noted: Vec<_> = db.fields().take().into_iter().collect();
    if noted.is_empty() {
        return Ok(());
    }
    // All hosts write in this order, so that two of them can't deadlock.
    noted.sort_by_cached_key(|(key, _)| (key.collection_id, key.path.to_string(), key.kind as i16));
    on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        for (key, used) in &noted {
            let micros = i64::try_from(used.scan_time.as_micros()).unwrap_or(i64::MAX);
            sqlx::query(ADD)
                .bind(key.collection_id)
                .bind(key.path.to_string())
                .bind(key.kind as i16)
                .bind(used.calls as i64)
                .bind(used.scans as i64)
                .bind(micros)
                .bind(now)
                .execute(&mut *tx)
                .await?;
        }
        sqlx::query(FORGET).bind(MAX_CANDIDATES).execute(&mut *tx).await?;
        tx.commit().await?;
    });
    Ok(())
}

const ADD: &str = "INSERT INTO field_indexes \
         (collection_id, path, kind, calls, scans, scan_micros, last_used_at, state_changed_at) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $7) \
     ON CONFLICT (collection_id, path, kind) DO UPDATE SET calls = field_indexes.calls + excluded.calls, \
         scans = field_indexes.scans + excluded.scans, \
         scan_micros = field_indexes.scan_micros + excluded.scan_micros, last_used_at = excluded.last_used_at";

const FORGET: &str = "DELETE FROM field_indexes WHERE state = 0 AND id NOT IN \
     (SELECT id FROM field_indexes WHERE state = 0 ORDER BY scan_micros DESC, id LIMIT $1)";

/// Sets the state of an entry. With `None` the old `build_micros` is kept.
pub async fn set_state(
    db: &Db,
    id: i64,
    state: State,
    build_micros: Option<i64>,
    error: Option<&str>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = "UPDATE field_indexes SET state = $2, build_micros = coalesce($3, build_micros), error = $4, \
               state_changed_at = $5 WHERE id = $1";
    on!(db, writer, |pool| {
        sqlx::query(sql)
            .bind(id)
            .bind(state as i16)
            .bind(build_micros)
            .bind(error)
            .bind(now)
            .execute(pool)
            .await
            .map(drop)
    })?;
    Ok(())
}

/// Deletes an entry. Its index must have been dropped.
pub async fn remove(db: &Db, id: i64) -> Result<(), StoreError> {
    on!(db, writer, |pool| {
        sqlx::query("DELETE FROM field_indexes WHERE id = $1").bind(id).execute(pool).await.map(drop)
    })?;
    Ok(())
}

/// Reloads which indexes are ready. Reads of this process use them from then on.
pub async fn refresh(db: &Db) -> Result<(), StoreError> {
    let ready: HashMap<IndexKey, i64> = list(db)
        .await?
        .into_iter()
        .filter(|entry| entry.state == State::Ready)
        .map(|entry| (entry.key, entry.id))
        .collect();
    db.fields().set_ready(ready);
    Ok(())
}
