//! References of records that were stored before references had paths: a task of the server reads these records again.

use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Nsid;

use super::super::{Db, StoreError, intern, on};
use super::{Reread, postgres, sqlite};
use crate::query::Keyset;

/// A collection with such records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    pub collection: Nsid,
    /// The last record that was read, in the order in which they were indexed.
    pub after: Keyset,
}

/// A collection that is still to be read; `None`: all are done.
pub async fn next(db: &Db) -> Result<Option<Unread>, StoreError> {
    let sql = "SELECT c.nsid, u.after_indexed_at, u.after_id FROM unread_refs u \
               JOIN collections c ON c.id = u.collection_id ORDER BY u.collection_id LIMIT 1";
    let row: Option<(String, Timestamp, i64)> =
        on!(db, reader, |pool| sqlx::query_as(sql).fetch_optional(pool).await)?;
    row.map(|(nsid, indexed_at, id)| {
        let collection =
            Nsid::try_from(nsid.as_str()).map_err(|error| StoreError::Corrupt(error.to_string()))?;
        Ok(Unread { collection, after: Keyset { indexed_at, id } })
    })
    .transpose()
}

/// Notes the last record of a collection that was read; `None`: no more are left.
pub async fn set(db: &Db, collection: &Nsid, after: Option<Keyset>) -> Result<(), StoreError> {
    let Some(collection) = intern::collection(db, collection).await? else { return Ok(()) };
    let done = "DELETE FROM unread_refs WHERE collection_id = $1";
    let update = "UPDATE unread_refs SET after_indexed_at = $2, after_id = $3 WHERE collection_id = $1";
    on!(db, writer, |pool| {
        let query = sqlx::query(if after.is_some() { update } else { done }).bind(collection.id);
        let query = match after {
            Some(Keyset { indexed_at, id }) => query.bind(indexed_at).bind(id),
            None => query,
        };
        query.execute(pool).await?;
    });
    Ok(())
}

/// Replaces the references of records that have not changed since they were read.
pub async fn replace(db: &Db, collection: &Nsid, records: &[Reread]) -> Result<(), StoreError> {
    let Some(collection) = intern::collection(db, collection).await? else { return Ok(()) };
    match db {
        Db::Sqlite(db) => sqlite::replace_refs(db, collection, records).await,
        Db::Postgres(db) => postgres::replace_refs(db, collection, records).await,
    }
}
