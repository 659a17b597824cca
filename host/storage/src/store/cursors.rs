//! Reads and clears stream cursors. Only [`super::index::apply`] writes them, together with the records that they
//! cover.

use belvedere_base::clock::Timestamp;

use super::{Db, StoreError, on};

/// The source of the stream's events. Other rows of the table are those of leases and of the check for writing.
pub const STREAM: &str = "jetstream";

/// The last committed cursor of a source (Jetstream: microseconds).
pub async fn get(db: &Db, source: &str) -> Result<Option<i64>, StoreError> {
    let sql = "SELECT cursor FROM stream_cursors WHERE source = $1";
    Ok(on!(db, reader, |pool| sqlx::query_scalar(sql).bind(source).fetch_optional(pool).await)?)
}

/// A committed cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct StoredCursor {
    pub cursor: i64,
    /// See [`super::index::StreamCursor::commits_until`].
    pub commits_until: Option<i64>,
    /// The time of the commit, by the clock of the host that did it.
    #[sqlx(rename = "updated_at")]
    pub committed_at: Timestamp,
}

/// Like [`get`], with the state of the stream at the cursor.
pub async fn stored(db: &Db, source: &str) -> Result<Option<StoredCursor>, StoreError> {
    let sql = "SELECT cursor, commits_until, updated_at FROM stream_cursors WHERE source = $1";
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).bind(source).fetch_optional(pool).await)?)
}

/// Removes a cursor, so that the stream starts at the live end.
pub async fn clear(db: &Db, source: &str) -> Result<(), StoreError> {
    let sql = "DELETE FROM stream_cursors WHERE source = $1";
    on!(db, writer, |pool| sqlx::query(sql).bind(source).execute(pool).await.map(drop))?;
    Ok(())
}
