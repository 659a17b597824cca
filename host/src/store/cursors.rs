//! Reads and clears stream cursors. Only [`super::index::apply`] writes them, together with the records that they
//! cover.

use crate::clock::Timestamp;

use super::{Db, StoreError, on};

/// The last committed cursor of a source (Jetstream: microseconds).
pub async fn get(db: &Db, source: &str) -> Result<Option<i64>, StoreError> {
    let sql = "SELECT cursor FROM stream_cursors WHERE source = $1";
    Ok(on!(db, reader, |pool| sqlx::query_scalar(sql).bind(source).fetch_optional(pool).await)?)
}

/// As [`get`], with the time at which the cursor was committed, by the clock of the host that did.
pub async fn position(db: &Db, source: &str) -> Result<Option<(i64, Timestamp)>, StoreError> {
    let sql = "SELECT cursor, updated_at FROM stream_cursors WHERE source = $1";
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).bind(source).fetch_optional(pool).await)?)
}

/// Removes a cursor, so that the stream starts at the live end.
pub async fn clear(db: &Db, source: &str) -> Result<(), StoreError> {
    let sql = "DELETE FROM stream_cursors WHERE source = $1";
    on!(db, writer, |pool| sqlx::query(sql).bind(source).execute(pool).await.map(drop))?;
    Ok(())
}
