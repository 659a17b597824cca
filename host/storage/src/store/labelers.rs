//! Stores the labelers that the server follows, and how far it has read each. A cursor moves only in the transaction
//! that stores the labels before it.

use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Did;

use super::labels::{self, Label};
use super::text_enum::text_enum;
use super::{Db, StoreError, on, only_row};

#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct LabelerRow {
    pub did: String,
    pub status: LabelerStatus,
    /// The number of the last message whose labels are stored; `None` before the first.
    pub cursor: Option<i64>,
    /// The id of the open connection.
    pub connection: Option<String>,
    pub last_error: Option<String>,
    pub last_error_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

text_enum! {
    pub enum LabelerStatus {
        Active = "active",
        /// Not followed; its labels stay in force.
        Paused = "paused",
        /// Its labels are being removed, and then its row. Not shown any more.
        Deleting = "deleting",
    }
}

/// The result of adding a labeler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    New,
    Exists,
    /// It was deleted, and its labels are still being removed.
    Deleting,
}

const COLUMNS: &str = "did, status, cursor, connection, last_error, last_error_at, created_at, updated_at";

/// All labelers, also those that are being deleted, oldest first.
pub async fn list(db: &Db) -> Result<Vec<LabelerRow>, StoreError> {
    let sql = sqlx::AssertSqlSafe(format!("SELECT {COLUMNS} FROM labelers ORDER BY created_at, did"));
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).fetch_all(pool).await)?)
}

pub async fn get(db: &Db, did: &str) -> Result<Option<LabelerRow>, StoreError> {
    let sql = sqlx::AssertSqlSafe(format!("SELECT {COLUMNS} FROM labelers WHERE did = $1"));
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).bind(did).fetch_optional(pool).await)?)
}

/// Adds an active labeler. One that exists stays as it is.
pub async fn create(db: &Db, did: &Did, now: Timestamp) -> Result<Added, StoreError> {
    let sql = "INSERT INTO labelers (did, status, created_at, updated_at) VALUES ($1, 'active', $2, $2) \
               ON CONFLICT (did) DO NOTHING";
    let added = on!(db, writer, |pool| {
        sqlx::query(sql).bind(did.as_str()).bind(now).execute(pool).await?.rows_affected()
    });
    if added > 0 {
        return Ok(Added::New);
    }
    let found = get(db, did.as_str()).await?;
    Ok(if found.is_some_and(|row| row.status == LabelerStatus::Deleting) {
        Added::Deleting
    } else {
        Added::Exists
    })
}

/// Changes the status of a labeler that is not being deleted, and returns its row. `None` when there is none.
pub async fn set_status(
    db: &Db,
    did: &str,
    status: LabelerStatus,
    now: Timestamp,
) -> Result<Option<LabelerRow>, StoreError> {
    let sql = sqlx::AssertSqlSafe(format!(
        "UPDATE labelers SET status = $2, updated_at = $3 WHERE did = $1 AND status <> 'deleting' RETURNING {COLUMNS}"
    ));
    let rows = on!(db, writer, |pool| {
        sqlx::query_as(sql).bind(did).bind(status).bind(now).fetch_all(pool).await?
    });
    Ok(only_row(rows))
}

/// Stores that a labeler is connected, under the id of the connection.
pub async fn set_connected(db: &Db, did: &Did, connection: &str) -> Result<(), StoreError> {
    let sql = "UPDATE labelers SET connection = $2 WHERE did = $1 AND status = 'active'";
    on!(db, writer, |pool| {
        sqlx::query(sql).bind(did.as_str()).bind(connection).execute(pool).await.map(drop)
    })?;
    Ok(())
}

/// Stores that a connection has ended, or without one that an attempt failed, and an error, which replaces the last one.
/// Does nothing when the labeler has another connection by now, which is another host's.
pub async fn set_disconnected(
    db: &Db,
    did: &Did,
    connection: Option<&str>,
    error: Option<&str>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = "UPDATE labelers SET connection = NULL, last_error = coalesce($3, last_error), \
                   last_error_at = CASE WHEN $3 IS NULL THEN last_error_at ELSE $4 END \
               WHERE did = $1 AND connection IS NOT DISTINCT FROM $2";
    on!(db, writer, |pool| {
        sqlx::query(sql)
            .bind(did.as_str())
            .bind(connection)
            .bind(error)
            .bind(now)
            .execute(pool)
            .await
            .map(drop)
    })?;
    Ok(())
}

/// Marks all labelers as not connected: the host that followed them has ended.
pub async fn disconnect_all(db: &Db) -> Result<(), StoreError> {
    let sql = "UPDATE labelers SET connection = NULL WHERE connection IS NOT NULL";
    on!(db, writer, |pool| sqlx::query(sql).execute(pool).await.map(drop))?;
    Ok(())
}

/// Moves the cursor. Changes nothing unless the labeler is active and its cursor is the expected one.
const MOVE_CURSOR: &str = "UPDATE labelers SET cursor = $3 WHERE did = $1 AND status = 'active' \
                           AND cursor IS NOT DISTINCT FROM $2";

/// Stores labels that were received at a time and moves the cursor `from` → `to` in one transaction. `false`, and nothing is stored, when the labeler
/// is not active any more or its cursor is not `from`: it was deleted or paused, or another host follows it.
pub async fn store(
    db: &Db,
    did: &Did,
    from: Option<i64>,
    to: Option<i64>,
    labels: &[Label],
    received: Timestamp,
) -> Result<bool, StoreError> {
    let rows = labels::rows(labels, received);
    let moved = match db {
        Db::Sqlite(db) => {
            let mut tx = db.writer.begin().await?;
            let moved = sqlx::query(MOVE_CURSOR).bind(did.as_str()).bind(from).bind(to);
            let moved = moved.execute(&mut *tx).await?.rows_affected() > 0;
            if moved {
                for rows in rows {
                    sqlx::query(labels::PUT_SQLITE).bind(rows).execute(&mut *tx).await?;
                }
                tx.commit().await?;
            }
            moved
        }
        Db::Postgres(db) => {
            let mut tx = db.writer().begin().await?;
            let moved = sqlx::query(MOVE_CURSOR).bind(did.as_str()).bind(from).bind(to);
            let moved = moved.execute(&mut *tx).await?.rows_affected() > 0;
            if moved {
                for rows in rows {
                    sqlx::query(labels::PUT_POSTGRES).bind(rows).execute(&mut *tx).await?;
                }
                tx.commit().await?;
            }
            moved
        }
    };
    Ok(moved)
}

/// Sets the cursor back, so that the labeler is read from there again. `false` under the conditions of [`store`].
pub async fn rewind(db: &Db, did: &Did, from: Option<i64>, to: Option<i64>) -> Result<bool, StoreError> {
    let moved = on!(db, writer, |pool| {
        let moved = sqlx::query(MOVE_CURSOR).bind(did.as_str()).bind(from).bind(to);
        moved.execute(pool).await?.rows_affected()
    });
    Ok(moved > 0)
}

/// Removes the row of a labeler whose labels have been removed.
pub async fn remove(db: &Db, did: &str) -> Result<(), StoreError> {
    let sql = "DELETE FROM labelers WHERE did = $1 AND status = 'deleting'";
    on!(db, writer, |pool| sqlx::query(sql).bind(did).execute(pool).await.map(drop))?;
    Ok(())
}
