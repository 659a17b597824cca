//! The progress of validating the records of each collection again.

use crate::query::Keyset;
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Nsid;

use super::{Db, StoreError, intern, on};

/// The state of one collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validation {
    /// The fingerprint of the lexicons that its records are validated against.
    pub fingerprint: i64,
    /// The time at which a host noticed these lexicons.
    pub noticed_at: Timestamp,
    /// The passes over all records that are complete.
    pub passes: i64,
    /// The last record that the current pass has checked.
    pub after: Keyset,
}

/// The keyset before the first record.
pub const START: Keyset = Keyset { indexed_at: Timestamp(i64::MIN), id: i64::MIN };

/// The number of a collection, which is assigned if it has none.
pub async fn collection_id(db: &Db, collection: &Nsid) -> Result<i64, StoreError> {
    let found = intern::collections(db, std::iter::once(collection)).await?;
    let found =
        found.get(collection).ok_or_else(|| StoreError::Corrupt("a collection has no number".into()))?;
    Ok(found.id)
}

pub async fn get(db: &Db, collection: i64) -> Result<Option<Validation>, StoreError> {
    let sql = "SELECT fingerprint, noticed_at, passes, after_indexed_at, after_id FROM validations \
               WHERE collection_id = $1";
    let row: Option<(i64, Timestamp, i64, Timestamp, i64)> =
        on!(db, reader, |pool| sqlx::query_as(sql).bind(collection).fetch_optional(pool).await)?;
    Ok(row.map(|(fingerprint, noticed_at, passes, indexed_at, id)| Validation {
        fingerprint,
        noticed_at,
        passes,
        after: Keyset { indexed_at, id },
    }))
}

pub async fn set(db: &Db, collection: i64, state: &Validation) -> Result<(), StoreError> {
    let sql = "INSERT INTO validations (collection_id, fingerprint, noticed_at, passes, after_indexed_at, after_id) \
               VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (collection_id) DO UPDATE SET \
                   fingerprint = excluded.fingerprint, noticed_at = excluded.noticed_at, \
                   passes = excluded.passes, after_indexed_at = excluded.after_indexed_at, \
                   after_id = excluded.after_id";
    on!(db, writer, |pool| {
        sqlx::query(sql)
            .bind(collection)
            .bind(state.fingerprint)
            .bind(state.noticed_at)
            .bind(state.passes)
            .bind(state.after.indexed_at)
            .bind(state.after.id)
            .execute(pool)
            .await?;
    });
    Ok(())
}
