//! Stream cursors. They are written by [`super::index::apply`] alone, with the records they cover.

use super::{Db, StoreError};

/// The last committed cursor of a source (Jetstream: microseconds).
pub async fn get(_db: &Db, _source: &str) -> Result<Option<i64>, StoreError> {
    todo!()
}

/// Forgets a cursor, so that the stream starts at the live end.
pub async fn clear(_db: &Db, _source: &str) -> Result<(), StoreError> {
    todo!()
}
