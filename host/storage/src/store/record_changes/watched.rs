//! The collections that live queries read, whose changes are noted without their records (ADR 169).

use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Nsid;

use crate::store::{Db, StoreError, intern, on};

/// Time for which changes are noted after the last use of a collection, in seconds: the triggers are not replaced each time
/// that a client connects and leaves.
const WATCHED_FOR: i64 = 86_400;

/// Time after which a use is stored again, in seconds.
const RENEWED_AFTER: i64 = 3_600;

/// The first use of a collection that still counts.
pub fn watched_since(now: Timestamp) -> Timestamp {
    now.plus_seconds(-WATCHED_FOR)
}

/// Stores that a live query reads these collections. Their changes are noted after a call of [`super::follow`].
///
/// # Errors
/// When the database fails.
pub async fn watch<'a>(
    db: &Db,
    collections: impl Iterator<Item = &'a Nsid>,
    now: Timestamp,
) -> Result<(), StoreError> {
    for collection in intern::collections(db, collections).await?.into_values() {
        let used_at = "SELECT used_at FROM watched_collections WHERE collection_id = $1";
        let used_at: Option<Timestamp> = on!(db, reader, |pool| {
            sqlx::query_scalar(used_at).bind(collection.id).fetch_optional(pool).await
        })?;
        if used_at.is_some_and(|used_at| used_at >= now.plus_seconds(-RENEWED_AFTER)) {
            continue;
        }
        let put = "INSERT INTO watched_collections (collection_id, used_at) VALUES ($1, $2) \
                   ON CONFLICT (collection_id) DO UPDATE SET used_at = excluded.used_at";
        on!(db, writer, |pool| {
            sqlx::query(put).bind(collection.id).bind(now).execute(pool).await?.rows_affected()
        });
    }
    Ok(())
}

/// Deletes uses that no longer count.
///
/// # Errors
/// When the database fails.
pub async fn forget(db: &Db, now: Timestamp) -> Result<(), StoreError> {
    let sql = "DELETE FROM watched_collections WHERE used_at < $1";
    on!(db, writer, |pool| sqlx::query(sql).bind(watched_since(now)).execute(pool).await?.rows_affected());
    Ok(())
}
